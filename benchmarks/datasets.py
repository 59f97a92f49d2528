"""Regression tables that come with scikit-learn and statsmodels; none needs a download."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Dataset:
    """Inputs [N, D] with at most ten columns, and a target [N]."""

    name: str
    x: np.ndarray
    y: np.ndarray


def datasets() -> tuple[list[Dataset], str]:
    """All tables, and a sentence on those that are left out because their package is not installed."""
    sets, missing = [_diabetes()], ""
    with warnings.catch_warnings(action="ignore"):
        try:
            import statsmodels.datasets as shipped
        except ImportError:
            missing = "statsmodels is not installed (extra `benchmarks`), so its tables are left out."
        else:
            sets += list(_of_statsmodels(shipped))
    return sets, missing


def _diabetes() -> Dataset:
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    return Dataset("diabetes", x, y)


# Names in statsmodels, the column of the target, and columns to leave out.
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


def _of_statsmodels(shipped: Any) -> Iterator[Dataset]:
    for name, (target, left_out) in _TARGETS.items():
        load: Callable[[], Any] = getattr(shipped, name).load_pandas
        table = load().data.drop(columns=list(left_out)).select_dtypes("number").dropna()
        y = table.pop(target).to_numpy(dtype=np.float64)
        yield Dataset(name, table.to_numpy(dtype=np.float64)[:, :10], y)
