"""Observations that are no Gaussian numbers: counts, classes, censored values, preferences, and any likelihood."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.typing import Array
from ndp.facts.base import (
    Fact,
    Hard,
    Real,
    Smooth,
    Statement,
    Surroundings,
    differences,
    read_noise,
    read_numbers,
    read_places,
)
from ndp.facts.shapes import between


@final
@dataclass(frozen=True, eq=False)
class Counts(Fact):
    """Poisson counts at `x`, whose rate is `exposure` times the exponential of the function (`link="log"`), or the function
    itself (`link="identity"`, which cannot be negative where something was counted)."""

    x: Array
    counts: Array | Real
    exposure: Array | Real = 1.0
    link: str = "log"

    def __post_init__(self) -> None:
        if self.link not in ("log", "identity"):
            raise ValueError(f'link of Counts must be "log" or "identity", not {self.link!r}')

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        places = read_places(self.x, around, "Counts")
        counts = read_numbers(self.counts, len(places), "Counts", "counts", like=places)
        exposure = read_numbers(self.exposure, len(places), "Counts", "exposure", like=places)
        if bool((counts < 0).any()) or bool((counts != counts.round()).any()):
            raise ValueError("counts of Counts must be whole numbers, not negative")
        if not bool((exposure > 0).all()):
            raise ValueError("exposure of Counts must be positive")
        constant = counts * exposure.log() - torch.lgamma(counts + 1)

        def log_likelihood(values: Float[Tensor, "S P"]) -> Float[Tensor, "S"]:
            if self.link == "log":
                each = counts * values - exposure * values.exp()
            else:
                each = torch.xlogy(counts, values.clamp(min=0)) - exposure * values
                each = each.masked_fill(values < 0, -math.inf)
            return (each + constant).sum(-1)

        return [Smooth(places, log_likelihood)]


@final
@dataclass(frozen=True, eq=False)
class Classes(Fact):
    """Classes 0, 1, ... at `x`, by the function: of two, P(1) = logistic(f); of more, in order, between `cutpoints`.

    P(class <= k) = logistic(cutpoints[k] - f). The default is the one cutpoint 0, of two classes.
    """

    x: Array
    classes: Array | Real
    cutpoints: Sequence[float] = (0.0,)

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        places = read_places(self.x, around, "Classes")
        numbers = read_numbers(self.classes, len(places), "Classes", "classes", like=places)
        cuts = [-math.inf, *map(float, self.cutpoints), math.inf]
        if not all(a < b for a, b in itertools.pairwise(cuts)):
            raise ValueError(f"cutpoints of Classes must be finite and rise, not {list(self.cutpoints)}")
        if bool((numbers != numbers.round()).any()) or not bool(((numbers >= 0) & (numbers <= len(cuts) - 2)).all()):
            raise ValueError(f"classes of Classes must be whole numbers from 0 to {len(cuts) - 2}")
        ends = torch.tensor(cuts, dtype=torch.float64, device=places.device)
        low, high = ends[numbers.long()], ends[numbers.long() + 1]

        def log_likelihood(values: Float[Tensor, "S P"]) -> Float[Tensor, "S"]:
            # log(logistic(b) - logistic(a)) = logsigmoid(b) + logsigmoid(-a) + log(1 - exp(a - b))
            sigmoid = torch.nn.functional.logsigmoid
            each = sigmoid(high - values) + sigmoid(values - low) + torch.log(-torch.expm1(low - high))
            return each.sum(-1)

        return [Smooth(places, log_likelihood)]


@final
@dataclass(frozen=True, eq=False)
class Censored(Fact):
    """Observations that stopped at `limit`: the value is `side` ("above" or "below") the limit, up to noise."""

    x: Array
    limit: Array | Real
    side: str = "above"
    noise: Array | Real = 0.0

    def __post_init__(self) -> None:
        if self.side not in ("above", "below"):
            raise ValueError(f'side of Censored must be "above" or "below", not {self.side!r}')

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        places = read_places(self.x, around, "Censored")
        limit = read_numbers(self.limit, len(places), "Censored", "limit", like=places)
        no_end = torch.full_like(limit, math.inf)
        low, high = (limit, no_end) if self.side == "above" else (-no_end, limit)
        return _within(places, low, high, read_noise(self.noise, len(places), "Censored", like=places))


@final
@dataclass(frozen=True, eq=False)
class Interval(Fact):
    """Observations known to lie between `low` and `high` only, up to noise; an infinite end is none."""

    x: Array
    low: Array | Real
    high: Array | Real
    noise: Array | Real = 0.0

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        places = read_places(self.x, around, "Interval")
        low = read_numbers(self.low, len(places), "Interval", "low", like=places)
        high = read_numbers(self.high, len(places), "Interval", "high", like=places)
        if not bool((low < high).all()):
            raise ValueError("Interval must have low < high at every place")
        return _within(places, low, high, read_noise(self.noise, len(places), "Interval", like=places))


@final
@dataclass(frozen=True, eq=False)
class Quantile(Fact):
    """Observations `value` of which the function is the `probability`-quantile, with noise of size `scale`.

    The noise is asymmetric Laplace (Yu and Moyeed, 2001).
    """

    x: Array
    value: Array | Real
    probability: Real
    scale: Array | Real

    def __post_init__(self) -> None:
        if not 0 < self.probability < 1:
            raise ValueError(f"probability of Quantile must lie between 0 and 1, not {self.probability}")

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        places = read_places(self.x, around, "Quantile")
        value = read_numbers(self.value, len(places), "Quantile", "value", like=places)
        scale = read_noise(self.scale, len(places), "Quantile", like=places, zero="scale is the size of the noise")
        p = self.probability

        def log_likelihood(values: Float[Tensor, "S P"]) -> Float[Tensor, "S"]:
            off = (value - values) / scale
            return (math.log(p * (1 - p)) - scale.log() - torch.maximum(p * off, (p - 1) * off)).sum(-1)

        return [Smooth(places, log_likelihood)]


@final
@dataclass(frozen=True, eq=False)
class Preference(Fact):
    """The value at each place of `x_better` is above that at the same place of `x_worse`.

    With noise, each of both is judged with an error of standard deviation `noise` (probit); without, it holds exactly.
    """

    x_better: Array
    x_worse: Array
    noise: Array | Real = 0.0

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        better = read_places(self.x_better, around, "Preference", "x_better")
        worse = read_places(self.x_worse, around, "Preference", "x_worse")
        count = len(better)
        if len(worse) != count:
            raise ValueError(f"Preference compares places one by one: x_better holds {count} and x_worse {len(worse)}")
        places = torch.cat([worse, better])
        index = torch.arange(count, device=places.device)
        weights = differences(torch.stack([index, count + index], dim=1), 2 * count)
        noise = read_noise(self.noise, count, "Preference", like=places) * math.sqrt(2)
        return _not_negative(places, weights, weights.new_zeros(count), noise)

    @property
    def dim(self) -> int | None:
        return Censored(self.x_better, 0.0).dim


@final
@dataclass(frozen=True, eq=False)
class Likelihood(Fact):
    """Any log-likelihood of the values at `x`: a function of a tensor [S P], which returns [S].

    It may be minus infinity where values are impossible. With `vectorised=False` it is called with one vector [P] at a time and
    returns a number.
    """

    x: Array
    log_likelihood: Callable[[Any], Any]
    vectorised: bool = True

    def statements(self, around: Surroundings) -> Sequence[Statement]:
        places = read_places(self.x, around, "Likelihood")

        def checked(values: Float[Tensor, "S P"]) -> Float[Tensor, "S"]:
            if self.vectorised:
                found = torch.as_tensor(self.log_likelihood(values), dtype=torch.float64, device=values.device)
            else:
                each = [float(self.log_likelihood(one)) for one in values]
                found = torch.tensor(each, dtype=torch.float64, device=values.device)
            if tuple(found.shape) != (len(values),):
                raise ValueError(
                    f"the function of Likelihood must return one number for each of {len(values)} draws, of shape "
                    f"[{len(values)}]; its shape is {list(found.shape)} (a function of one draw needs vectorised=False)"
                )
            bad = found.isnan() | (found == math.inf)
            if bool(bad.any()):
                where = values[bad][0]
                raise ValueError(
                    f"the function of Likelihood returns {found[bad][0].item()} for values of which the first is "
                    f"{where[0].item():.4g}; return a finite number, or minus infinity where values are impossible"
                )
            return found.detach()

        return [Smooth(places, checked)]


def _within(
    places: Float[Tensor, "P D"], low: Float[Tensor, "P"], high: Float[Tensor, "P"], noise: Float[Tensor, "P"]
) -> Sequence[Statement]:
    """Values between ends: exactly where there is no noise, and else with the probability of it."""
    exact = noise == 0
    found: list[Statement] = []
    if bool(exact.any()):
        found.append(between(places[exact], low[exact], high[exact]))
    if not bool(exact.all()):
        a, b, s = low[~exact], high[~exact], noise[~exact]
        found.append(Smooth(places[~exact], lambda values: log_mass((a - values) / s, (b - values) / s).sum(-1)))
    return found


def _not_negative(
    places: Float[Tensor, "P D"], weights: Float[Tensor, "R P"], offset: Float[Tensor, "R"], noise: Float[Tensor, "R"]
) -> Sequence[Statement]:
    exact = noise == 0
    found: list[Statement] = []
    if bool(exact.any()):
        found.append(Hard(places, weights[exact], offset[exact]))
    if not bool(exact.all()):
        w, c, s = weights[~exact], offset[~exact], noise[~exact]
        found.append(Smooth(places, lambda values: torch.special.log_ndtr((values @ w.T + c) / s).sum(-1)))
    return found


def log_mass(low: Tensor, high: Tensor) -> Tensor:
    """log(Phi(high) - Phi(low)), accurate in both tails."""
    mirrored = low + high > 0  # in the lower tail both probabilities keep their digits
    a, b = torch.where(mirrored, -high, low), torch.where(mirrored, -low, high)
    top, bottom = torch.special.log_ndtr(b), torch.special.log_ndtr(a)
    return top + torch.log(-torch.expm1((bottom - top).clamp(max=-1e-300)))
