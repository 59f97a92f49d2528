"""The endpoints of the tab Optimise: a hidden function, and the search for its minimum one step at a time.

A method is a function from what was asked to a `Step`; a new one is a new entry of `METHODS`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from fastapi import APIRouter, HTTPException, Request
from jaxtyping import Float

from ndp.gp import GP
from ndp.models import regression_gp
from ndp.optimise.thompson import Rule, Thompson
from ndp.randomness import normal
from ndp.serve.answering import PROBLEMS, answer, find, numbers
from ndp.serve.catalogue import Catalogue, Model
from ndp.serve.engine import Engine
from ndp.serve.schemas import HiddenFunction, OptimiseRequest, OptimiseStep, Seed
from ndp.serve.tasks import Drawn, DrawTask, Given, drawing

LOW, HIGH = -2.0, 2.0
RULE = Rule(spread=160, local=48)  # few enough candidates that people can follow the functions
RANDOM_POINTS = 2  # before a model has anything to learn from


@dataclass(frozen=True)
class Hidden:
    """A function on a fine grid, and between its points a straight line."""

    x: Float[np.ndarray, "N"]
    y: Float[np.ndarray, "N"]

    def __call__(self, x: float) -> float:
        return float(np.interp(x, self.x, self.y))


@lru_cache(maxsize=256)
def hidden_function(seed: int) -> Hidden:
    """A draw of a Matern-5/2 process, without noise; the same for every model, so that models can be compared."""
    x = np.linspace(LOW, HIGH, 401)
    gp = GP(regression_gp("matern52").kernel, jitter=1e-6)
    return Hidden(x, np.asarray(gp.sample(x, generator=torch.Generator().manual_seed(seed))))


@dataclass(frozen=True)
class Step:
    """Functions drawn, and where to look next."""

    at: Float[np.ndarray, "M"]
    draws: Float[np.ndarray, "S M"]
    chosen: float


Method = Callable[[OptimiseRequest, Model, Hidden, Engine], Awaitable[Step]]


async def thompson(asked: OptimiseRequest, model: Model, hidden: Hidden, engine: Engine) -> Step:
    """Draw functions and go where the first is lowest: what `ndp.optimise.thompson.Thompson` asks for, draws and all."""
    optimiser = Thompson(
        [[LOW, HIGH]],
        model.process,
        rule=RULE,
        initial=RANDOM_POINTS,
        domain=(model.low, model.high),
        seed=asked.seed,
    )
    for x in asked.evaluated:
        optimiser.tell([x], hidden(x))
    if optimiser.starting:
        ((chosen,),) = optimiser.ask()
        return Step(np.zeros(0), np.zeros((0, 0)), float(chosen))
    inquiry = optimiser.inquiry()
    candidates = inquiry.candidates[:, 0].numpy()
    noise = normal((asked.draws, len(candidates)), inquiry.generator, like=inquiry.y)
    given = Given(inquiry.x[:, 0].numpy(), inquiry.y.numpy(), np.zeros(len(inquiry.y)))
    kind = ("draws", model.name, asked.steps, asked.draws, len(candidates))
    task = DrawTask(given, candidates, noise)
    drawn: Drawn = await engine.run(drawing(model.process, asked.steps, engine.crew), task, kind=kind)
    _, y = optimiser.history.known()
    order = np.argsort(inquiry.points[:, 0], kind="stable")
    unit = y.std() if y.std() > 0 else 1.0  # models see standardised values, people their own
    return Step(
        at=inquiry.points[order, 0],
        draws=y.mean() + unit * drawn.draws[:, order],
        chosen=float(inquiry.points[drawn.draws[0].argmin(), 0]),
    )


METHODS: dict[str, Method] = {"thompson": thompson}


def router(catalogue: Catalogue, engine: Engine) -> APIRouter:
    routes = APIRouter(prefix="/api/optimise", tags=["optimise"], responses=PROBLEMS)

    @routes.get("/methods")
    def methods() -> list[str]:
        """Ways to choose the next point."""
        return list(METHODS)

    @routes.get("/function/{number}")
    def function(number: Seed) -> HiddenFunction:
        """The hidden function itself, for those who want to look."""
        hidden = hidden_function(number)
        best = int(hidden.y.argmin())
        return HiddenFunction(
            x=numbers(hidden.x), y=numbers(hidden.y), best_x=hidden.x[best], best_y=numbers(hidden.y[best])
        )

    @routes.post("/step")
    async def step(asked: OptimiseRequest, request: Request) -> OptimiseStep:
        """Where to look next, the functions that say so, and the value found there."""
        model = find(catalogue, asked.model)
        if asked.method not in METHODS:
            raise HTTPException(422, f"there is no such method; the methods are: {', '.join(METHODS)}")
        hidden = hidden_function(asked.function)
        found = await answer(request, METHODS[asked.method](asked, model, hidden, engine))
        values = np.array([hidden(x) for x in (*asked.evaluated, found.chosen)])
        return OptimiseStep(
            at=numbers(found.at),
            draws=numbers(found.draws),
            chosen=numbers(found.chosen),
            value=numbers(values[-1]),
            regret=numbers(np.minimum.accumulate(values) - hidden.y.min()),
        )

    return routes
