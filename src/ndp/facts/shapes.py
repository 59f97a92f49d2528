"""Facts about the whole function: bounds, monotone, convex. Without places of their own they hold where one asks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.typing import Array
from ndp.facts.base import Fact, Hard, Real, Statement, Surroundings, differences, distinct, read_places


@final
@dataclass(frozen=True, eq=False)
class Bounds(Fact):
    """The function lies between `low` and `high` (None: no bound).

    It does so exactly at `x` or, without `x`, at the places asked for (20 of them, spread evenly, where there are more) and,
    where these are few, on a grid over the observations.
    """

    low: Real | None = None
    high: Real | None = None
    x: Array | None = None

    def __post_init__(self) -> None:
        low, high = (-math.inf if self.low is None else self.low), (math.inf if self.high is None else self.high)
        if not low < high:
            raise ValueError(f"Bounds must have low < high, not low={self.low} and high={self.high}")
        if math.isinf(low) and math.isinf(high):
            raise ValueError("Bounds must have a bound: low, high or both")

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        places = around.default_places() if self.x is None else read_places(self.x, around, "Bounds")
        return [between(places, *(_each(end, places) for end in (self.low, self.high)))]


@final
@dataclass(frozen=True, eq=False)
class Monotone(Fact):
    """The function rises ("increasing") or falls ("decreasing") along one input, the others held fixed.

    Places that agree in all other inputs are compared with each other. A place that is alone on its line is compared with a
    place a step further (1 % of the input's range; 5 % where a model's values carry noise).
    """

    direction: str = "increasing"
    dimension: int = 0
    x: Array | None = None

    def __post_init__(self) -> None:
        if self.direction not in ("increasing", "decreasing"):
            raise ValueError(f'direction of Monotone must be "increasing" or "decreasing", not {self.direction!r}')

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        places = around.default_places() if self.x is None else read_places(self.x, around, "Monotone")
        check_dimension(self.dimension, around.dim, "Monotone")
        places, lines = lines_along(places, self.dimension, around, alone=2)
        pairs = torch.cat([torch.stack([line[:-1], line[1:]], dim=1) for line in lines]) if lines else _none(places, 2)
        sign = 1.0 if self.direction == "increasing" else -1.0
        weights = sign * differences(pairs, len(places))
        return [Hard(places, weights, weights.new_zeros(len(weights)))]


@final
@dataclass(frozen=True, eq=False)
class Convex(Fact):
    """The slope of the function rises along one input or, with `concave=True`, falls. Places are chosen as by `Monotone`."""

    dimension: int = 0
    concave: bool = False
    x: Array | None = None

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        places = around.default_places() if self.x is None else read_places(self.x, around, "Convex")
        check_dimension(self.dimension, around.dim, "Convex")
        places, lines = lines_along(places, self.dimension, around, alone=3)
        rows = []
        for line in lines:
            at = places[line, self.dimension]
            weights = torch.zeros(max(len(line) - 2, 0), len(places), dtype=torch.float64, device=places.device)
            for row in range(len(line) - 2):
                before, after = (at[row + 1] - at[row]).item(), (at[row + 2] - at[row + 1]).item()
                size = (before + after) / 2  # second differences of unit weight in the middle
                weights[row, line[row]] = size / before / 2
                weights[row, line[row + 1]] = -size * (1 / before + 1 / after) / 2
                weights[row, line[row + 2]] = size / after / 2
            rows.append(-weights if self.concave else weights)
        every = torch.cat(rows) if rows else places.new_zeros(0, len(places))
        return [Hard(places, every, every.new_zeros(len(every)))]


def between(places: Float[Tensor, "P D"], low: Float[Tensor, "P"], high: Float[Tensor, "P"]) -> Hard:
    """Values between finite ends; an infinite end is none."""
    eye = torch.eye(len(places), dtype=torch.float64, device=places.device)
    above, below = low.isfinite(), high.isfinite()
    return Hard(places, torch.cat([eye[above], -eye[below]]), torch.cat([-low[above], high[below]]))


def lines_along(
    places: Float[Tensor, "P D"], dimension: int, around: Surroundings, *, alone: int
) -> tuple[Float[Tensor, "Q D"], list[Tensor]]:
    """Indices of places in lines along an input, in its order; a line of fewer than `alone` places gets more, a step apart."""
    places, _ = distinct(places)
    step = around.step(places)[dimension]
    others = [index for index in range(places.shape[1]) if index != dimension]
    line_of = distinct(places[:, others])[1] if others else torch.zeros(len(places), dtype=torch.long)
    lines: list[Tensor] = []
    added: list[Tensor] = []
    total = len(places)
    for line in range(int(line_of.max()) + 1 if len(places) else 0):
        members = (line_of.to(places.device) == line).nonzero()[:, 0]
        members = members[places[members, dimension].argsort()]
        missing = max(alone - len(members), 0)
        if missing:
            more = places[members[-1:]].repeat(missing, 1)
            more[:, dimension] += step * torch.arange(1, missing + 1, device=places.device)
            added.append(more)
            members = torch.cat([members, torch.arange(total, total + missing, device=places.device)])
            total += missing
        lines.append(members)
    return torch.cat([places, *added]), lines


def check_dimension(dimension: int, dim: int, fact: str) -> None:
    """Raise a ValueError for an input that the function does not have."""
    if isinstance(dimension, bool) or not isinstance(dimension, int) or not 0 <= dimension < dim:
        raise ValueError(f"dimension of {fact} must be a whole number from 0 to {dim - 1}, not {dimension!r}")


def _each(end: Real | None, places: Float[Tensor, "P D"]) -> Float[Tensor, "P"]:
    return torch.full((len(places),), math.inf if end is None else end, dtype=torch.float64, device=places.device)


def _none(places: Float[Tensor, "P D"], width: int) -> Tensor:
    return torch.zeros(0, width, dtype=torch.long, device=places.device)
