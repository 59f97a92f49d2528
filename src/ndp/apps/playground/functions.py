"""The endpoints of the tab Functions: draws, summaries, exact posteriors and densities of a model given points."""

import numpy as np
from fastapi import APIRouter, Request

from ndp.apps.playground.answering import PROBLEMS, answer, find, numbers, observations, summary
from ndp.apps.playground.catalogue import Catalogue, Model
from ndp.apps.playground.engine import Engine, Wanted
from ndp.apps.playground.schemas import (
    Densities,
    DensityRequest,
    DrawRequest,
    Draws,
    Exact,
    ExactRequest,
    State,
    Summary,
    SummaryRequest,
)
from ndp.apps.playground.tasks import Drawn, DrawTask, condition_batch, drawing, noise_of_seed, single
from ndp.core.typing import Moments


def router(catalogue: Catalogue, engine: Engine) -> APIRouter:
    routes = APIRouter(prefix="/api", tags=["functions"], responses=PROBLEMS)

    @routes.post("/draws")
    async def draws(asked: DrawRequest, request: Request) -> Draws:
        """Functions of the posterior, or of the prior if there are no points.

        The numbers are those of `model.condition(x, y).sample(at, draws, steps=steps, generator=...)` with a CPU generator of
        that seed. `trajectory` adds the states of the solver, from noise to function.
        """
        model = find(catalogue, asked.model)
        noise = noise_of_seed(asked.draws, len(asked.at), asked.seed)
        task = DrawTask(observations(asked.context), np.array(asked.at), noise, record=asked.trajectory)
        key = ("draws", model.name, asked.steps, asked.draws, len(asked.at))
        compute = drawing(model.process, asked.steps, engine.pool)
        drawn: Drawn = await answer(request, engine.run(compute, task, batch_key=key))
        states = [State(ratio=ratio, values=numbers(values)) for ratio, values in drawn.states]
        return Draws(draws=numbers(drawn.draws), trajectory=states if asked.trajectory else None)

    @routes.post("/summary")
    async def summarise(asked: SummaryRequest, request: Request) -> Summary:
        """Mean, standard deviation and quantiles at every input, from draws of moment-matched noise."""
        model = find(catalogue, asked.model)

        def compute(wanted: Wanted) -> Summary:
            posterior = condition_batch(model.process, [observations(asked.context)])
            at = np.array(asked.at)[:, None]
            moments, quantiles = posterior.summary(
                at, asked.probabilities, num_samples=asked.num_samples, steps=asked.steps
            )
            return summary(Moments(moments.mean[0], moments.std[0]), quantiles[:, 0])

        return await answer(request, engine.run(single(compute), asked))

    @routes.post("/exact")
    async def exact(asked: ExactRequest, request: Request) -> Exact:
        """The exact posterior of the process that the model was trained on, if it is known for these points.

        Its values carry observation noise if those of the model do.
        """
        model = find(catalogue, asked.model)
        return await answer(request, engine.run(single(lambda wanted: _exact(model, asked)), asked))

    @routes.post("/log-density")
    async def log_density(asked: DensityRequest, request: Request) -> Densities:
        """Exact joint log-density of function values in nats, by the probability-flow ODE."""
        model = find(catalogue, asked.model)

        def compute(wanted: Wanted) -> Densities:
            rows = len(asked.values)
            posterior = condition_batch(model.process, [observations(asked.context)] * rows)
            at = np.array(asked.at)[None, :, None].repeat(rows, axis=0)
            log_p = posterior.log_prob(at, np.array(asked.values), noise=float(asked.noise), steps=asked.steps)
            return Densities(log_density=numbers(log_p))

        return await answer(request, engine.run(single(compute), asked))

    return routes


def _exact(model: Model, asked: ExactRequest) -> Exact:
    title = model.exact_title
    if model.exact is None:
        return Exact(summary=None, title=title, reason="this model has no exact posterior")
    context, at = observations(asked.context), np.array(asked.at)
    # A model that does not separate noise shows values with noise, and is compared with new observations.
    noisy = not model.process.separates_noise
    try:
        posterior = model.exact.condition(context.x, context.y, noise=context.noise if context.noise.any() else None)
        found = summary(*posterior.summary(at, asked.probabilities, observation_noise=noisy))
    except ValueError as error:  # such as points that no step goes through
        return Exact(summary=None, title=title, reason=str(error))
    return Exact(summary=found, title=title)
