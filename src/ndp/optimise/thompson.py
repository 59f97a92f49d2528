"""Minimise a black box by Thompson sampling: draw one function of the posterior, evaluate where it is lowest, repeat.

    best = minimise(f, bounds=[(-1, 1), (0, 5)]).best

One step at a time, for a laboratory or a simulator: `Thompson.ask()` returns a point, `Thompson.tell(x, y)` records its value.
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
from ndp.core.units import Units, box_units
from ndp.models.registry import models_for
from ndp.optimise.default_model import RANDOM, default_model
from ndp.optimise.history import History
from ndp.optimise.loop import evaluate_until
from ndp.processes.ndp import FEWEST_STEPS, NDP

UNIT_BOX = (0.0, 1.0)


@dataclass(frozen=True)
class Rule:
    """The candidates at which a drawn function is evaluated.

    `spread` candidates are uniform over the box. `local` candidates lie around the three best points so far, at distances from
    a third to a hundredth of the box. The paper's rule is 128 uniform candidates.
    """

    spread: int = 128
    local: int = 128


PAPER_RULE = Rule(spread=128, local=0)
LOCAL_CENTRES, WIDEST, NARROWEST = 3, 0.3, 0.01  # distances are shares of the box


@dataclass(frozen=True)
class Inquiry:
    """One step's question to a model: function values at the `candidates`, given `y` at `x`; all in the model's units.

    `points` are the candidates in the user's units. A draw takes its noise from `generator`, so that the step is reproducible.
    """

    x: Float[Tensor, "C D"]
    y: Float[Tensor, "C"]
    candidates: Float[Tensor, "M D"]
    points: np.ndarray
    generator: torch.Generator
    units: Units


class Thompson:
    """Thompson sampling one step at a time: `ask` for points, `tell` their values.

    Parameters
    ----------
    bounds
        The box that is searched: [D, 2], a lower and an upper bound for each input.
    model
        Any process, such as `ndp.load("universal")`. With "random" or None, all points are random.
    rule
        The candidates of a step.
    initial
        How many successful evaluations are random, before the model is asked.
    domain
        The interval to which every input is mapped: the range of inputs that the model was trained on.
    seed
        A step is a function of the seed and the history alone.
    history
        A `History`, or the path of a file that keeps every evaluation and is continued if it exists.
    sample_options
        Options of the model's `sample`. The default is a quick draw of the function, without observation noise where the model
        separates the two.
    """

    def __init__(
        self,
        bounds: Any,
        model: Process | str | None,
        *,
        rule: Rule = Rule(),  # noqa: B008
        initial: int = 5,
        domain: tuple[float, float] = (-1.0, 1.0),
        seed: int = 0,
        history: History | Path | str | None = None,
        sample_options: dict[str, Any] | None = None,
    ) -> None:
        self.bounds = read_bounds(bounds)
        self.model = _read_model(model)
        self.rule, self.initial, self.domain, self.seed = rule, initial, domain, seed
        few_steps = {"steps": FEWEST_STEPS} if isinstance(model, NDP) else {}
        self.sample_options = few_steps if sample_options is None else sample_options
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
        """The point of the lowest value, and that value."""
        return self.history.best

    @property
    def starting(self) -> bool:
        """Whether points are still random, because too few values are known."""
        return len(self.history.known()[1]) < max(self.initial, 1)

    def ask(self, count: int = 1) -> np.ndarray:
        """Points to evaluate next, [count, D]: a function of the history and the seed alone.

        Several points are the minimisers of several draws of the posterior. They differ where the model is uncertain.
        """
        if self.starting or self.model is None:
            uniform = torch.rand(count, self.dim, generator=self._generator(), dtype=torch.float64)
            return self.to_bounds(uniform, UNIT_BOX)
        inquiry = self.inquiry()
        posterior = self.model.condition(inquiry.x, inquiry.y)
        drawn = posterior.sample(inquiry.candidates, count, generator=inquiry.generator, **self.sample_options)
        return inquiry.points[torch.as_tensor(drawn).argmin(-1).cpu().numpy()]

    def tell(self, x: Any, y: float) -> None:
        """Record the value `y` at `x`. A value that is not finite is kept as a failed evaluation."""
        point = np.asarray(x, dtype=float).reshape(-1)
        if len(point) != self.dim:
            raise ValueError(f"a point has {self.dim} coordinates, not {len(point)}")
        if not np.isfinite(point).all():
            raise ValueError("a point must not hold NaN or infinity")
        if not np.isfinite(y):
            warnings.warn(
                f"The value at {point.tolist()} is {y}: it was kept as a failed evaluation, and the model ignores it.",
                stacklevel=2,
            )
        if (point < self.bounds[:, 0]).any() or (point > self.bounds[:, 1]).any():
            warnings.warn(
                f"The point {point.tolist()} is outside the bounds; it was recorded all the same.", stacklevel=2
            )
        self.history.append(point, float(y))

    def units(self, domain: tuple[float, float] | None = None) -> Units:
        """The units of the model: the box is mapped to `domain` (the model's by default), known values are standardised."""
        _, y = self.history.known()
        low, high = torch.from_numpy(self.bounds.T.copy())
        return box_units(low, high, torch.from_numpy(y)[:, None], self.domain if domain is None else domain)

    def to_bounds(self, x: Float[Tensor, "K D"], domain: tuple[float, float] | None = None) -> np.ndarray:
        """Points of `domain`^D (the model's domain by default) as points of the box."""
        points = self.units(domain).from_model_x(x.double().cpu()[None])[0].numpy()
        return np.clip(points, self.bounds[:, 0], self.bounds[:, 1])  # rounding may leave the box

    def inquiry(self) -> Inquiry:
        """The next step's question to a model, for callers who make the draws themselves."""
        generator = self._generator()
        known_x, known_y = (torch.from_numpy(values) for values in self.history.known())
        units, box = self.units(), self.units(UNIT_BOX)
        points = self.to_bounds(self._candidates(box.to_model_x(known_x[None])[0], known_y, generator), UNIT_BOX)
        return Inquiry(
            x=units.to_model_x(known_x[None])[0],
            y=units.to_model_y(known_y[None, :, None])[0, :, 0],
            candidates=units.to_model_x(torch.from_numpy(points)[None])[0],
            points=points,
            generator=generator,
            units=units,
        )

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(1_000_003 * self.seed + len(self.history))

    def _candidates(
        self, x: Float[Tensor, "C D"], y: Float[Tensor, "C"], generator: torch.Generator
    ) -> Float[Tensor, "M D"]:
        """Points of the unit box at which functions are drawn, given the known points in it."""
        uniform = torch.rand(self.rule.spread, self.dim, generator=generator, dtype=torch.float64)
        if not self.rule.local:
            return uniform
        centres = x[y.argsort(stable=True)[:LOCAL_CENTRES]]
        chosen = centres[torch.randint(len(centres), (self.rule.local,), generator=generator)]
        exponent = torch.rand(self.rule.local, 1, generator=generator, dtype=torch.float64)
        width = WIDEST * (NARROWEST / WIDEST) ** exponent
        moved = chosen + width * torch.randn(chosen.shape, generator=generator, dtype=torch.float64)
        return torch.cat([uniform, moved.clamp(0, 1)])


def minimise(
    f: Callable[[np.ndarray], float],
    bounds: Any,
    model: Process | str | None = None,
    *,
    evaluations: int = 50,
    progress: bool = True,
    **options: Any,
) -> History:
    """Minimise `f` by Thompson sampling, and return all evaluations; `.best` is the best point and its value.

    Parameters
    ----------
    f
        The function: a point [D] to a number. NaN stands for an evaluation that failed.
    bounds
        The box that is searched: [D, 2], a lower and an upper bound for each input.
    model
        Any process; by default one that ships with the package, chosen by `default_model`. `"random"` is random search.
    evaluations
        How many evaluations to end with, counting those of a history that is continued.
    options
        Further options of `Thompson`: `seed`, `initial`, `rule`, `domain`, `sample_options` and `history`. With `history=PATH`
        nothing is lost when `f` fails or the process dies: the same call continues where it was.

    Examples
    --------
    >>> history = minimise(lambda x: float((x[0] - 0.3) ** 2), [(-1, 1)], evaluations=12, progress=False)
    >>> point, value = history.best
    """
    box = read_bounds(bounds)
    optimiser = Thompson(box, default_model(len(box)) if model is None else model, **options)
    return evaluate_until(optimiser, f, evaluations, progress=progress)


def read_bounds(bounds: Any) -> np.ndarray:
    """The box that is searched, [D, 2]."""
    box = np.asarray(bounds, dtype=float)
    if box.ndim != 2 or box.shape[1] != 2:
        raise ValueError(f"bounds must be [D, 2], a lower and an upper one for every input; their shape is {box.shape}")
    if not np.isfinite(box).all() or not (box[:, 0] < box[:, 1]).all():
        raise ValueError("every lower bound must be finite and below its upper bound")
    return box


def _read_model(model: Process | str | None) -> Process | None:
    """The model that is asked; None for random points."""
    if model is None or model == RANDOM:
        return None
    if not isinstance(model, Process):
        raise ValueError(
            f'model must be a process, such as ndp.load("universal"), or "{RANDOM}" for random points; it is {model!r}'
        )
    return model
