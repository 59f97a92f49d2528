"""Simulation-based calibration of answers given facts, their network calls and their seconds."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import kstest

from benchmarks.report import Progress
from ndp import facts
from ndp.processes.conditioning import EncodedContext
from ndp.processes.ndp import NDP

DRAWS = 63  # of which the true value takes a rank
X = np.array([[-1.2], [-0.4], [0.3], [1.1]])
Y = np.array([0.2, -0.5, 0.6, 0.1])
AT = np.array([[-0.9], [-0.1], [0.5], [0.8]])  # places of facts
BETWEEN = np.array([[0.65]])  # a place without

Tell = Callable[[np.ndarray, np.random.Generator], facts.Fact]  # values at AT to a fact that was observed


def interval(values: np.ndarray, rng: np.random.Generator) -> facts.Fact:
    """Bounds of half a unit, on a grid that starts at random."""
    low = np.floor(2 * values) / 2
    return facts.Interval(AT, low, low + 0.5)


def order(values: np.ndarray, rng: np.random.Generator) -> facts.Fact:
    """Whether the function rises or falls over two places."""
    return facts.Monotone("increasing" if values[2] > values[1] else "decreasing", x=AT[1:3])


def counts(values: np.ndarray, rng: np.random.Generator) -> facts.Fact:
    """Poisson counts at all places."""
    return facts.Counts(AT, rng.poisson(2 * np.exp(values)), exposure=2.0)


TOLD: dict[str, Tell] = {"bounds": interval, "monotone": order, "counts": counts}


@dataclass(frozen=True)
class Calibration:
    """How uniform the ranks of true values are: p-values at a place of facts and between them."""

    model: str
    fact: str
    p_values: tuple[float, float]
    repetitions: int


def calibrations(
    models: dict[str, NDP], repetitions: int, progress: Progress, *, particles: int = 256
) -> list[Calibration]:
    """True functions are drawn from the model's own posterior, and facts from them."""
    found = []
    places = np.concatenate([AT, BETWEEN])
    for name, model in models.items():
        posterior = model.condition(X, Y)
        truths = np.asarray(posterior.sample(places, repetitions, generator=torch.Generator().manual_seed(0)))
        for kind, tell in TOLD.items():
            progress(f"calibration of {name}: {kind}")
            rng = np.random.default_rng(1)
            ranks = []
            for index, truth in enumerate(truths):
                told: Any = posterior.given(tell(truth[:4], rng), num_particles=particles)
                draws = told.sample(places[[2, 4]], DRAWS, generator=torch.Generator().manual_seed(index))
                ranks.append((np.asarray(draws) < truth[[2, 4]]).sum(0))
            spread = (np.array(ranks) + rng.random((repetitions, 2))) / (DRAWS + 1)
            p_values = tuple(float(kstest(column, "uniform").pvalue) for column in spread.T)
            found.append(Calibration(name, kind, (p_values[0], p_values[1]), repetitions))
    return found


@dataclass(frozen=True)
class Speed:
    """Seconds and network calls of moments at 100 points given a bound and an order."""

    model: str
    particles: int
    seconds: float
    calls: int
    effective: float


class CountedCalls:
    """Counts the calls of denoisers while it is entered; pieces of one call count once."""

    def __enter__(self) -> "CountedCalls":
        self.calls, self._before = 0, EncodedContext.denoiser
        counter = self

        def counted(encoded: EncodedContext, *arguments: Any, **options: Any) -> Any:
            denoise = counter._before(encoded, *arguments, **options)

            def call(y_t: Any, level: Any) -> Any:
                counter.calls += 1
                return denoise(y_t, level)

            return call

        EncodedContext.denoiser = counted  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *error: object) -> None:
        EncodedContext.denoiser = self._before  # type: ignore[method-assign]


def speeds(models: dict[str, NDP], particles: Sequence[int], points: int, progress: Progress) -> list[Speed]:
    """Each model with 30 observations of a curve that rises from 0 to 1."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (30, 1))
    y = 1 / (1 + np.exp(-3 * x[:, 0])) + rng.normal(0, 0.05, 30)
    at = np.linspace(-2, 2, points)[:, None]
    grid = np.linspace(-2, 2, 10)[:, None]
    found = []
    for name, model in models.items():
        posterior = model.condition(x, y)
        some: tuple[facts.Fact, ...] = (facts.Bounds(0, 1), facts.Monotone())
        if not model.separates_noise:  # values with noise are not monotone at many places
            some = facts.Bounds(-0.1, 1.1, x=grid), facts.Monotone(x=grid)
        posterior.given(*some, num_particles=16).moments(at[:2])  # starts what is slow once
        for count in particles:
            progress(f"seconds of {name}: {count} particles at {points} points")
            began = time.perf_counter()
            with CountedCalls() as counted:
                told = posterior.given(*some, num_particles=count)
                told.moments(at)
            seconds = time.perf_counter() - began
            found.append(Speed(name, count, seconds, counted.calls, told.effective_sample_size(at)))
    return found
