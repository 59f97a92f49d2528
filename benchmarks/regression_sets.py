"""Tables of numbers that scikit-learn and statsmodels ship, none of which needs a download."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class RegressionSet:
    """Inputs [N, D] with at most ten columns, and a target [N]."""

    name: str
    x: np.ndarray
    y: np.ndarray


def regression_sets() -> tuple[list[RegressionSet], str]:
    """All of them, and words on those that are left out because their package is not installed."""
    sets, missing = [_diabetes()], ""
    with warnings.catch_warnings(action="ignore"):
        try:
            import statsmodels.datasets as shipped
        except ImportError:
            missing = "statsmodels is not installed (extra `sklearn`), so its regression sets are left out."
        else:
            sets += list(_of_statsmodels(shipped))
    return sets, missing


def _diabetes() -> RegressionSet:
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    return RegressionSet("diabetes", x, y)


# Names in statsmodels, the target's column, and what to leave out or to change.
_TARGETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "engel": ("foodexp", ()),
    "cancer": ("cancer", ()),
    "ccard": ("AVGEXP", ("INCOMESQ",)),
    "fair": ("rate_marriage", ("affairs",)),
    "statecrime": ("murder", ("violent",)),
    "grunfeld": ("invest", ("firm",)),
    "nile": ("volume", ()),
    "sunspots": ("SUNACTIVITY", ()),
    "stackloss": ("STACKLOSS", ()),
    "copper": ("WORLDCONSUMPTION", ()),
    "scotland": ("YES", ()),
    "heart": ("survival", ()),
    "longley": ("TOTEMP", ()),
}


def _of_statsmodels(shipped: Any) -> Iterator[RegressionSet]:
    for name, (target, left_out) in _TARGETS.items():
        load: Callable[[], Any] = getattr(shipped, name).load_pandas
        table = load().data.drop(columns=list(left_out)).select_dtypes("number").dropna()
        y = table.pop(target).to_numpy(dtype=np.float64)
        yield RegressionSet(name, table.to_numpy(dtype=np.float64)[:, :10], y)
