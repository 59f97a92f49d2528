"""The endpoints of the tab Functions: draws, summaries, exact posteriors and densities of a model given points."""

import numpy as np
from fastapi import APIRouter, Request
from jaxtyping import Float
from torch import Tensor

from ndp.apps.playground.answering import PROBLEMS, answer, find, numbers, observations, summary
from ndp.apps.playground.catalogue import Catalogue, Model
from ndp.apps.playground.costs import EXACT, density_cost
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
from ndp.apps.playground.tasks import (
    Drawn,
    DrawTask,
    draw_in_batch,
    log_densities,
    matched_noise,
    noise_of_seed,
    single,
)
from ndp.core.typing import Moments


def router(catalogue: Catalogue, engine: Engine) -> APIRouter:
    routes = APIRouter(prefix="/api", tags=["functions"], responses=PROBLEMS)

    async def draw(
        model: Model, asked: ExactRequest | DrawRequest, noise: Float[Tensor, "S M"], steps: int, record: bool = False
    ) -> Drawn:
        task = DrawTask(observations(asked.context), np.array(asked.at), noise, record)
        return await draw_in_batch(engine, model.name, model.process, task, steps)

    @routes.post("/draws")
    async def draws(asked: DrawRequest, request: Request) -> Draws:
        """Functions of the posterior, or of the prior if there are no points.

        The numbers are those of `model.condition(x, y).sample(at, draws, steps=steps, generator=...)` with a CPU generator of
        that seed. `trajectory` adds the states of the solver, from noise to function.
        """
        model = find(catalogue, asked.model)
        noise = noise_of_seed(asked.draws, len(asked.at), asked.seed)
        drawn = await answer(request, draw(model, asked, noise, asked.steps, record=asked.trajectory))
        states = [State(ratio=ratio, values=numbers(values)) for ratio, values in drawn.states]
        return Draws(draws=numbers(drawn.draws), trajectory=states if asked.trajectory else None)

    @routes.post("/summary")
    async def summarise(asked: SummaryRequest, request: Request) -> Summary:
        """Mean, standard deviation and quantiles at every input, from draws of moment-matched noise."""
        model = find(catalogue, asked.model)
        drawn = await answer(request, draw(model, asked, matched_noise(asked.num_samples, len(asked.at)), asked.steps))
        moments = Moments(drawn.draws.mean(0), drawn.draws.std(0))
        return summary(moments, np.quantile(drawn.draws, asked.probabilities, axis=0))

    @routes.post("/exact")
    async def exact(asked: ExactRequest, request: Request) -> Exact:
        """The exact posterior of the process that the model was trained on, if it is known for these points.

        Its values carry observation noise if those of the model do.
        """
        model = find(catalogue, asked.model)
        return await answer(request, engine.run(single(lambda wanted: _exact(model, asked)), asked, cost=EXACT))

    @routes.post("/log-density")
    async def log_density(asked: DensityRequest, request: Request) -> Densities:
        """Exact joint log-density of function values in nats, by the probability-flow ODE."""
        model = find(catalogue, asked.model)

        def compute(wanted: Wanted) -> Densities:
            log_p = log_densities(
                model.process,
                observations(asked.context),
                np.array(asked.at),
                np.array(asked.values),
                noise=float(asked.noise),
                steps=asked.steps,
                pool=engine.pool,
                wanted=wanted,
            )
            return Densities(log_density=numbers(log_p))

        cost = density_cost(
            context=len(asked.context), points=len(asked.at), functions=len(asked.values), steps=asked.steps
        )
        return await answer(request, engine.run(single(compute), asked, cost=cost))

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
