"""The tables and the verdicts of `python -m benchmarks simulators`."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.report import Progress, Report, Table
from benchmarks.simulators import SIMULATORS, Simulator
from benchmarks.simulators_methods import GPS, OURS, Method, all_methods
from benchmarks.universal import WORST
from ndp.models.evaluation import Number

TESTED = 200
MORE_ROWS = 100
RESAMPLED = 1000  # bootstrap samples of the seeds
MEAN_BAR, WORST_BAR, NLL_BAR, COVERAGE_BAR = 1.0, 1.3, -0.45, (0.86, 0.94)


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    simulators: tuple[str, ...]
    rows_per_input: tuple[int, ...]
    seeds: int


FULL = Sizes(tuple(one.name for one in SIMULATORS), (10, 20), 4)
QUICK = Sizes(("Branin", "Hartmann 3", "Friedman", "OTL circuit"), (10,), 2)


@dataclass(frozen=True)
class Run:
    """One method on one table of a simulator, in units of the standard deviation of the function over its domain."""

    method: str
    where: str
    seed: int
    rmse: float
    nll: float
    coverage: float
    seconds: float  # of the fit, and of means and standard deviations at TESTED rows
    more_seconds: float  # of means and standard deviations at MORE_ROWS other rows


def reproduce(model: str, *, quick: bool, methods: Sequence[str], device: str, progress: Progress) -> Report:
    """Every method on every simulator, and whether the first one reaches the bars."""
    sizes = QUICK if quick else FULL
    known = all_methods(model, device)
    wrong = [name for name in methods if name not in known]
    if wrong:
        raise ValueError(f"there is no method named {wrong[0]!r}; there are: {', '.join(known)}")
    chosen = {name: known[name] for name in methods or (OURS, *GPS)}
    runs = measure(chosen, sizes, progress)
    ours = next((name for name in chosen if name not in GPS), "")
    return Report(
        name="simulators",
        tables=[errors(runs), summary(runs), densities(runs), clock(runs)],
        findings=" ".join(verdicts(runs, ours)) if ours and len(chosen.keys() & set(GPS)) == len(GPS) else "",
        numbers={"model": model, "sizes": asdict(sizes), "runs": [asdict(one) for one in runs]},
    )


def measure(methods: dict[str, Method], sizes: Sizes, progress: Progress) -> list[Run]:
    """Every method on the same tables: uniform inputs, `rows_per_input` times as many rows as inputs."""
    found = []
    for simulator in SIMULATORS:
        if simulator.name not in sizes.simulators:
            continue
        spread = float(simulator.draw(2**14, np.random.default_rng(0))[1].std())
        for rows in sizes.rows_per_input:
            for seed in range(sizes.seeds):
                for name, method in methods.items():
                    progress(f"{simulator.name}, {rows * simulator.dim} rows, table {seed + 1}: {name}")
                    found.append(_measured(name, method, simulator, rows * simulator.dim, seed, spread))
    return found


def _measured(name: str, method: Method, simulator: Simulator, rows: int, seed: int, spread: float) -> Run:
    rng = np.random.default_rng([seed, rows])
    (x, y), (x_new, y_new), (x_more, _) = (simulator.draw(count, rng) for count in (rows, TESTED, MORE_ROWS))
    began = time.perf_counter()
    fitted = method(x, y)
    mean, _ = fitted.moments(x_new)
    predicted = time.perf_counter()
    fitted.moments(x_more)
    more = time.perf_counter()
    low, high = fitted.interval(x_new)
    log_prob = np.maximum(fitted.log_prob(x_new, y_new) + np.log(spread), WORST)
    return Run(
        method=name,
        where=f"{simulator.name}, {rows}",
        seed=seed,
        rmse=float(np.sqrt(((mean - y_new) ** 2).mean()) / spread),
        nll=float(-log_prob.mean()),
        coverage=float(((low <= y_new) & (y_new <= high)).mean()),
        seconds=predicted - began,
        more_seconds=more - predicted,
    )


def _arrays(runs: Sequence[Run], what: str) -> dict[str, np.ndarray]:
    """One number of every run of each method, [places, seeds]."""
    found: dict[str, dict[str, list[float]]] = {}
    for one in runs:
        found.setdefault(one.method, {}).setdefault(one.where, []).append(getattr(one, what))
    return {method: np.array(list(places.values())) for method, places in found.items()}


def log_ratios(runs: Sequence[Run], method: str) -> np.ndarray:
    """The logarithm of the method's RMSE over the better GP's, [places, RESAMPLED + 1].

    RMSEs are geometric means over the tables of a place. The first column has every table once, the others are bootstrap
    samples of the tables, the same for all methods and places.
    """
    rmse = {name: np.log(np.maximum(each, 1e-12)) for name, each in _arrays(runs, "rmse").items()}
    seeds = rmse[method].shape[1]
    drawn = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLED) / seeds
    weights = np.vstack([np.full((1, seeds), 1 / seeds), drawn]).T
    mean = {name: each @ weights for name, each in rmse.items()}
    return np.asarray(mean[method] - np.minimum.reduce([mean[name] for name in GPS if name in mean]))


@dataclass(frozen=True)
class Ratios:
    """A method's RMSE over the better GP's: geometric mean and largest over places, with bootstrap errors."""

    mean: Number
    worst: Number
    where: str

    @staticmethod
    def of(runs: Sequence[Run], method: str) -> "Ratios":
        ratios = np.exp(log_ratios(runs, method))
        mean, worst = np.exp(np.log(ratios).mean(0)), ratios.max(0)
        places = list(dict.fromkeys(one.where for one in runs))
        numbers = (Number(float(each[0]), float(each[1:].std())) for each in (mean, worst))
        return Ratios(*numbers, where=places[int(ratios[:, 0].argmax())])


def errors(runs: Sequence[Run]) -> Table:
    """RMSE of every method, a row a place, and over the better GP's for those that are no GPs."""
    rmse = {name: np.exp(np.log(np.maximum(each, 1e-12)).mean(1)) for name, each in _arrays(runs, "rmse").items()}
    compared = [name for name in rmse if name not in GPS and set(GPS) & set(rmse)]
    ratios = {name: np.exp(log_ratios(runs, name)[:, 0]) for name in compared}
    rows = [
        (where, *(f"{each[i]:.4f}" for each in rmse.values()), *(f"{each[i]:.2f}" for each in ratios.values()))
        for i, where in enumerate(dict.fromkeys(one.where for one in runs))
    ]
    headings = ("function, rows", *rmse, *(f"{name} / better GP" for name in ratios))
    return Table("Root mean square error over the spread of the target", headings, rows)


