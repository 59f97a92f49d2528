"""Seconds for draws of a posterior on a CPU: our solver against the paper's RePaint, with one network and in one run."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np
import torch

from benchmarks.report import Progress, Report, Table
from ndp.gp.named import regression_gp
from ndp.models.registry import load_ndp

OBSERVATIONS, POINTS, DRAWS = 8, 100, 64
REPAINT_LEVELS, REPAINT_REPEATS = 500, 5


@dataclass(frozen=True)
class Timing:
    """Seconds for all draws of one posterior, and how many network calls they took."""

    method: str
    calls: int
    seconds: float


def reproduce(model: str, *, threads: int, repaint_levels: int, progress: Progress) -> Report:
    """Seconds of every method as a table, and how many times as long RePaint takes."""
    timings = []
    for one in measure(model, threads=threads, repaint_levels=repaint_levels):
        timings.append(one)
        progress(f"{one.method}: {one.seconds:.2f} s; RePaint takes minutes")
    slowest = timings[-1].seconds
    rows = [(one.method, str(one.calls), f"{one.seconds:.3f}", f"{slowest / one.seconds:,.0f} x") for one in timings]
    headings = (f"{DRAWS} draws of {POINTS} points", "calls", "seconds", "RePaint takes")
    return Report("timing", [Table("", headings, rows)], "", {"timings": [asdict(one) for one in timings]})


def measure(name: str, *, threads: int = 2, repaint_levels: int = REPAINT_LEVELS) -> Iterator[Timing]:
    """Time draws at 100 points after 8 observations: the exact GP, 10 and 20 calls, and RePaint at the paper's settings."""
    model = load_ndp(name)
    gp = regression_gp("matern52")
    generator = torch.Generator().manual_seed(0)
    x = 4 * torch.rand(OBSERVATIONS, 1, generator=generator).double() - 2
    y = torch.as_tensor(gp.sample(x, observation_noise=True, generator=generator))
    grid = np.linspace(-2, 2, POINTS)[:, None]
    with limited_threads(threads):
        exact = median_seconds(lambda: gp.condition(x, y).sample(grid, DRAWS, observation_noise=True), repeats=5)
        yield Timing("exact GP, closed form", 0, exact)
        for steps in (10, 20):
            seconds = median_seconds(lambda: model.condition(x, y).sample(grid, DRAWS, steps=steps), repeats=5)  # noqa: B023
            yield Timing(f"ndp, {steps} calls", steps, seconds)
        calls = repaint_levels * REPAINT_REPEATS
        began = time.perf_counter()
        model.repaint(x, y).sample(grid, DRAWS, steps=repaint_levels, repeats=REPAINT_REPEATS)
        yield Timing(f"RePaint, T = {repaint_levels}, U = {REPAINT_REPEATS}", calls, time.perf_counter() - began)


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    """The median time of a call."""
    run()  # the first call allocates
    spent = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        spent.append(time.perf_counter() - began)
    return float(np.median(spent))


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """A limit on the number of CPU threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
