"""Minimise a black box by drawing the input of a value below the best so far (the paper's global optimisation).

    best = minimise(f, bounds=[(-1, 1)], model=ndp.load("joint")).best

Every step draws a target value y* and evaluates at a draw of p(x* | y*, observations). The calls, the history and its picture
are those of Thompson sampling.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.typing import Array
from ndp.core.units import Units
from ndp.optimise.default_model import RANDOM, default_joint_model
from ndp.optimise.history import History
from ndp.optimise.loop import evaluate_until
from ndp.optimise.thompson import Thompson, read_bounds

_JOINT_MODEL = 'use a joint model, such as ndp.load("joint")'
STEPS = 20  # network calls a draw: with the exact denoiser, more calls do not change the distribution of x*


@runtime_checkable
class InputSampler(Protocol):
    """A posterior that draws inputs, given values."""

    def sample_inputs(
        self, y_star: Array | float, num_samples: int | None = None, *, generator: torch.Generator | None = None
    ) -> Array:
        """Inputs at which the function has the value `y_star`: [S D]."""
        ...


@runtime_checkable
class JointProcess(Protocol):
    """A model of inputs and values on [-1, 1]^D, whose posterior is an `InputSampler`."""

    def condition(self, x: Array, y: Array) -> Any:
        """The posterior given `y` at `x`."""
        ...


@dataclass(frozen=True)
class Target:
    """The distribution of y*: normal about the best value so far, and truncated to values below it.

    Its standard deviation is `spread` times that of the observations. The paper's spread is 1; a smaller one asks for values
    that are closer to the best.
    """

    spread: float = 1.0

    def __post_init__(self) -> None:
        if not self.spread > 0:
            raise ValueError(f"spread must be positive, not {self.spread}")

    def draw(self, y: Float[Tensor, "C"], generator: torch.Generator) -> float:
        """A value below the least of `y`."""
        width = y.std(correction=0) if len(y) > 1 else torch.ones(())
        step = torch.randn((), generator=generator, dtype=torch.float64).abs()
        return float(y.min() - self.spread * (width if width > 0 else 1.0) * step)


PAPER_TARGET = Target(spread=1.0)


@dataclass(frozen=True)
class Question:
    """One step's question to a model, in its units: which input has the value `y_star`, given `y` at `x`?

    A draw of the answer takes its noise from `generator`, so that the step is reproducible.
    """

    x: Float[Tensor, "C D"]
    y: Float[Tensor, "C"]
    y_star: float
    generator: torch.Generator
    units: Units


class JointSearch:
    """Global optimisation with a joint model, one step at a time: `ask` for points, `tell` their values.

    Parameters
    ----------
    bounds
        The box that is searched: [D, 2], a lower and an upper bound for each input. It is mapped to [-1, 1]^D.
    model
        A joint model, such as `ndp.load("joint")`. With "random" or None, all points are random.
    target
        The distribution of the value y* that a step asks for.
    initial
        How many successful evaluations are random, before the model is asked.
    seed
        A step is a function of the seed and the history alone.
    history
        A `History`, or the path of a file that keeps every evaluation and is continued if it exists.
    sample_options
        Options of the model's `sample_inputs`, by default `{"steps": 20}`.
    """

    def __init__(
        self,
        bounds: Any,
        model: JointProcess | str | None,
        *,
        target: Target = PAPER_TARGET,
        initial: int = 5,
        seed: int = 0,
        history: History | Path | str | None = None,
        sample_options: dict[str, Any] | None = None,
    ) -> None:
        # Bounds, history, random points and units are those of Thompson sampling.
        self._search = Thompson(bounds, None, initial=initial, seed=seed, history=history)
        self.model, self.target = _read_model(model), target
        dims = getattr(model, "input_dims", None)
        if dims is not None and self.dim not in dims:
            known = ", ".join(map(str, dims))
            raise ValueError(f"this model is for functions of {known} inputs, and the bounds have {self.dim}")
        self.sample_options = {"steps": STEPS} if sample_options is None else sample_options

    @property
    def dim(self) -> int:
        return self._search.dim

    @property
    def history(self) -> History:
        """All evaluations so far."""
        return self._search.history

    @property
    def best(self) -> tuple[np.ndarray, float]:
        """The point of the lowest value, and that value."""
        return self.history.best

    @property
    def starting(self) -> bool:
        """Whether points are still random, because too few values are known."""
        return self._search.starting

    def ask(self, count: int = 1) -> np.ndarray:
        """Points to evaluate next, [count, D]: a function of the history and the seed alone."""
        if self.starting or self.model is None:
            return self._search.ask(count)
        question = self.question()
        posterior = self.model.condition(question.x, question.y)
        if not isinstance(posterior, InputSampler):
            raise ValueError(f"the posterior of the model cannot draw inputs; {_JOINT_MODEL}")
        drawn = posterior.sample_inputs(question.y_star, count, generator=question.generator, **self.sample_options)
        return self.to_bounds(torch.as_tensor(drawn))

    def tell(self, x: Any, y: float) -> None:
        """Record the value `y` at `x`. A value that is not finite is kept as a failed evaluation."""
        self._search.tell(x, y)

    def question(self) -> Question:
        """The next step's question to a model, for callers who make the draws themselves."""
        inquiry = self._search.inquiry()
        y_star = self.target.draw(inquiry.y, inquiry.generator)
        return Question(inquiry.x, inquiry.y, y_star, inquiry.generator, inquiry.units)

    def to_value(self, y: float) -> float:
        """A value in the model's units, such as a question's `y_star`, in the user's units."""
        value = torch.full((1, 1, 1), y, dtype=torch.float64)
        return self._search.units().from_model_y(value).item()

    def to_bounds(self, x: Float[Tensor, "K D"]) -> np.ndarray:
        """Points of [-1, 1]^D as points of the box."""
        return self._search.to_bounds(x)


def minimise(
    f: Callable[[np.ndarray], float],
    bounds: Any,
    model: JointProcess | str | None = None,
    *,
    evaluations: int = 50,
    progress: bool = True,
    **options: Any,
) -> History:
    """Minimise `f` with a joint model, and return all evaluations; `.best` is the best point and its value.

    Parameters
    ----------
    f
        The function: a point [D] to a number. NaN stands for an evaluation that failed.
    bounds
        The box that is searched: [D, 2], a lower and an upper bound for each input.
    model
        A joint model; by default the one that ships, for functions of one input. `"random"` is random search.
    evaluations
        How many evaluations to end with, counting those of a history that is continued.
    options
        Further options of `JointSearch`: `target`, `initial`, `seed`, `sample_options` and `history`. With `history=PATH`
        nothing is lost when `f` fails or the process dies: the same call continues where it was.

    Examples
    --------
    >>> history = minimise(lambda x: float(np.sin(5 * x[0])), [(-3, 3)], evaluations=7, progress=False)
    >>> point, value = history.best
    """
    box = read_bounds(bounds)
    search = JointSearch(box, default_joint_model(len(box)) if model is None else model, **options)
    return evaluate_until(search, f, evaluations, progress=progress)


def _read_model(model: JointProcess | str | None) -> JointProcess | None:
    """The model that is asked; None for random points."""
    if model is None or model == RANDOM:
        return None
    if not isinstance(model, JointProcess):
        raise ValueError(
            f'model must be a joint model, such as ndp.load("joint"), or "{RANDOM}" for random points; it is {model!r}'
        )
    if not getattr(model, "of_points", True):
        raise ValueError(f"this model is of values at known inputs; {_JOINT_MODEL}")
    return model