def densities(runs: Sequence[Run]) -> Table:
    """Negative log-density of every method, and in brackets the share in 90 % intervals, a row a place."""
    nll, inside = _arrays(runs, "nll"), _arrays(runs, "coverage")
    rows = [
        (where, *(f"{nll[name][i].mean():.3f} ({100 * inside[name][i].mean():.0f} %)" for name in nll))
        for i, where in enumerate(dict.fromkeys(one.where for one in runs))
    ]
    return Table("Negative log-density, spread of the target 1 (in 90 % intervals)", ("function, rows", *nll), rows)


def clock(runs: Sequence[Run]) -> Table:
    """Seconds of every method, a row a place: medians over its tables."""
    seconds, more = _arrays(runs, "seconds"), _arrays(runs, "more_seconds")
    rows = [
        (where, *(f"{np.median(seconds[name][i]):.3f} + {np.median(more[name][i]):.3f}" for name in seconds))
        for i, where in enumerate(dict.fromkeys(one.where for one in runs))
    ]
    title = f"Seconds: fit, mean and std at {TESTED} rows; mean and std at {MORE_ROWS} more"
    return Table(title, ("function, rows", *seconds), rows)


def summary(runs: Sequence[Run]) -> Table:
    """All places together, a row a method."""
    nll, inside, seconds = (_arrays(runs, what) for what in ("nll", "coverage", "seconds"))
    rows = []
    for name in nll:
        ratios = ("", "")
        if set(GPS) & set(nll):
            found = Ratios.of(runs, name)
            ratios = str(found.mean), f"{found.worst} ({found.where})"
        numbers = f"{over_places(nll[name])}", f"{100 * inside[name].mean():.1f} %", f"{seconds[name].mean():.2f}"
        rows.append((name, *ratios, *numbers))
    headings = ("method", "RMSE / better GP", "worst", "NLL", "in 90 % intervals", "seconds")
    return Table("All functions", headings, rows)


def over_places(values: np.ndarray) -> Number:
    """The mean of [places, seeds], with its standard error over the seeds."""
    each = values.mean(0)
    return Number(float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else 0.0)


def verdicts(runs: Sequence[Run], method: str) -> list[str]:
    """Every bar, with the number of `method`, and whether it is met."""
    ratios, nll = Ratios.of(runs, method), over_places(_arrays(runs, "nll")[method])
    inside = float(_arrays(runs, "coverage")[method].mean())
    low, high = COVERAGE_BAR
    lines: list[tuple[str, Any]] = [
        (
            f"RMSE of {method} over the better GP's, geometric mean {ratios.mean} (bar: {MEAN_BAR:.1f})",
            ratios.mean.mean <= MEAN_BAR,
        ),
        (f"The worst {ratios.worst}, {ratios.where} rows (bar: {WORST_BAR})", ratios.worst.mean <= WORST_BAR),
        (f"Mean negative log-density {nll} (bar: {NLL_BAR})", nll.mean <= NLL_BAR),
        (f"90 % intervals hold {100 * inside:.1f} % (bar: 86 to 94)", low <= inside <= high),
    ]
    return [f"{words}: {'met' if met else 'NOT met'}." for words, met in lines]
