"""Targets as a model reads them: without missing values, with outliers winsorised, and with the bounds that the data have."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ndp.core.arrays import LARGEST
from ndp.core.io.tables import shown
from ndp.core.messages import short
from ndp.tabular.evidence import log_evidences

OUTLIER = 8.0  # robust deviations of the farthest target, from which outliers may be winsorised
KNEES = (4.0, 8.0)  # robust deviations beyond which they are
GAIN = 3.0  # nats of evidence from which that is worth it
ENOUGH_FOR_BOUNDS = 20  # rows
FEW_VALUES = 12  # different ones, such as ratings: nothing lies beyond the least and the greatest
TIED = 0.03  # share of rows, and at least five, that are equal to the greatest or the least
MOMENT_NODES = 40


@dataclass(frozen=True)
class TargetMap:
    """y itself up to some robust deviations from the centre, and twice the logarithm beyond; and bounds of predictions.

    away = (y - centre) / scale,    away <= knee: away,    else: knee + log(1 + log(1 + away - knee))
    """

    centre: float = 0.0
    scale: float = 1.0
    knee: float = np.inf
    low: float = -np.inf
    high: float = np.inf

    @property
    def is_identity(self) -> bool:
        return not np.isfinite(self.knee)

    def to_model(self, y: np.ndarray) -> np.ndarray:
        if self.is_identity:
            return y
        away = (y - self.centre) / self.scale
        beyond = np.maximum(np.abs(away) - self.knee, 0.0)
        return np.sign(away) * (np.minimum(np.abs(away), self.knee) + np.log1p(np.log1p(beyond)))

    def from_model(self, values: np.ndarray) -> np.ndarray:
        if self.is_identity:
            return values
        beyond = np.expm1(np.minimum(np.expm1(np.clip(np.abs(values) - self.knee, 0.0, 7.0)), 700.0))
        return self.centre + self.scale * np.sign(values) * (np.minimum(np.abs(values), self.knee) + beyond)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """log d(to_model) / dy, which turns log-densities of the model into those of y."""
        if self.is_identity:
            return np.zeros_like(y)
        beyond = np.maximum(np.abs((y - self.centre) / self.scale) - self.knee, 0.0)
        return -np.log1p(beyond) - np.log1p(np.log1p(beyond)) - np.log(self.scale)

    def within(self, values: np.ndarray) -> np.ndarray:
        return np.clip(values, self.low, self.high)


def fit_target_map(x: np.ndarray, y: np.ndarray, bounds: Any) -> TargetMap:
    """Bounds as asked; and outliers winsorised where the evidence given the encoded inputs says so.

    Where they are, predictions end at the extremes of the data: beyond these the inverse grows without measure.
    """
    low, high = _bounds_of(y) if isinstance(bounds, str) else (-np.inf, np.inf) if bounds is None else bounds
    plain = TargetMap(low=float(low), high=float(high))
    quarters = np.quantile(y, (0.1, 0.25, 0.5, 0.75, 0.9))
    scale = max((quarters[3] - quarters[1]) / 1.349, (quarters[4] - quarters[0]) / 2.563)
    if len(y) < ENOUGH_FOR_BOUNDS or scale <= 0 or np.abs((y - quarters[2]) / scale).max() <= OUTLIER:
        return plain
    ends = max(plain.low, float(y.min())), min(plain.high, float(y.max()))
    maps = [plain, *(TargetMap(float(quarters[2]), float(scale), knee, *ends) for knee in KNEES)]
    evidence = np.array([_log_evidence(x, one, y) for one in maps])
    evidence[0] += GAIN
    return maps[int(evidence.argmax())]


def _log_evidence(x: np.ndarray, target_map: TargetMap, y: np.ndarray) -> float:
    """In units of y: the process explains standardised values."""
    rows = np.sort(np.random.default_rng(0).permutation(len(y))[:200])
    values = target_map.to_model(y)
    size = np.abs(values).max()
    slopes = target_map.log_slope(y) - np.log((values / size).std()) - np.log(size)
    return log_evidences([x[rows]], values[rows])[0] + float(slopes[rows].sum())


def _bounds_of(y: np.ndarray) -> tuple[float, float]:
    """The bounds that the data have: zero for positive ones, and values that many rows share at an end."""
    low, high = -np.inf, np.inf
    least, most = float(y.min()), float(y.max())
    if len(y) < ENOUGH_FOR_BOUNDS or least == most:
        return low, high
    if len(np.unique(y)) <= FEW_VALUES:
        return least, most
    if least >= 0 or _tied(y, least):
        low = least if _tied(y, least) else 0.0
    if most <= 0 or _tied(y, most):
        high = most if _tied(y, most) else 0.0
    return low, high


def _tied(y: np.ndarray, value: float) -> bool:
    return int((y == value).sum()) >= max(5, TIED * len(y))


def read_bounds(bounds: Any) -> Any:
    """The bounds of predictions as they are asked for: "auto", none, or two numbers."""
    if bounds is None or (isinstance(bounds, str) and bounds == "auto"):
        return bounds
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low = high = np.nan
    if not low < high:
        raise ValueError(f'bounds must be "auto", None or two numbers that rise, not {short(bounds)}')
    return low, high


def read_values(y: Any, rows: int, targets: int | None) -> np.ndarray:
    """Values whose densities are asked for, [N] or [N, P]; `targets` is None for one without an axis."""
    values, _ = read_targets(y, rows, gaps=False)
    if targets is None and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape[1:] != (() if targets is None else (targets,)):
        wanted = [rows] if targets is None else [rows, targets]
        raise ValueError(f"y must have shape {wanted}; its shape is {list(values.shape)}")
    return values


def read_targets(y: Any, rows: int, *, gaps: bool = True) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Values [N] or [N, P] with NaN for rows to predict, and the names of several targets where they have some."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if isinstance(y, np.ma.MaskedArray):
        raise ValueError("y is a masked array, whose mask would be lost; pass NaN in its masked cells instead")
    names = tuple(map(str, y.columns)) if isinstance(y, pd.DataFrame) else None
    try:
        cells = np.asarray(y)
    except ValueError as error:
        raise ValueError(f"y must be an array of numbers ({error})") from error
    values = _numbers(cells)
    if values.ndim not in (1, 2) or (values.ndim == 2 and not values.shape[1]):
        raise ValueError(f"y must have shape [N] or [N, P]; its shape is {list(values.shape)}")
    if len(values) != rows:
        raise ValueError(
            f"y must have shape [{rows}] or [{rows}, P], for the rows of X, and its shape is {list(values.shape)}"
        )
    if not gaps and np.isnan(values).any():
        raise ValueError(f"y is missing (NaN) in row {np.argwhere(np.isnan(values))[0, 0]} (counted from 0)")
    wrong = np.argwhere(~(np.abs(values) <= LARGEST) & ~np.isnan(values))
    if len(wrong):
        where = tuple(wrong[0])
        advice = (
            "remove the row"
            if np.isinf(values[where])
            else f"numbers above {LARGEST:g} in size are too large: divide them by a constant first"
        )
        raise ValueError(f"y holds {values[where]} at point {where[0]} (counted from 0); {advice}")
    for index, column in enumerate(np.atleast_2d(values.T)):
        if np.isnan(column).all() and rows:
            which = f" {shown(names[index])}" if names else f" {index}" if values.ndim == 2 else ""
            raise ValueError(f"the target{which} is missing (NaN) in all rows; at least one is needed")
    return values, names


def _numbers(cells: np.ndarray) -> np.ndarray:
    if cells.dtype.kind in "iufb":
        return cells.astype(np.float64)
    if cells.dtype.kind == "c":
        raise ValueError("Complex data not supported: split y into real and imaginary parts")
    if cells.dtype.kind == "O":
        try:
            blank = pd.isna(cells)
            if not any(isinstance(cell, str) for cell in cells.ravel()):
                return np.where(blank, np.nan, np.where(blank, 0.0, cells).astype(np.float64))
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"y must hold numbers that float64 can hold ({short(str(error))})") from error
    kind = "text" if cells.dtype.kind in "OUS" else cells.dtype.type.__name__
    raise ValueError(f"y must be an array of real numbers, not {kind}; a category cannot be a target")
