"""Learning curves of the regressor: more rows and more irrelevant inputs, and 2,000 rows of a GP against the fitted GP."""

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.spatial.distance import cdist

from benchmarks.regressors import fit_single_task_gp
from benchmarks.report import Progress, Report, Table
from ndp.core.plotting import BLUE, new_grid
from ndp.models.evaluation import Number
from ndp.sklearn import NDPRegressor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GP_ROWS, GP_INPUTS, LOSS_BAR = 2000, 5, 0.02
GP_LENGTHSCALE, GP_NOISE = 2.5, 0.2
RELEVANT = 5
INPUTS = (5, 10, 20, 50, 100)
ROWS_OF_INPUTS = 200  # of the curve over inputs
ENOUGH = 2.0  # standard errors within which a curve is level


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    rows: tuple[int, ...]
    questions: int
    tables: int
    inputs: tuple[int, ...]


QUICK, FULL = Sizes((100, 300), 100, 1, (5, 20)), Sizes((100, 256, 1000, 3000, 10_000), 200, 2, INPUTS)

Function = Callable[[np.ndarray, np.random.Generator], np.ndarray]  # inputs [N, D] to observations


def smooth(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Friedman's function with noise."""
    unit = 1 / (1 + np.exp(-1.7 * x[:, :RELEVANT]))
    waves = 10 * np.sin(np.pi * unit[:, 0] * unit[:, 1]) + 20 * (unit[:, 2] - 0.5) ** 2
    return waves + 10 * unit[:, 3] + 5 * unit[:, 4] + rng.normal(size=len(x))


def jumps(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Jumps, kinks, and noise that changes along an input."""
    noise = 0.3 * np.exp(0.5 * x[:, 3]) * rng.normal(size=len(x))
    return np.where(x[:, 0] > 0.3, 2.0, 0.0) + np.sign(x[:, 0] * x[:, 1]) * np.abs(x[:, 2]) + 0.5 * x[:, 4] + noise


FUNCTIONS: dict[str, Function] = {"Friedman": smooth, "jumps": jumps}


@dataclass(frozen=True)
class Point:
    """A place on a curve: negative log-densities of the same questions as the other places, and seconds."""

    size: int
    nll: list[float]
    seconds: float


def reproduce(model: str, *, quick: bool, device: str, progress: Progress) -> Report:
    """Both curves for both functions, and the loss on GP data."""
    sizes = QUICK if quick else FULL
    by_rows = {name: _curve(name, sizes.rows, RELEVANT, model, sizes, device, progress) for name in FUNCTIONS}
    by_columns = {
        name: [
            replace(_curve(name, (ROWS_OF_INPUTS,), inputs, model, sizes, device, progress)[0], size=inputs)
            for inputs in sizes.inputs
        ]
        for name in FUNCTIONS
    }
    loss, seconds, gp_seconds = gp_data(model, sizes, device, progress)
    better = {name: _rises(points) for name, points in by_rows.items()}
    findings = [
        f"More rows never make {name} worse by more than {ENOUGH:g} standard errors: {_met(not worse)}."
        for name, worse in better.items()
    ]
    findings.append(
        f"{GP_ROWS:,} rows of GP data: {loss} nats lost to SingleTaskGP fitted on all rows (bar: {LOSS_BAR:g}): "
        f"{_met(loss.mean <= LOSS_BAR)}, in {seconds:.1f} s where it took {gp_seconds:.1f} s: {_met(seconds <= gp_seconds)}."
    )
    return Report(
        "learning-curves",
        [
            _table("Negative log-density against rows, five inputs", "rows", by_rows),
            _table(f"Negative log-density against inputs, {RELEVANT} of them relevant", "inputs", by_columns),
        ],
        " ".join(findings),
        {
            "rows": {name: [asdict(point) for point in points] for name, points in by_rows.items()},
            "inputs": {name: [asdict(point) for point in points] for name, points in by_columns.items()},
            "gp data": {"loss": asdict(loss), "seconds": seconds, "gp_seconds": gp_seconds},
        },
        _figure(by_rows, by_columns),
    )


def _curve(
    name: str, rows: tuple[int, ...], inputs: int, model: str, sizes: Sizes, device: str, progress: Progress
) -> list[Point]:
    """A place for each number of rows. The first rows of a table are the same at all places, and so are the questions."""
    points = {size: Point(size, [], 0.0) for size in rows}
    for seed in range(sizes.tables):
        rng = np.random.default_rng(seed)
        x_new = rng.normal(size=(sizes.questions, inputs))
        y_new = FUNCTIONS[name](x_new, rng)
        x = rng.normal(size=(max(rows), inputs))
        y = FUNCTIONS[name](x, rng)
        for size in rows:
            progress(f"{name}: table {seed + 1} of {sizes.tables}, {size:,} rows of {inputs} inputs")
            log_p, seconds = _scored(x[:size], y[:size], x_new, y_new, model, device)
            nll = (-log_p - np.log(y_new.std())).tolist()
            points[size] = Point(size, points[size].nll + nll, points[size].seconds + seconds / sizes.tables)
    return list(points.values())


def _scored(
    x: np.ndarray, y: np.ndarray, x_new: np.ndarray, y_new: np.ndarray, model: str, device: str
) -> tuple[np.ndarray, float]:
    """Log-densities of the observations, and the seconds for fit, mean and standard deviation."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        began = time.perf_counter()
        regressor = NDPRegressor(model, device=device).fit(x, y)
        regressor.predict(x_new, return_std=True)
        seconds = time.perf_counter() - began
        return regressor.log_prob(x_new, y_new), seconds


def gp_data(model: str, sizes: Sizes, device: str, progress: Progress) -> tuple[Number, float, float]:
    """Nats a value lost to a GP fitted on all rows, and the seconds of both."""
    rows = sizes.rows[-1] if sizes is QUICK else GP_ROWS
    lost, ours, theirs = [], [], []
    for seed in range(sizes.tables):
        progress(f"GP data: table {seed + 1} of {sizes.tables}, {rows:,} rows")
        rng = np.random.default_rng(100 + seed)
        x = rng.normal(size=(rows + sizes.questions, GP_INPUTS))
        y = _gp_draw(x, rough=bool(seed % 2), rng=rng) + GP_NOISE * rng.normal(size=len(x))
        known, asked = slice(rows), slice(rows, None)
        log_p, seconds = _scored(x[known], y[known], x[asked], y[asked], model, device)
        began = time.perf_counter()
        mean, std = fit_single_task_gp(x[known], y[known])(x[asked])
        theirs.append(time.perf_counter() - began)
        ours.append(seconds)
        reference = -0.5 * ((y[asked] - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
        lost.append(reference - log_p)
    return Number.of(torch.as_tensor(np.concatenate(lost))), float(np.mean(ours)), float(np.mean(theirs))


def _gp_draw(x: np.ndarray, *, rough: bool, rng: np.random.Generator) -> np.ndarray:
    """A function with a lengthscale for every input: Matern-3/2 if it is rough, else a squared exponential."""
    scaled = x / (GP_LENGTHSCALE * np.exp(0.5 * rng.normal(size=x.shape[1])))
    distance = cdist(scaled, scaled)
    root = np.sqrt(3) * distance
    kernel = (1 + root) * np.exp(-root) if rough else np.exp(-0.5 * distance**2)
    drawn: np.ndarray = np.linalg.cholesky(kernel + 1e-8 * np.eye(len(x))) @ rng.normal(size=len(x))
    return drawn


def _rises(points: list[Point]) -> bool:
    """Whether the negative log-density rises from one place to the next by more than its standard error allows."""
    for before, after in pairwise(points):
        change = Number.of(torch.tensor(after.nll, dtype=torch.float64) - torch.tensor(before.nll, dtype=torch.float64))
        if change.mean > ENOUGH * change.standard_error:
            return True
    return False


def _table(title: str, size: str, curves: dict[str, list[Point]]) -> Table:
    sizes = [point.size for point in next(iter(curves.values()))]
    rows = []
    for index, each in enumerate(sizes):
        at = [points[index] for points in curves.values()]
        cells = [text for point in at for text in (str(_number(point)), f"{point.seconds:.1f}")]
        rows.append((f"{each:,}", *cells))
    return Table(title, (size, *(text for name in curves for text in (name, "seconds"))), rows)


def _number(point: Point) -> Number:
    return Number.of(torch.tensor(point.nll, dtype=torch.float64))


def _figure(by_rows: dict[str, list[Point]], by_columns: dict[str, list[Point]]) -> "Figure":
    figure, axes = new_grid(1, 2, size=(4.6, 3.4), title="Negative log-density of new observations", share_x=False)
    for ax, curves, what in zip(axes[0], (by_rows, by_columns), ("rows", "inputs, five relevant"), strict=True):
        for style, (name, points) in zip(("-", "--"), curves.items(), strict=True):
            numbers = [_number(point) for point in points]
            ax.errorbar(
                [point.size for point in points],
                [number.mean for number in numbers],
                [number.standard_error for number in numbers],
                color=BLUE,
                linestyle=style,
                marker="o",
                markersize=4,
                capsize=2,
                label=name,
            )
        ax.set_xscale("log")
        ax.set_xlabel(what)
    axes[0, 0].set_ylabel("nats (units of the target's spread)")
    axes[0, 0].legend()
    return figure


def _met(held: bool) -> str:
    return "met" if held else "NOT met"
