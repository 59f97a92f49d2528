"""The endpoints of the tab Functions: draws, summaries, exact posteriors and densities of a model given points."""

from typing import Any

import numpy as np
from fastapi import APIRouter, Request

from ndp.apps.playground.answering import PROBLEMS, answer, find, given, numbers, summary
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
from ndp.apps.playground.tasks import Drawn, DrawTask, alone, condition_together, drawing, noise_of_seed


def router(catalogue: Catalogue, engine: Engine) -> APIRouter:
    routes = APIRouter(prefix="/api", tags=["functions"], responses=PROBLEMS)

    @routes.post("/draws")
    async def draws(asked: DrawRequest, request: Request) -> Draws:
        """Functions of the posterior, or of the prior where no points are given.

        The same numbers as `model.condition(x, y).sample(at, draws, steps=steps, generator=...)` with a CPU generator of that
        seed. `trajectory` adds the states of the solver, from noise on.
        """
        model = find(catalogue, asked.model)
        noise = noise_of_seed(asked.draws, len(asked.at), asked.seed)
        task = DrawTask(given(asked.context), np.array(asked.at), noise, record=asked.trajectory)
        kind = ("draws", model.name, asked.steps, asked.draws, len(asked.at))
        drawn: Drawn = await answer(
            request, engine.run(drawing(model.process, asked.steps, engine.crew), task, kind=kind)
        )
        states = [State(ratio=ratio, values=numbers(values)) for ratio, values in drawn.states]
        return Draws(draws=numbers(drawn.draws), trajectory=states if asked.trajectory else None)

    @routes.post("/summary")
    async def summarise(asked: SummaryRequest, request: Request) -> Summary:
        """Mean, standard deviation and quantiles at every input, from draws of moment-matched noise."""
        model = find(catalogue, asked.model)

        def compute(wanted: Wanted) -> Summary:
            posterior = condition_together(model.process, [given(asked.context)])
            options: dict[str, Any] = {"num_samples": asked.num_samples, "steps": asked.steps}
            at = np.array(asked.at)[:, None]
            moments = posterior.moments(at, **options)
            quantiles = posterior.quantiles(at, asked.probabilities, **options)
            return summary(type(moments)(moments.mean[0], moments.std[0]), quantiles[:, 0])

        return await answer(request, engine.run(alone(compute), asked, kind=object()))

    @routes.post("/exact")
    async def exact(asked: ExactRequest, request: Request) -> Exact:
        """The exact posterior of the process that the model was trained on, where there is one for these points."""
        model = find(catalogue, asked.model)
        return await answer(request, engine.run(alone(lambda wanted: _exact(model, asked)), asked, kind=object()))

    @routes.post("/log-density")
    async def log_density(asked: DensityRequest, request: Request) -> Densities:
        """Joint log-density of function values in nats, exactly, by the probability-flow ODE."""
        model = find(catalogue, asked.model)

        def compute(wanted: Wanted) -> Densities:
            rows = len(asked.values)
            posterior = condition_together(model.process, [given(asked.context)] * rows)
            at = np.array(asked.at)[None, :, None].repeat(rows, axis=0)
            log_p = posterior.log_prob(at, np.array(asked.values), noise=float(asked.noise), steps=asked.steps)
            return Densities(log_density=numbers(log_p))

        return await answer(request, engine.run(alone(compute), asked, kind=object()))

    return routes


def _exact(model: Model, asked: ExactRequest) -> Exact:
    title = model.exact_title
    if model.exact is None:
        return Exact(summary=None, title=title, reason="nothing exact is known of this model")
    context, at = given(asked.context), np.array(asked.at)
    try:
        posterior = model.exact.condition(context.x, context.y, noise=context.noise if context.noise.any() else None)
        return Exact(summary=summary(posterior.moments(at), posterior.quantiles(at, asked.probabilities)), title=title)
    except ValueError as error:  # such as a step that cannot go through these points
        return Exact(summary=None, title=title, reason=str(error))
