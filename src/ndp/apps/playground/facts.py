"""The endpoint of functions that agree with facts."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from fastapi import APIRouter, Request

from ndp.apps.playground.answering import PROBLEMS, answer, find, numbers, observations
from ndp.apps.playground.catalogue import Catalogue, Model
from ndp.apps.playground.costs import given_cost
from ndp.apps.playground.engine import Engine
from ndp.apps.playground.schemas import GivenDraws, GivenRequest
from ndp.apps.playground.tasks import single
from ndp.facts import Bounds, Fact, Integral, Monotone

PARTICLES = 64
INTEGRAL_NOISE = 0.01  # an integral of one is known to a hundredth


def router(catalogue: Catalogue, engine: Engine) -> APIRouter:
    routes = APIRouter(prefix="/api", tags=["functions"], responses=PROBLEMS)

    @routes.post("/given")
    async def given(asked: GivenRequest, request: Request) -> GivenDraws:
        """Functions of the posterior that agree with facts, by `model.condition(x, y).given(*facts)`."""
        model = find(catalogue, asked.model)
        by_experts = getattr(model.process.network, "gate", None) is not None
        cost = given_cost(context=len(asked.context), points=len(asked.at), draws=asked.draws, by_experts=by_experts)
        return await answer(request, engine.run(single(lambda wanted: _draw(model, asked)), asked, cost=cost))

    return routes


def read_facts(names: Sequence[str], low: float, high: float) -> list[Fact]:
    """The facts of these names about functions on [low, high]."""
    known: dict[str, Fact] = {
        "not-negative": Bounds(low=0.0),
        "increasing": Monotone("increasing"),
        "decreasing": Monotone("decreasing"),
        "integral-one": Integral(low, high, 1.0, INTEGRAL_NOISE),
    }
    return [known[name] for name in dict.fromkeys(names)]


def _draw(model: Model, asked: GivenRequest) -> GivenDraws:
    known, at = observations(asked.context), np.array(asked.at)
    noise = known.noise if known.noise.any() else None
    posterior = model.process.condition(known.x, known.y, noise=noise)
    facts = read_facts(asked.facts, float(at.min()), float(at.max()))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        generator = torch.Generator().manual_seed(asked.seed)
        draws = posterior.given(*facts, num_particles=PARTICLES).sample(at, asked.draws, generator=generator)
    return GivenDraws(draws=numbers(draws), warning=" ".join(str(one.message) for one in said))
