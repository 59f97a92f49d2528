"""Facts about linear functionals, measured with Gaussian noise: sums, means, integrals, differences and derivatives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from ndp.core.typing import Array
from ndp.facts.base import Fact, Gaussian, Real, Statement, Surroundings, read_noise, read_numbers, read_places
from ndp.facts.shapes import check_dimension

EXACT = "an exact value has probability zero; give a small one, such as a hundredth of the value"


@final
@dataclass(frozen=True, eq=False)
class Sum(Fact):
    """The sum of the values at `x`, times `weights`, is `value` up to noise of standard deviation `noise`."""

    x: Array
    value: Real
    noise: Real
    weights: Array | Real = 1.0

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        places = read_places(self.x, around, "Sum")
        weights = read_numbers(self.weights, len(places), "Sum", "weights", like=places)
        return [
            Gaussian(
                places,
                weights[None],
                read_numbers(self.value, 1, "Sum", "value", like=places),
                read_noise(self.noise, 1, "Sum", like=places, zero=EXACT),
            )
        ]


@final
@dataclass(frozen=True, eq=False)
class Mean(Fact):
    """The mean of the values at `x` is `value` up to noise; `weights` make it a weighted mean."""

    x: Array
    value: Real
    noise: Real
    weights: Array | Real = 1.0

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        places = read_places(self.x, around, "Mean")
        weights = read_numbers(self.weights, len(places), "Mean", "weights", like=places)
        return Sum(places, self.value, self.noise, weights / weights.sum()).statements(around)


@final
@dataclass(frozen=True, eq=False)
class Integral(Fact):
    """The integral from `low` to `high` of a function of one input is `value` up to noise; by `nodes` of a Gauss rule."""

    low: Real
    high: Real
    value: Real
    noise: Real
    nodes: int = 16

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        if around.dim != 1:
            raise ValueError(
                f"Integral is for functions of one input, not {around.dim}; use Sum with weights of your own"
            )
        if not self.low < self.high:
            raise ValueError(f"Integral must have low < high, not low={self.low} and high={self.high}")
        nodes, weights = np.polynomial.legendre.leggauss(self.nodes)
        half = (self.high - self.low) / 2
        places = torch.from_numpy(self.low + half * (nodes + 1)).to(around.observed)[:, None]
        return Sum(places, self.value, self.noise, half * weights).statements(around)


@final
@dataclass(frozen=True, eq=False)
class Difference(Fact):
    """The value at each place of `x` less that at the same place of `x_before` is `value` up to noise."""

    x: Array
    x_before: Array
    value: Array | Real
    noise: Array | Real

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        return [difference(self.x, self.x_before, self.value, self.noise, around, "Difference", 1.0)]


@final
@dataclass(frozen=True, eq=False)
class Derivative(Fact):
    """The slope along one input at each place of `x` is `value` up to noise: a central difference of width `step`.

    The default step is 1 % of the input's range; 5 % where a model's values carry noise.
    """

    x: Array
    value: Array | Real
    noise: Array | Real
    dimension: int = 0
    step: Real | None = None

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        places = read_places(self.x, around, "Derivative")
        check_dimension(self.dimension, around.dim, "Derivative")
        step = around.step(places)[self.dimension].item() if self.step is None else self.step
        if not step > 0:
            raise ValueError(f"step of Derivative must be positive, not {step}")
        before, after = places.clone(), places.clone()
        before[:, self.dimension] -= step / 2
        after[:, self.dimension] += step / 2
        return [difference(after, before, self.value, self.noise, around, "Derivative", 1 / step)]


def difference(
    x: Array,
    x_before: Array,
    value: Array | Real,
    noise: Array | Real,
    around: Surroundings,
    fact: str,
    scale: Real,
) -> Gaussian:
    """Measured differences of values, times `scale`."""
    after, before = read_places(x, around, fact), read_places(x_before, around, fact, "x_before")
    if len(after) != len(before):
        raise ValueError(f"{fact} compares places one by one: x holds {len(after)} and x_before {len(before)}")
    eye = torch.eye(len(after), dtype=torch.float64, device=after.device)
    return Gaussian(
        torch.cat([before, after]),
        scale * torch.cat([-eye, eye], dim=1),
        read_numbers(value, len(after), fact, "value", like=after),
        read_noise(noise, len(after), fact, like=after, zero=EXACT),
    )
