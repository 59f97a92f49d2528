"""`ndp predict`: predictions for a table as it comes, in its own columns and units."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ndp.apps.explaining import Importance, importances
from ndp.apps.picturing import draw_predictions
from ndp.core.io.files import atomic_write
from ndp.core.io.tables import TableError, check_size, listed, parse_number, read_table, shown, to_numbers
from ndp.core.plotting import check_ending
from ndp.sklearn import NDPRegressor
from ndp.tabular.columns import BLANK

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Outcome:
    """What was read and predicted."""

    inputs: tuple[str, ...]
    rows: int
    predicted: int
    columns: tuple[str, ...]  # what each was taken for
    importances: tuple[Importance, ...]


def predict_to_files(
    train: Path,
    *,
    target: str,
    at: Path | None,
    out: Path,
    plot: Path | None,
    model: str,
    seed: int,
    categories: Sequence[str] = (),
    explain: bool = False,
    report: Callable[[int, int], None] = lambda done, rows: None,
) -> Outcome:
    """Predict at the rows of `at`, or at those of `train` without a target; mean, std and quantiles go beside the inputs.

    `report` is called with the number of rows that are predicted, and of all rows.
    """
    if plot:
        check_ending(plot)
    cells = read_table(train)
    _check_columns(train, cells, target, *categories)
    inputs = [name for name in cells if name and name != target]
    if not inputs:
        raise TableError(f"{train} has no other column than {target} to predict it from")
    values = to_numbers(train, cells[[target]], _read_number)[target]
    known = cells.loc[values.notna(), inputs]
    if not len(known):
        raise TableError(f"{train} has no row with a value of {target}")
    asked = _inputs_of(at, inputs) if at else cells.loc[values.isna(), inputs]
    if not len(asked):
        raise TableError(f"{at} holds no rows" if at else f"no row of {train} lacks {target}: say where with --at")
    y = values.dropna().to_numpy()
    regressor = NDPRegressor(model, random_state=seed, categories=list(categories))
    with _naming(train):
        regressor.fit(known, y)
    with _naming(at or train):
        predicted = predictions(regressor, asked, report)
    names = [f"{target}_mean", f"{target}_std", *(f"{target}_q{round(100 * p):02d}" for p in QUANTILES)]
    with atomic_write(out) as temporary:
        results = pd.DataFrame(predicted, columns=names, index=asked.index).map("{:.9g}".format)
        pd.concat([asked, results], axis=1).to_csv(temporary, index=False)
        if plot:
            draw_predictions(plot, regressor, known, y, target, seed)
    found = importances(regressor, known, y) if explain else ()
    return Outcome(tuple(inputs), len(known), len(asked), tuple(regressor.describe()), found)


def predictions(regressor: NDPRegressor, x: pd.DataFrame, report: Callable[[int, int], None]) -> np.ndarray:
    """Mean, standard deviation and quantiles at every row."""
    mean, std, quantiles = regressor.predict(x, return_std=True, return_quantiles=QUANTILES, progress=report)
    return np.column_stack([mean, std, quantiles])


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """An error in a table names its file."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise TableError(f"{path}: {error}") from error


def _inputs_of(path: Path, inputs: list[str]) -> pd.DataFrame:
    cells = read_table(path)
    _check_columns(path, cells, *inputs)
    return cells[inputs]


def _check_columns(path: Path, cells: pd.DataFrame, *names: str) -> None:
    missing = [name for name in names if name not in cells]
    if missing:
        raise TableError(f"{path} has no column {missing[0]}; its columns are: {listed(cells)}")


def _read_number(cell: str, where: str) -> float:
    if cell.strip().lower() in BLANK:
        return math.nan
    try:
        value = parse_number(cell)
    except ValueError:
        raise TableError(f"{where}: {shown(cell)!r} is not a number, and a target must be one") from None
    return check_size(value, cell, where)
