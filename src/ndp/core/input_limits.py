"""Limits of the data that a model was trained for. Data outside them are subsampled, dropped or clipped, with a warning."""

import warnings
from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr

from ndp.core.io.tables import listed

MAX_OBSERVATIONS = 256  # in the training of the universal model
CLIP_DISTANCE = 2.0  # standard deviations from the data, beyond which predictions no longer depend on the input
ROWS_NAMED = 5  # in a warning


def rows_to_keep(y: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """The indices of all rows, or of a random choice of `most` of them."""
    if len(y) <= most:
        return np.arange(len(y))
    warnings.warn(
        f"{len(y)} observations are more than the {most} that the model takes; a random {most} of them are used",
        UserWarning,
        stacklevel=3,
    )
    return np.sort(rng.choice(len(y), most, replace=False))


def columns_to_keep(x: np.ndarray, y: np.ndarray, most: int) -> np.ndarray:
    """The indices of all inputs, or of the `most` with the largest rank correlation (Spearman's) with the target."""
    if x.shape[1] <= most:
        return np.arange(x.shape[1])
    warnings.warn(
        f"{x.shape[1]} inputs are more than the {most} that the model takes; the {most} with the largest rank "
        "correlation with the target are used",
        UserWarning,
        stacklevel=3,
    )
    correlation = np.zeros(x.shape[1])
    if np.ptp(y) > 0:
        for column in np.flatnonzero(np.ptp(x, axis=0) > 0):  # a constant has no ranks
            correlation[column] = abs(spearmanr(x[:, column], y).statistic)
    return np.sort(np.argsort(-correlation, kind="stable")[:most])


def clip_to_support(x: np.ndarray, low: np.ndarray, high: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inputs moved to at most `CLIP_DISTANCE` standard deviations outside the data, and which of them [N, D] are far outside.

    The data lie in [low, high]. Farther out, a prediction is that of the prior. Where the data have no spread, 1 stands in for
    their standard deviation, as in `ContextUnits`. Far outside is farther than the data are wide, and clipped too.
    """
    spread = np.where(std > 0, std, 1.0)
    margin = CLIP_DISTANCE * spread
    far = np.maximum(high - low, margin)
    return np.clip(x, low - margin, high + margin), (x < low - far) | (x > high + far)


def warn_of_far_inputs(
    far: np.ndarray, names: Sequence[str], rows: Sequence[object] | np.ndarray | None = None
) -> None:
    """One warning with the rows, counted from 0 or by their numbers in `rows`, and the `names` of the columns."""
    where = np.flatnonzero(far.any(1))
    if not len(where):
        return
    numbers = [str(row if rows is None else rows[row]) for row in where[:ROWS_NAMED].tolist()]
    more = f" and {len(where) - ROWS_NAMED} more" if len(where) > ROWS_NAMED else ""
    columns = list(dict.fromkeys(names[column] for column in np.flatnonzero(far.any(0)).tolist()))
    warnings.warn(
        "Inputs farther outside the data than the data are wide were clipped "
        f"(row{'s' if len(where) > 1 else ''} {', '.join(numbers)}{more}; column{'s' if len(columns) > 1 else ''} "
        f"{listed(columns)}).",
        UserWarning,
        stacklevel=4,
    )
