"""The endpoints of the tab Optimise: a hidden function, and the search for its minimum one step at a time.

A method is a function from a request to a `Step`, and an entry of `METHODS`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from fastapi import APIRouter, HTTPException, Request
from jaxtyping import Float
from torch import Tensor

from ndp.apps.playground.answering import PROBLEMS, answer, find, numbers
from ndp.apps.playground.catalogue import Catalogue
from ndp.apps.playground.costs import JOINT_STEP
from ndp.apps.playground.engine import Engine, UnwantedError, Wanted
from ndp.apps.playground.schemas import HiddenFunction, OptimiseRequest, OptimiseStep, Seed
from ndp.apps.playground.tasks import DrawTask, Observations, draw_in_batch, single
from ndp.core.randomness import normal
from ndp.diffusion.solvers import dpm_solver, watched
from ndp.gp.exact import GP
from ndp.gp.named import regression_gp
from ndp.optimise.joint_search import STEPS, JointSearch
from ndp.optimise.thompson import Rule, Thompson

LOW, HIGH = -2.0, 2.0
RULE = Rule(spread=160, local=48)  # few enough candidates to show the functions through them
RANDOM_POINTS = 2  # evaluations before the model is asked
PLACES = 200  # draws of x* in the histogram


@dataclass(frozen=True)
class Hidden:
    """A function on a fine grid, with straight lines between its points."""

    x: Float[np.ndarray, "N"]
    y: Float[np.ndarray, "N"]

    def __call__(self, x: float) -> float:
        return float(np.interp(x, self.x, self.y))


@lru_cache(maxsize=256)
def hidden_function(seed: int) -> Hidden:
    """A draw of a Matern-5/2 process without noise. It is the same for every model, so that models can be compared."""
    x = np.linspace(LOW, HIGH, 401)
    gp = GP(regression_gp("matern52").kernel, jitter=1e-6)
    return Hidden(x, np.asarray(gp.sample(x, generator=torch.Generator().manual_seed(seed))))


@dataclass(frozen=True)
class Step:
    """The next point, and its reason: functions drawn at `at`, or the value y* with inputs drawn for it."""

    chosen: float
    at: Float[np.ndarray, "M"] = field(default_factory=lambda: np.zeros(0))
    draws: Float[np.ndarray, "S M"] = field(default_factory=lambda: np.zeros((0, 0)))
    target: float | None = None
    places: Float[np.ndarray, "K"] = field(default_factory=lambda: np.zeros(0))


Method = Callable[[OptimiseRequest, Catalogue, Hidden, Engine], Awaitable[Step]]


async def thompson(asked: OptimiseRequest, catalogue: Catalogue, hidden: Hidden, engine: Engine) -> Step:
    """Draw functions and choose the minimum of the first one, as `ndp.optimise.thompson.Thompson` does."""
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
    known = Observations(inquiry.x[:, 0].numpy(), inquiry.y.numpy(), np.zeros(len(inquiry.y)))
    drawn = await draw_in_batch(engine, model.name, model.process, DrawTask(known, candidates, noise), asked.steps)
    order = np.argsort(inquiry.points[:, 0], kind="stable")
    functions = inquiry.units.from_model_y(torch.from_numpy(drawn.draws)[..., None])[..., 0].numpy()
    return Step(
        at=inquiry.points[order, 0],
        draws=functions[:, order],
        chosen=float(inquiry.points[drawn.draws[0].argmin(), 0]),
    )


async def joint(asked: OptimiseRequest, catalogue: Catalogue, hidden: Hidden, engine: Engine) -> Step:
    """Draw the input of a value below the best so far, as `ndp.optimise.joint_search.JointSearch` does.

    Further draws of the same distribution show where else the search might have looked.
    """
    if asked.model not in catalogue.joint:
        raise HTTPException(422, f"there is no such joint model; they are: {', '.join(catalogue.joint)}")
    model = catalogue.joint[asked.model]

    def compute(wanted: Wanted) -> Step:
        def check(x: Tensor, level: Tensor) -> None:
            if not wanted():
                raise UnwantedError

        search = JointSearch([[LOW, HIGH]], model, initial=RANDOM_POINTS, seed=asked.seed)
        for x in asked.evaluated:
            search.tell([x], hidden(x))
        if search.starting:
            ((chosen,),) = search.ask()
            return Step(float(chosen))
        question = search.question()
        posterior = model.condition(question.x, question.y)

        def places(count: int, generator: torch.Generator) -> Float[np.ndarray, "K"]:
            drawn = posterior.sample_inputs(
                question.y_star, count, generator=generator, steps=STEPS, solver=watched(dpm_solver, check)
            )
            return search.to_bounds(torch.as_tensor(drawn))[:, 0]

        return Step(
            float(places(1, question.generator)[0]),
            target=search.to_value(question.y_star),
            places=places(PLACES, torch.Generator().manual_seed(asked.seed)),
        )

    return await engine.run(single(compute), asked, cost=JOINT_STEP)


METHODS: dict[str, Method] = {"thompson": thompson, "joint": joint}


def router(catalogue: Catalogue, engine: Engine) -> APIRouter:
    routes = APIRouter(prefix="/api/optimise", tags=["optimise"], responses=PROBLEMS)

    @routes.get("/methods")
    def methods() -> list[str]:
        """The methods that choose the next point."""
        return list(METHODS)

    @routes.get("/function/{number}")
    def function(number: Seed) -> HiddenFunction:
        """The hidden function itself, for the page to show on request."""
        hidden = hidden_function(number)
        best = int(hidden.y.argmin())
        return HiddenFunction(
            x=numbers(hidden.x), y=numbers(hidden.y), best_x=hidden.x[best], best_y=numbers(hidden.y[best])
        )

    @routes.post("/step")
    async def step(asked: OptimiseRequest, request: Request) -> OptimiseStep:
        """The next point, the draws that it was chosen by, and the value there.

        The method `thompson` takes a model of functions, the method `joint` a joint model.
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
