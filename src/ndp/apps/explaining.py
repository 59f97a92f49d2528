"""Which columns of a table a prediction comes from: what is lost when one of them is shuffled."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.inspection import permutation_importance

from ndp.sklearn import NDPRegressor

HELD_OUT, MOST_HELD_OUT = 0.25, 64  # share of the rows, and how many at the most
FEWEST = 20  # rows of which some are held out
REPEATS = 3


@dataclass(frozen=True)
class Importance:
    """How much of R^2 is lost when a column is shuffled: mean and standard deviation over some shuffles."""

    name: str
    mean: float
    std: float


def importances(regressor: NDPRegressor, x: pd.DataFrame, y: np.ndarray) -> tuple[Importance, ...]:
    """Of every column, the largest first, on held-out rows; on the rows themselves where they are few."""
    order = np.random.default_rng(0).permutation(len(x))
    held_out = min(MOST_HELD_OUT, int(HELD_OUT * len(x))) if len(x) >= FEWEST else 0
    test, known = (order[:held_out], order[held_out:]) if held_out else (order, order)
    fitted = clone(regressor).fit(x.iloc[known], y[known])
    found = permutation_importance(fitted, x.iloc[test], y[test], n_repeats=REPEATS, random_state=0)
    each = zip(x.columns, found.importances_mean.tolist(), found.importances_std.tolist(), strict=True)
    return tuple(sorted((Importance(*one) for one in each), key=lambda one: -one.mean))
