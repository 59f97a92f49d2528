"""Monotone maps of skewed inputs, in which most rows do not share one corner. Each follows a change of units exactly."""

from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import numpy as np
from scipy.special import ndtri

from ndp.tabular.scaling import standardised

SKEWED = 1.5  # skewness, in size, from which a column is looked at
FAR = 6.0  # or standard deviations of its farthest cell
FEWEST_VALUES = 6  # different ones: below, a column has no shape
STARTS = (0.02, 0.25)  # quantiles above the smallest cell that the started logarithms begin with
SOFT_FROM, SOFT_WITHIN = (
    4.0,
    3.0,
)  # robust deviations: where a soft clip begins, and how far beyond all values come to lie
KNOTS = 64
GAIN = 2.0  # nats of evidence from which a map is worth it


@runtime_checkable
class Shape(Protocol):
    """An increasing map of a column."""

    def __call__(self, values: np.ndarray) -> np.ndarray: ...

    @property
    def words(self) -> str: ...


@final
@dataclass(frozen=True)
class AsItIs:
    """No map at all."""

    words: str = ""

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return values


@final
@dataclass(frozen=True)
class StartedLog:
    """log(x - edge + start) above the edge, and its tangent below; mirrored for columns with a tail to the left."""

    edge: float
    start: float
    sign: float
    words: str = "logarithm"

    def __call__(self, values: np.ndarray) -> np.ndarray:
        above = (self.sign * values - self.edge) / self.start
        return self.sign * np.where(above > 0, np.log1p(np.maximum(above, 0.0)), above)


@final
@dataclass(frozen=True)
class SoftClip:
    """The values themselves near the centre, and bounded beyond some robust deviations."""

    centre: float
    scale: float
    words: str = "soft clip of outliers"

    def __call__(self, values: np.ndarray) -> np.ndarray:
        away = (values - self.centre) / self.scale
        beyond = np.maximum(np.abs(away) - SOFT_FROM, 0.0)
        return np.sign(away) * (np.minimum(np.abs(away), SOFT_FROM) + beyond / (1 + beyond / SOFT_WITHIN))


@final
@dataclass(frozen=True)
class NormalScores:
    """Normal quantiles of the ranks, with straight lines between knots."""

    places: np.ndarray
    scores: np.ndarray
    words: str = "normal scores of ranks"

    @staticmethod
    def of(values: np.ndarray) -> "NormalScores":
        different, count = np.unique(values, return_counts=True)
        ranks = (np.cumsum(count) - count / 2) / count.sum()
        chosen = np.unique(np.linspace(0, len(different) - 1, KNOTS).round().astype(int))
        return NormalScores(different[chosen], ndtri(ranks[chosen]))

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return np.interp(values, self.places, self.scores)


def is_skewed(values: np.ndarray) -> bool:
    """Whether the shape of a column deserves a look; values are without gaps."""
    if len(values) < 2 * FEWEST_VALUES or len(np.unique(values)) < FEWEST_VALUES:
        return False
    away = standardised(values)
    return bool(abs((away**3).mean()) > SKEWED or np.abs(away).max() > FAR)


def shapes_for(values: np.ndarray) -> list[Shape]:
    """The maps that a skewed column may get; the first is none."""
    found: list[Shape] = [AsItIs()]
    away = standardised(values)
    sign = 1.0 if (away**3).mean() >= 0 else -1.0
    turned = sign * values
    edge = float(turned.min())
    above = np.sort(turned[turned > edge]) - edge
    starts = {float(np.quantile(above, share)) for share in STARTS}
    found += [StartedLog(edge, start, sign) for start in sorted(starts) if start > 0]
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
    if high > low:
        found.append(SoftClip(float(middle), float(high - low) / 2.563))
    found.append(NormalScores.of(values))
    return found
