"""Minimise a black box by asking a joint NDP where a value below the best so far would be (the paper's global optimisation).

    best = minimise(f, bounds=[[-1, 1]], model=ndp.load(...)).best

Every step draws a target value y* and evaluates at a draw of p(x* | y*, observations). Ask and tell, the history and its
picture are those of Thompson sampling.
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
from ndp.optimise.history import History
from ndp.optimise.loop import evaluate_until
from ndp.optimise.thompson import Thompson

STEPS = 20  # network calls a draw: with the exact denoiser, more of them do not change the law of x*


@runtime_checkable
class InputSampler(Protocol):
    """All that is asked of a posterior here."""

    def sample_inputs(
        self, y_star: Array | float, num_samples: int | None = None, *, generator: torch.Generator | None = None
    ) -> Array: ...


@runtime_checkable
class JointProcess(Protocol):
    """A process over points of functions on [-1, 1]^D."""

    def condition(self, x: Array, y: Array) -> Any: ...


@dataclass(frozen=True)
class Target:
    """The belief about the minimum: a normal law about the best value so far, cut off above it.

    Its standard deviation is `spread` times that of the observations. 1 is the paper's; less asks for values that are easier to
    reach.
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
    """What a step asks of a model, in the units of the model: where is `y_star`, given what is known?"""

    x: Float[Tensor, "C D"]
    y: Float[Tensor, "C"]
    y_star: float
    generator: torch.Generator


class JointSearch:
    """Ask for a point, tell its value. `model` is a joint NDP; values are standardised by those observed.

    The first `initial` points are random.
    """

    def __init__(
        self,
        bounds: Any,
        model: JointProcess | None,
        *,
        target: Target = PAPER_TARGET,
        initial: int = 5,
        seed: int = 0,
        history: History | Path | str | None = None,
        sample_options: dict[str, Any] | None = None,
    ) -> None:
        # Bounds, history, random points and what is known in model units are the same for every rule.
        self._search = Thompson(bounds, None, initial=initial, seed=seed, history=history)
        dims = getattr(model, "input_dims", None)
        if dims is not None and self.dim not in dims:
            known = ", ".join(map(str, dims))
            raise ValueError(f"this model is for functions of {known} inputs, and the bounds have {self.dim}")
        self.model, self.target = model, target
        self.sample_options = {"steps": STEPS} if sample_options is None else sample_options

    @property
    def dim(self) -> int:
        return self._search.dim

    @property
    def history(self) -> History:
        return self._search.history

    @property
    def best(self) -> tuple[np.ndarray, float]:
        return self.history.best

    @property
    def starting(self) -> bool:
        """Whether points are still random, for want of values to learn from."""
        return self._search.starting

    def ask(self, count: int = 1) -> np.ndarray:
        """Points to evaluate next, [count, D]: a function of the history and the seed alone."""
        if self.starting or self.model is None:
            return self._search.ask(count)
        question = self.question()
        posterior = self.model.condition(question.x, question.y)
        drawn = posterior.sample_inputs(question.y_star, count, generator=question.generator, **self.sample_options)
        return self.to_bounds(torch.as_tensor(drawn))

    def question(self) -> Question:
        """What the next step asks of a model, for those who draw for several optimisations together."""
        inquiry = self._search.inquiry()
        return Question(inquiry.x, inquiry.y, self.target.draw(inquiry.y, inquiry.generator), inquiry.generator)

    def tell(self, x: Any, y: float) -> None:
        """The value `y` at `x`. A value that is not finite is kept as a failed evaluation."""
        self._search.tell(x, y)

    def to_value(self, y: float) -> float:
        """A value of the model's units, such as a question's `y_star`, in the user's."""
        centre, scale = self._search.units()
        return centre + scale * y

    def to_bounds(self, x: Float[Tensor, "K D"]) -> np.ndarray:
        """Points of [-1, 1]^D in the user's box."""
        return self._search.to_bounds((x.double().cpu() + 1) / 2)


def minimise(
    f: Callable[[np.ndarray], float],
    bounds: Any,
    model: JointProcess | None,
    *,
    evaluations: int = 50,
    progress: bool = True,
    **options: Any,
) -> History:
    """Evaluate `f` up to `evaluations` times and return what was found; `options` are those of `JointSearch`.

    With `history=PATH` nothing is lost when `f` fails or the process dies: call it again to go on.
    """
    return evaluate_until(JointSearch(bounds, model, **options), f, evaluations, progress=progress)
