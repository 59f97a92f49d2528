"""The pictures of docs/facts.md: the same observations without facts and with them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.report import Progress, Report, Table
from ndp.core.plotting import save_figure
from ndp.facts import Bounds, Counts, Derivative, Integral, Monotone, Preference
from ndp.models.registry import load_ndp

INK, LIGHT = "#1f4e79", "#c0504d"
DRAWS = 24


def reproduce(model: str, *, device: str, out: Path, progress: Progress) -> Report:
    """Draw all five pictures into `out`."""
    ndp = load_ndp(model, device)
    rows = []
    for name, draw in PICTURES.items():
        progress(name)
        figure = Figure(figsize=(8, 2.8), layout="constrained")
        effective = draw(ndp, figure)
        save_figure(figure, out / f"facts-{name}.png")
        rows.append((name, f"{effective:.0f}"))
    return Report("facts-pictures", [Table("Pictures", ("picture", "effective size of 256"), rows)], "", dict(rows))


def _curves(
    axes: Axes, posterior: Any, x: np.ndarray, title: str, transform: Callable[[Any], Any] = np.asarray
) -> None:
    draws = transform(posterior.sample(x, DRAWS, generator=torch.Generator().manual_seed(0)))
    axes.plot(x, draws.T, color=INK, alpha=0.25, linewidth=0.8)
    axes.plot(x, draws.mean(0), color=INK, linewidth=1.6)
    axes.set_title(title, fontsize=9)


def _dose(model: Any, figure: Figure) -> float:
    x, y = np.array([[0.0], [1.0], [2.5], [4.0], [7.0]]), np.array([0.02, 0.05, 0.41, 0.38, 0.86])
    grid = np.linspace(0, 10, 20)[:, None]
    told = model.condition(x, y).given(Bounds(0, 1), Monotone())
    return _two(figure, model.condition(x, y), told, grid, (x, y), "increasing, in [0, 1]")


def _density(model: Any, figure: Figure) -> float:
    x, y = np.array([[-2.0], [-1.0], [0.0], [1.5]]), np.array([0.02, 0.15, 0.42, 0.12])
    grid = np.linspace(-3, 3, 20)[:, None]
    told = model.condition(x, y).given(Bounds(0), Integral(-3, 3, 1.0, noise=0.01))
    return _two(figure, model.condition(x, y), told, grid, (x, y), "not negative, area one")


def _slopes(model: Any, figure: Figure) -> float:
    x, y = np.array([[-1.5], [1.5]]), np.sin([-3.0, 3.0])
    stations, grid = np.linspace(-1.5, 1.5, 7)[:, None], np.linspace(-1.5, 1.5, 40)[:, None]
    told = model.condition(x, y).given(Derivative(stations, 2 * np.cos(2 * stations[:, 0]), noise=0.1))
    effective = _two(figure, model.condition(x, y), told, grid, (x, y), "seven slopes")
    for axes in figure.axes:
        axes.plot(grid, np.sin(2 * grid), color="0.3", linestyle=":", linewidth=1)
    return effective


def _counts(model: Any, figure: Figure) -> float:
    times = np.linspace(-2, 2, 20)[:, None]
    counted = np.random.default_rng(0).poisson(4 * np.exp(np.sin(2 * times[:, 0])))
    told = model.given(Counts(times, counted, exposure=4.0))
    axes = figure.subplots()
    _curves(axes, told, np.linspace(-2, 2, 60)[:, None], "rates that explain the counts", lambda f: 4 * np.exp(f))
    axes.plot(times, counted, "o", color=LIGHT, markersize=4)
    return float(told.effective_sample_size())


def _preference(model: Any, figure: Figure) -> float:
    better = np.array([[0.5], [0.9], [0.6], [0.4], [0.8]])
    worse = np.array([[-1.0], [1.8], [-0.2], [-1.8], [1.3]])
    told, grid = model.given(Preference(better, worse, noise=0.1)), np.linspace(-2, 2, 60)[:, None]
    left, right = figure.subplots(1, 2)
    _curves(left, told, grid, "functions that agree with five comparisons")
    left.set_ylim(bottom=-4.5)
    for row, (good, bad) in enumerate(zip(better[:, 0], worse[:, 0], strict=True)):
        left.annotate(
            "", (good, -3 - 0.25 * row), (bad, -3 - 0.25 * row), arrowprops={"arrowstyle": "->", "color": LIGHT}
        )
    draws = np.asarray(told.sample(grid, 256, generator=torch.Generator().manual_seed(1)))
    right.hist(grid[draws.argmax(1), 0], bins=30, range=(-2, 2), color=INK, alpha=0.7)
    right.set_title("where the best setting may be", fontsize=9)
    return float(told.effective_sample_size())


def _two(
    figure: Figure, plain: Any, told: Any, grid: np.ndarray, known: tuple[np.ndarray, np.ndarray], words: str
) -> float:
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, posterior, title in ((left, plain, "observations alone"), (right, told, words)):
        _curves(axes, posterior, grid, title)
        axes.plot(*known, "o", color=LIGHT, markersize=5)
    return float(told.effective_sample_size(grid))


PICTURES = {"dose": _dose, "density": _density, "counts": _counts, "preference": _preference, "slopes": _slopes}
