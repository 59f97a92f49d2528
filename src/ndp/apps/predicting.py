"""`ndp predict`: predictions for a table of numbers, in its own columns and units."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ndp.core.input_limits import clip_to_support
from ndp.core.io.files import atomic_write
from ndp.core.io.tables import (
    TableError,
    check_size,
    listed,
    parse_number,
    read_table,
    shown,
    to_numbers,
    write_table,
)
from ndp.core.plotting import (
    BLUE,
    check_ending,
    label_once,
    new_grid,
    plot_context,
    plot_draws,
    plot_regression,
    save_figure,
)
from ndp.sklearn import NDPRegressor

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MISSING = {"", "na", "nan", "n/a", "null", "none", "?"}
GRID = 60  # points along an input of a picture
DRAWS = 20
ROWS_AT_A_TIME = (
    256  # a multiple of the targets that are asked for in one call, so that predictions do not depend on it
)


@dataclass(frozen=True)
class Outcome:
    """What was read and predicted."""

    inputs: tuple[str, ...]
    rows: int
    left_out: int  # rows with a target that are not used: an input is missing
    predicted: int
    not_predicted: int  # rows to predict at that are not used: an input is missing


def predict_to_files(
    train: Path,
    *,
    target: str,
    at: Path | None,
    out: Path,
    plot: Path | None,
    model: str,
    seed: int,
    report: Callable[[int, int], None] = lambda done, rows: None,
) -> Outcome:
    """Predict at the rows of `at`, or at those of `train` without a target; mean, std and quantiles go beside the inputs.

    `report` is called with the number of rows that are predicted, and of all rows.
    """
    if plot:
        check_ending(plot)
    cells = read_table(train)
    _check_columns(train, cells, target)
    inputs = [name for name in cells if name and name != target]
    if not inputs:
        raise TableError(f"{train} has no other column than {target} to predict it from")
    table = _numbers(train, cells, [*inputs, target])
    known = table.dropna()
    if not len(known):
        raise TableError(f"{train} has no row without missing values")
    without_target = table[target].isna()
    asked = _numbers(at, read_table(at), inputs) if at else table.loc[without_target, inputs]
    complete = asked.dropna()
    if not len(complete):
        nowhere = f"no row of {train} lacks {target}: say where with --at"
        raise TableError(f"{at} has no row without missing values" if at else nowhere)
    x, y, x_new = known[inputs].to_numpy(), known[target].to_numpy(), complete.to_numpy()
    regressor = NDPRegressor(model, random_state=seed).fit(x, y)
    clipped = clip_to_support(x_new, regressor.low_, regressor.high_, regressor.spread_, rows=complete.index.tolist())
    values = predict_in_pieces(regressor, clipped, report)
    names = [f"{target}_mean", f"{target}_std", *(f"{target}_q{round(100 * p):02d}" for p in QUANTILES)]
    with atomic_write(out) as temporary:
        write_table(temporary, inputs, x_new, names, values)
        if plot:
            _picture(plot, regressor, x, y, inputs, target, seed)
    unused = len(table) - len(known) if at else int((~without_target).sum()) - len(known)
    return Outcome(tuple(inputs), len(known), unused, len(complete), len(asked) - len(complete))


def predict_in_pieces(regressor: NDPRegressor, x: np.ndarray, report: Callable[[int, int], None]) -> np.ndarray:
    """Mean, standard deviation and quantiles at every row, the same as in one call."""
    pieces = []
    for start in range(0, len(x), ROWS_AT_A_TIME):
        piece = x[start : start + ROWS_AT_A_TIME]
        mean, std, quantiles = regressor.predict(piece, return_std=True, return_quantiles=QUANTILES)
        pieces.append(np.column_stack([mean, std, quantiles]))
        report(start + len(piece), len(x))
    return np.concatenate(pieces)


def _check_columns(path: Path, cells: pd.DataFrame, *names: str) -> None:
    missing = [name for name in names if name not in cells]
    if missing:
        raise TableError(f"{path} has no column {missing[0]}; its columns are: {listed(cells)}")


def _numbers(path: Path, cells: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """The columns of these names as numbers, NaN where a cell is missing."""
    _check_columns(path, cells, *names)
    return to_numbers(path, cells[names], _read_number)


def _read_number(cell: str, where: str) -> float:
    if cell.strip().lower() in MISSING:
        return math.nan
    try:
        value = parse_number(cell)
    except ValueError:
        raise TableError(
            f"{where}: {shown(cell)!r} is not a number; encode categories as numbers (one column of 0 and 1 for each "
            "category), write dates as days or seconds, or leave the column out"
        ) from None
    return check_size(value, cell, where)


def _picture(
    path: Path, regressor: NDPRegressor, x: np.ndarray, y: np.ndarray, inputs: list[str], target: str, seed: int
) -> None:
    """Functions of one input; the mean over two; else draws of the partial dependence on each input."""
    if len(inputs) == 2:
        return _surface(path, regressor, x, y, inputs, target)
    columns = min(len(inputs), 3)
    rows = math.ceil(len(inputs) / columns)
    what = "draws, and intervals of a new observation" if len(inputs) == 1 else "draws of the partial dependence"
    size = (5.2, 4.0) if len(inputs) == 1 else (3.4, 2.8)
    figure, axes = new_grid(rows, columns, size=size, title=f"{target}: {what}", share_x=False)
    for index, (ax, name) in enumerate(zip(axes.flat, inputs, strict=False)):
        grid = np.linspace(x[:, index].min(), x[:, index].max(), GRID)
        if len(inputs) == 1:
            plot_regression(
                ax,
                grid,
                draws=regressor.sample_y(grid[:, None], DRAWS, seed, observation_noise=None).T,
                quantiles=regressor.predict(grid[:, None], return_quantiles=QUANTILES)[1].T,
                probabilities=QUANTILES,
                observations=(x[:, 0], y),
            )
        else:
            plot_draws(ax, grid, partial_dependence(regressor, x, index, grid, seed), colour=BLUE)
            plot_context(ax, x[:, index], y, size=3.0)
        ax.set_xlabel(name)
    axes[0, 0].set_ylabel(target)
    for ax in list(axes.flat)[len(inputs) :]:
        ax.set_visible(False)
    label_once(figure, axes[0, 0])
    save_figure(figure, path)


def partial_dependence(
    regressor: NDPRegressor, x: np.ndarray, index: int, grid: np.ndarray, seed: int, *, backgrounds: int = 8
) -> np.ndarray:
    """Draws [S, G] of the function along one input, averaged over some rows' values of the others."""
    rng = np.random.default_rng(seed)
    rows = x[rng.choice(len(x), min(backgrounds, len(x)), replace=False)]
    points = np.repeat(rows, len(grid), axis=0)
    points[:, index] = np.tile(grid, len(rows))
    draws = regressor.sample_y(points, DRAWS, seed, observation_noise=None)
    return draws.T.reshape(DRAWS, len(rows), len(grid)).mean(1)


def _surface(path: Path, regressor: NDPRegressor, x: np.ndarray, y: np.ndarray, inputs: list[str], target: str) -> None:
    sides = [np.linspace(x[:, i].min(), x[:, i].max(), 40) for i in range(2)]
    first, second = np.meshgrid(*sides)
    mean, std = regressor.predict(np.column_stack([first.ravel(), second.ravel()]), return_std=True)
    figure, axes = new_grid(1, 2, size=(5.0, 4.0), title=f"{target}: mean and standard deviation of a new observation")
    for ax, values, name in zip(axes[0], (mean, std), ("mean", "standard deviation"), strict=True):
        drawn = ax.pcolormesh(first, second, values.reshape(first.shape), shading="gouraud")
        figure.colorbar(drawn, ax=ax)
        ax.plot(x[:, 0], x[:, 1], "o", color="white", markeredgecolor="black", markersize=4, label="observations")
        ax.set_title(name, loc="left", fontsize=11)
        ax.set_xlabel(inputs[0])
        ax.grid(False)
    axes[0, 0].set_ylabel(inputs[1])
    label_once(figure, axes[0, 0])
    save_figure(figure, path)
