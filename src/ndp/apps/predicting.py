"""`ndp predict`: from a table of anybody's numbers to predictions in its own columns and units."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ndp.core.io.files import atomic_write
from ndp.core.io.tables import TableError, read_cells
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


@dataclass(frozen=True)
class Numbers:
    """Columns of numbers by name; rows with something missing are left out and counted."""

    names: tuple[str, ...]
    values: np.ndarray  # [N, K]
    left_out: int


@dataclass(frozen=True)
class Outcome:
    """What was read and predicted."""

    inputs: tuple[str, ...]
    rows: int
    left_out: int  # of the rows that are learned from, for something is missing
    predicted: int
    not_predicted: int  # of the rows that were asked for, for an input is missing


def predict_to_files(
    train: Path,
    *,
    target: str,
    at: Path | None,
    out: Path,
    plot: Path | None,
    model: str,
    seed: int,
) -> Outcome:
    """Predict at the rows of `at`, or at those of `train` without a target; mean, std and quantiles go beside the inputs."""
    if plot:
        check_ending(plot)
    columns, _ = read_cells(train)
    if target not in columns:
        raise TableError(f"{train} has no column {target}; its columns are: {', '.join(columns)}")
    inputs = tuple(name for name in columns if name and name != target)
    if not inputs:
        raise TableError(f"{train} has no other column than {target} to predict it from")
    known = read_numbers(train, (*inputs, target))
    if not len(known.values):
        raise TableError(f"{train} has no row without missing values")
    asked = read_numbers(at, inputs) if at else _without_target(train, inputs, target)
    x_new = asked.values
    if not len(x_new):
        nowhere = f"no row of {train} lacks {target}: say where with --at"
        raise TableError(f"{at} has no row without missing values" if at else nowhere)
    x, y = known.values[:, :-1], known.values[:, -1]
    regressor = NDPRegressor(model, random_state=seed).fit(x, y)
    mean, std, quantiles = regressor.predict(x_new, return_std=True, return_quantiles=QUANTILES)
    with atomic_write(out) as table:
        _write(table, inputs, x_new, target, np.column_stack([mean, std, quantiles]))
        if plot:
            _picture(plot, regressor, x, y, inputs, target, seed)
    left_out = known.left_out if at else known.left_out - len(x_new) - asked.left_out
    return Outcome(inputs, len(y), left_out, len(x_new), asked.left_out)


def read_numbers(path: Path, names: tuple[str, ...]) -> Numbers:
    """The columns of these names; a cell may be missing, but not be something else than a number."""
    columns, lines = read_cells(path)
    missing = [name for name in names if name not in columns]
    if missing:
        raise TableError(f"{path} has no column {missing[0]}; its columns are: {', '.join(columns)}")
    return _whole_rows(path, columns, lines, names)


def _without_target(path: Path, inputs: tuple[str, ...], target: str) -> Numbers:
    columns, lines = read_cells(path)
    place = columns.index(target)
    asked = [(number, row) for number, row in lines if row[place].strip().lower() in MISSING]
    return _whole_rows(path, columns, asked, inputs)


def _whole_rows(path: Path, columns: list[str], lines: list[tuple[int, list[str]]], names: tuple[str, ...]) -> Numbers:
    places = [columns.index(name) for name in names]
    rows = [[_number(path, number, columns[i], row[i]) for i in places] for number, row in lines]
    values = np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    whole = ~np.isnan(values).any(1)
    return Numbers(names, values[whole], int((~whole).sum()))


def _number(path: Path, row: int, column: str, cell: str) -> float:
    if cell.strip().lower() in MISSING:
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        raise TableError(
            f"{path}, row {row}, column {column}: {cell.strip()!r} is not a number; encode categories as numbers (one column "
            "of 0 and 1 for each kind), write dates as days or seconds, or leave the column out"
        ) from None
    if not math.isfinite(value):
        raise TableError(f"{path}, row {row}, column {column}: a finite number is needed, and there is {cell.strip()}")
    return value


def _write(path: Path, inputs: tuple[str, ...], x: np.ndarray, target: str, predicted: np.ndarray) -> None:
    names = [f"{target}_mean", f"{target}_std", *(f"{target}_q{round(100 * p):02d}" for p in QUANTILES)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*inputs, *names])
        for point, row in zip(x, predicted, strict=True):
            writer.writerow([*(repr(float(value)) for value in point), *(f"{value:.9g}" for value in row)])


def _picture(
    path: Path, regressor: NDPRegressor, x: np.ndarray, y: np.ndarray, inputs: tuple[str, ...], target: str, seed: int
) -> None:
    """Functions of one input; the mean over two; else draws of the partial dependence on each input."""
    if len(inputs) == 2:
        return _surface(path, regressor, x, y, inputs, target)
    columns = min(len(inputs), 3)
    rows = math.ceil(len(inputs) / columns)
    alone = "draws of the function, bands of a new observation"
    title = f"{target}: {alone if len(inputs) == 1 else 'what each input does, draws of partial dependence'}"
    size = (5.2, 4.0) if len(inputs) == 1 else (3.4, 2.8)
    figure, axes = new_grid(rows, columns, size=size, title=title, share_x=False)
    for index, (ax, name) in enumerate(zip(axes.flat, inputs, strict=False)):
        grid = np.linspace(x[:, index].min(), x[:, index].max(), GRID)
        if len(inputs) == 1:
            plot_regression(
                ax,
                grid,
                draws=regressor.sample_y(grid[:, None], DRAWS, seed, noisy=False).T,
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
    draws = regressor.sample_y(points, DRAWS, seed, noisy=False)
    return draws.T.reshape(DRAWS, len(rows), len(grid)).mean(1)


def _surface(
    path: Path, regressor: NDPRegressor, x: np.ndarray, y: np.ndarray, inputs: tuple[str, ...], target: str
) -> None:
    sides = [np.linspace(x[:, i].min(), x[:, i].max(), 40) for i in range(2)]
    first, second = np.meshgrid(*sides)
    mean, std = regressor.predict(np.column_stack([first.ravel(), second.ravel()]), return_std=True)
    figure, axes = new_grid(1, 2, size=(5.0, 4.0), title=f"{target}: mean and standard deviation of an observation")
    for ax, values, words in zip(axes[0], (mean, std), ("mean", "standard deviation"), strict=True):
        drawn = ax.pcolormesh(first, second, values.reshape(first.shape), shading="gouraud")
        figure.colorbar(drawn, ax=ax)
        ax.plot(x[:, 0], x[:, 1], "o", color="white", markeredgecolor="black", markersize=4, label="observations")
        ax.set_title(words, loc="left", fontsize=11)
        ax.set_xlabel(inputs[0])
        ax.grid(False)
    axes[0, 0].set_ylabel(inputs[1])
    label_once(figure, axes[0, 0])
    save_figure(figure, path)
