"""The endpoints of the tab Optimise: a hidden function, and the search for its minimum one step at a time.

A method is a function from what was asked to a `Step`; a new one is a new entry of `METHODS`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from fastapi import APIRouter, HTTPException, Request
from jaxtyping import Float
from torch import Tensor

from ndp.apps.playground.answering import PROBLEMS, answer, find, numbers
from ndp.apps.playground.catalogue import Catalogue
from ndp.apps.playground.engine import Engine, UnwantedError, Wanted
from ndp.apps.playground.schemas import HiddenFunction, OptimiseRequest, OptimiseStep, Seed
from ndp.apps.playground.tasks import Drawn, DrawTask, Given, alone, drawing
from ndp.core.randomness import normal
from ndp.diffusion.solvers import dpm_solver, watched
from ndp.gp.exact import GP
from ndp.models.registry import regression_gp
from ndp.optimise.joint_search import STEPS, JointSearch
from ndp.optimise.thompson import Rule, Thompson

LOW, HIGH = -2.0, 2.0
RULE = Rule(spread=160, local=48)  # few enough candidates that people can follow the functions
RANDOM_POINTS = 2  # before a model has anything to learn from
PLACES = 200  # draws of x* that make a histogram


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
    """Where to look next, and what says so: functions drawn, or a value asked for and the places drawn for it."""

    chosen: float
    at: Float[np.ndarray, "M"] = field(default_factory=lambda: np.zeros(0))
    draws: Float[np.ndarray, "S M"] = field(default_factory=lambda: np.zeros((0, 0)))
    target: float | None = None
    places: Float[np.ndarray, "K"] = field(default_factory=lambda: np.zeros(0))


Method = Callable[[OptimiseRequest, Catalogue, Hidden, Engine], Awaitable[Step]]


async def thompson(asked: OptimiseRequest, catalogue: Catalogue, hidden: Hidden, engine: Engine) -> Step:
    """Draw functions and go where the first is lowest: what `ndp.optimise.thompson.Thompson` asks for, draws and all."""
    model = find(catalogue, asked.model)
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
        return Step(float(chosen))
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


async def joint(asked: OptimiseRequest, catalogue: Catalogue, hidden: Hidden, engine: Engine) -> Step:
    """Ask where a value below the best would be, and go there: what `ndp.optimise.joint_search.JointSearch` asks for.

    More draws of the same law show where else it might have gone.
    """
    if asked.model not in catalogue.joint:
        raise HTTPException(422, f"there is no such joint model; they are: {', '.join(catalogue.joint)}")
    model = catalogue.joint[asked.model]

    def compute(wanted: Wanted) -> Step:
        def check(x: Tensor, level: Tensor) -> None:
            if not wanted():
                raise UnwantedError

        options: dict[str, Any] = {"steps": STEPS, "solver": watched(dpm_solver, check)}
        search = JointSearch([[LOW, HIGH]], model, initial=RANDOM_POINTS, seed=asked.seed, sample_options=options)
        for x in asked.evaluated:
            search.tell([x], hidden(x))
        ((chosen,),) = search.ask()
        if search.starting:
            return Step(float(chosen))
        question = search.question()
        law = model.condition(question.x, question.y)
        generator = torch.Generator().manual_seed(asked.seed)
        drawn = law.sample_inputs(question.y_star, PLACES, generator=generator, **options)
        return Step(
            float(chosen),
            target=search.to_value(question.y_star),
            places=search.to_bounds(torch.as_tensor(drawn))[:, 0],
        )

    return await engine.run(alone(compute), asked, kind=object())


METHODS: dict[str, Method] = {"thompson": thompson, "joint": joint}


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
        """Where to look next, the functions or places that say so, and the value found there.

        The method `thompson` takes a model of functions, and `joint` the model of that name.
        """
        if asked.method not in METHODS:
            raise HTTPException(422, f"there is no such method; the methods are: {', '.join(METHODS)}")
        hidden = hidden_function(asked.function)
        found = await answer(request, METHODS[asked.method](asked, catalogue, hidden, engine))
        values = np.array([hidden(x) for x in (*asked.evaluated, found.chosen)])
        return OptimiseStep(
            at=numbers(found.at),
            draws=numbers(found.draws),
            chosen=numbers(found.chosen),
            value=numbers(values[-1]),
            target=None if found.target is None else numbers(found.target),
            places=numbers(found.places),
            regret=numbers(np.minimum.accumulate(values) - hidden.y.min()),
        )

    return routes
