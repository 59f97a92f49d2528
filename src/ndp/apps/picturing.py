"""The picture of `ndp predict`: a function of one input, a surface over two, or the partial dependence on each column."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ndp.core.plotting import (
    BLUE,
    label_once,
    new_grid,
    plot_context,
    plot_draws,
    plot_regression,
    save_figure,
)
from ndp.sklearn import NDPRegressor
from ndp.tabular.columns import Column, Kind, column_types, raw_columns, read_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
GRID, SIDE = 60, 40  # points along an input of a picture, and along a side of a surface
DRAWS = 20
BACKGROUNDS = 8  # rows whose other columns a partial dependence is averaged over
MOST_LEVELS = 12


def draw_predictions(
    path: Path, regressor: NDPRegressor, x: pd.DataFrame, y: np.ndarray, target: str, seed: int
) -> None:
    """Write the picture of a fitted regressor; `x` and `y` are what it was fitted to."""
    raw = raw_columns(x)
    columns = read_columns(raw, column_types(raw, regressor.categories))
    numbers = [column.type.kind is not Kind.CATEGORY and not column.missing.all() for column in columns]
    if len(columns) == 2 and all(numbers):
        return _surface(path, regressor, columns, y, target)
    across = min(len(columns), 3)
    what = "draws, and intervals of a new observation" if len(columns) == 1 else "draws of the partial dependence"
    size = (5.2, 4.0) if len(columns) == 1 else (3.4, 2.8)
    rows = math.ceil(len(columns) / across)
    figure, axes = new_grid(rows, across, size=size, title=f"{target}: {what}", share_x=False)
    for ax, column, is_number in zip(axes.flat, columns, numbers, strict=False):
        if not is_number:
            _levels(ax, regressor, x, column, y, seed)
        elif len(columns) == 1:
            _curve(ax, regressor, column, y, seed)
        else:
            values = column.values.astype(float)
            grid = np.linspace(np.nanmin(values), np.nanmax(values), GRID)
            plot_draws(ax, grid, partial_dependence(regressor, x, column.type.name, grid, seed), colour=BLUE)
            plot_context(ax, values[~column.missing], y[~column.missing], size=3.0)
        ax.set_xlabel(column.type.name)
    axes[0, 0].set_ylabel(target)
    for ax in list(axes.flat)[len(columns) :]:
        ax.set_visible(False)
    label_once(figure, axes[0, 0])
    save_figure(figure, path)


def partial_dependence(
    regressor: NDPRegressor, x: pd.DataFrame, name: str, grid: np.ndarray, seed: int, *, backgrounds: int = BACKGROUNDS
) -> np.ndarray:
    """Draws [S, G] of the function along one column, averaged over some rows' values of the others."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(x), min(backgrounds, len(x)), replace=False)
    points = x.iloc[np.repeat(rows, len(grid))].copy()
    points[name] = np.tile(grid, len(rows)).tolist()
    draws = regressor.sample_y(points, DRAWS, seed, observation_noise=None)
    found: np.ndarray = draws.T.reshape(DRAWS, len(rows), len(grid)).mean(1)
    return found


def _curve(ax: "Axes", regressor: NDPRegressor, column: Column, y: np.ndarray, seed: int) -> None:
    values = column.values.astype(float)
    grid = np.linspace(np.nanmin(values), np.nanmax(values), GRID)
    places = pd.DataFrame({column.type.name: grid})
    plot_regression(
        ax,
        grid,
        draws=regressor.sample_y(places, DRAWS, seed, observation_noise=None).T,
        quantiles=regressor.predict(places, return_quantiles=QUANTILES)[1].T,
        probabilities=QUANTILES,
        observations=(values[~column.missing], y[~column.missing]),
    )


def _levels(ax: "Axes", regressor: NDPRegressor, x: pd.DataFrame, column: Column, y: np.ndarray, seed: int) -> None:
    """The draws at each of the most frequent levels, and the observations beside them."""
    names, count = np.unique(column.values[~column.missing].astype(str), return_counts=True)
    levels = names[np.sort(np.argsort(-count, kind="stable")[:MOST_LEVELS])].astype(object)
    places = np.arange(len(levels))
    if len(levels):
        drawn = partial_dependence(regressor, x, column.type.name, levels, seed)
        ax.plot(np.tile(places - 0.15, len(drawn)), drawn.ravel(), ".", color=BLUE, alpha=0.4)
    for place, level in zip(places, levels, strict=True):
        seen = y[column.values == level]
        ax.plot(np.full(len(seen), place + 0.15), seen, "o", color="black", markersize=3)
    ax.set_xticks(places, [str(level)[:12] for level in levels], rotation=30, ha="right")


def _surface(path: Path, regressor: NDPRegressor, columns: tuple[Column, ...], y: np.ndarray, target: str) -> None:
    names = [column.type.name for column in columns]
    known = [column.values.astype(float) for column in columns]
    first, second = np.meshgrid(*(np.linspace(np.nanmin(each), np.nanmax(each), SIDE) for each in known))
    places = pd.DataFrame(dict(zip(names, (first.ravel(), second.ravel()), strict=True)))
    mean, std = regressor.predict(places, return_std=True)
    figure, axes = new_grid(1, 2, size=(5.0, 4.0), title=f"{target}: mean and standard deviation of a new observation")
    for ax, values, title in zip(axes[0], (mean, std), ("mean", "standard deviation"), strict=True):
        drawn = ax.pcolormesh(first, second, values.reshape(first.shape), shading="gouraud")
        figure.colorbar(drawn, ax=ax)
        ax.plot(*known, "o", color="white", markeredgecolor="black", markersize=4, label="observations")
        ax.set_title(title, loc="left", fontsize=11)
        ax.set_xlabel(names[0])
        ax.grid(False)
    axes[0, 0].set_ylabel(names[1])
    label_once(figure, axes[0, 0])
    save_figure(figure, path)
