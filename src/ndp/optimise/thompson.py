"""Minimise a black box by Thompson sampling: draw one function, evaluate where it is lowest, repeat.

    best = minimise(f, bounds=[[-1, 1], [0, 5]], model=ndp.load(...)).best

or one step at a time, for a lab or a simulator: `ask()` gives a point, `tell(x, y)` takes its value.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.typing import Process
from ndp.models.registry import models_for
from ndp.optimise.history import History
from ndp.optimise.loop import evaluate_until
from ndp.processes.ndp import FEWEST_STEPS, NDP


@dataclass(frozen=True)
class Rule:
    """Where a drawn function is looked at.

    `spread` candidates are uniform over the box, and `local` ones lie around the best points so far, at distances from a third
    of the box down to a hundredth. The paper's rule is 128 spread ones.
    """

    spread: int = 128
    local: int = 128


PAPER_RULE = Rule(spread=128, local=0)
LOCAL_CENTRES, WIDEST, NARROWEST = 3, 0.3, 0.01  # in units of the box


@dataclass(frozen=True)
class Inquiry:
    """What a step asks of a model: functions at candidates, given what is known; in the units of the model.

    `points` are the candidates in the user's units. Noise is to come from `generator`, so that a step can be repeated.
    """

    x: Float[Tensor, "C D"]
    y: Float[Tensor, "C"]
    candidates: Float[Tensor, "M D"]
    points: np.ndarray
    generator: torch.Generator


class Thompson:
    """Ask for a point, tell its value. `model` is any process over `domain`^D; without one, points are random.

    `sample_options` go to the model's draws; an NDP makes them in few steps if nothing is said.
    """

    def __init__(
        self,
        bounds: Any,
        model: Process | None,
        *,
        rule: Rule = Rule(),  # noqa: B008
        initial: int = 5,
        domain: tuple[float, float] = (-1.0, 1.0),
        seed: int = 0,
        history: History | Path | str | None = None,
        sample_options: dict[str, Any] | None = None,
    ) -> None:
        self.bounds = _read_bounds(bounds)
        self.model, self.rule, self.initial, self.domain, self.seed = model, rule, initial, domain, seed
        quickly = {"steps": FEWEST_STEPS} if isinstance(model, NDP) else {}
        self.sample_options = quickly if sample_options is None else sample_options
        self.history = history if isinstance(history, History) else History(None if history is None else Path(history))
        dims = getattr(model, "input_dims", None)
        if dims is not None and self.dim not in dims:
            known = ", ".join(map(str, dims))
            raise ValueError(
                f"this model is for functions of {known} inputs, and the bounds have {self.dim}; {models_for(self.dim)}"
            )
        if len(self.history) and len(self.history.x[0]) != self.dim:
            where = self.history.path or "the history"
            raise ValueError(f"{where} holds points of {len(self.history.x[0])} inputs, and the bounds have {self.dim}")

    @property
    def dim(self) -> int:
        return len(self.bounds)

    @property
    def best(self) -> tuple[np.ndarray, float]:
        return self.history.best

    def ask(self, count: int = 1) -> np.ndarray:
        """Points to evaluate next, [count, D]: a function of the history and the seed alone.

        Several points are the minimisers of several joint draws, and so differ where the model is uncertain.
        """
        if self.starting or self.model is None:
            return self.to_bounds(torch.rand(count, self.dim, generator=self._generator(), dtype=torch.float64))
        inquiry = self.inquiry()
        posterior = self.model.condition(inquiry.x, inquiry.y)
        drawn = posterior.sample(inquiry.candidates, count, generator=inquiry.generator, **self.sample_options)
        return inquiry.points[torch.as_tensor(drawn).argmin(-1).cpu().numpy()]

    @property
    def starting(self) -> bool:
        """Whether points are still random, for want of values to learn from."""
        return len(self.history.known()[1]) < max(self.initial, 1)

    def units(self) -> tuple[float, float]:
        """Mean and standard deviation (1 where it is 0) of the known values: a model sees them in these units."""
        _, y = self.history.known()
        return float(y.mean()), float(y.std()) or 1.0

    def inquiry(self) -> Inquiry:
        """What the next step asks of a model, for those who draw for several optimisations together."""
        generator = self._generator()
        x, y = self.history.known()
        unit = self._candidates(x, y, generator)
        centre, scale = self.units()
        low, high = self.domain
        return Inquiry(
            x=torch.as_tensor(low + (high - low) * self._to_unit(x)),
            y=torch.as_tensor((y - centre) / scale),
            candidates=low + (high - low) * unit,
            points=self.to_bounds(unit),
            generator=generator,
        )

    def tell(self, x: Any, y: float) -> None:
        """The value `y` at `x`. A value that is not finite is kept as a failed evaluation."""
        point = np.asarray(x, dtype=float).reshape(-1)
        if len(point) != self.dim:
            raise ValueError(f"a point has {self.dim} coordinates, not {len(point)}")
        if not np.isfinite(point).all():
            raise ValueError("a point must not hold NaN or infinity")
        if not np.isfinite(y):
            warnings.warn(f"the value at {point.tolist()} is {y}: kept as failed, and left out", stacklevel=2)
        if (point < self.bounds[:, 0]).any() or (point > self.bounds[:, 1]).any():
            warnings.warn(f"{point.tolist()} is outside the bounds; it is used all the same", stacklevel=2)
        self.history.append(point, float(y))

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(1_000_003 * self.seed + len(self.history))

    def _candidates(self, x: np.ndarray, y: np.ndarray, generator: torch.Generator) -> Tensor:
        """Points of the unit box at which functions are drawn."""
        uniform = torch.rand(self.rule.spread, self.dim, generator=generator, dtype=torch.float64)
        if not self.rule.local:
            return uniform
        centres = torch.as_tensor(self._to_unit(x[np.argsort(y)[:LOCAL_CENTRES]]))
        chosen = centres[torch.randint(len(centres), (self.rule.local,), generator=generator)]
        exponent = torch.rand(self.rule.local, 1, generator=generator, dtype=torch.float64)
        width = WIDEST * (NARROWEST / WIDEST) ** exponent
        moved = chosen + width * torch.randn(chosen.shape, generator=generator, dtype=torch.float64)
        return torch.cat([uniform, moved.clamp(0, 1)])

    def _to_unit(self, x: np.ndarray) -> np.ndarray:
        return (x - self.bounds[:, 0]) / (self.bounds[:, 1] - self.bounds[:, 0])

    def to_bounds(self, unit: Tensor) -> np.ndarray:
        """Points of the unit box in the user's."""
        return self.bounds[:, 0] + unit.numpy() * (self.bounds[:, 1] - self.bounds[:, 0])


def minimise(
    f: Callable[[np.ndarray], float],
    bounds: Any,
    model: Process | None,
    *,
    evaluations: int = 50,
    progress: bool = True,
    **options: Any,
) -> History:
    """Evaluate `f` up to `evaluations` times and return what was found; `options` are those of `Thompson`.

    With `history=PATH` nothing is lost when `f` fails or the process dies: call it again to go on.
    """
    return evaluate_until(Thompson(bounds, model, **options), f, evaluations, progress=progress)


def _read_bounds(bounds: Any) -> np.ndarray:
    box = np.asarray(bounds, dtype=float)
    if box.ndim != 2 or box.shape[1] != 2:
        raise ValueError(f"bounds must be [D, 2], a lower and an upper one for every input; their shape is {box.shape}")
    if not np.isfinite(box).all() or not (box[:, 0] < box[:, 1]).all():
        raise ValueError("every lower bound must be finite and below its upper bound")
    return box
