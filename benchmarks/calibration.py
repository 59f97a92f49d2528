"""Simulation-based calibration: among draws of the posterior, a function that was drawn from the prior has a uniform rank.

Ranks are of one number a task, so that tasks are independent: the value at one target, the mean of the function over all
targets, and its largest value. The last two depend on the correlations between values.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmarks.drawing import draw
from benchmarks.report import Progress
from ndp.core.typing import Process
from ndp.gp.exact import GP
from ndp.models.evaluation import Number
from ndp.models.metrics import (
    calibration_curve,
    crps,
    energy_score,
    interval_coverage,
    rank_histogram,
    ranks,
    uniformity_p_value,
)
from ndp.priors.tasks import Synthetic

RANKED = ("one value", "mean of the function", "largest value")
COVERAGES = (0.5, 0.9)
PROBABILITIES = tuple(round(0.05 * step, 2) for step in range(1, 20))


@dataclass(frozen=True)
class Sizes:
    """How much to measure; the number of draws is one less than a multiple of the number of bins."""

    tasks: int
    draws: int
    targets: int
    bins: int


QUICK = Sizes(tasks=256, draws=31, targets=12, bins=8)
FULL = Sizes(tasks=1000, draws=63, targets=20, bins=16)


@dataclass(frozen=True)
class Calibration:
    """How well a process is calibrated on functions of the exact one."""

    process: str
    dim: int
    counts: dict[str, Int[Tensor, "K"]]  # of ranks
    p_values: dict[str, float]
    coverage: dict[str, Number]
    curve: Float[Tensor, "Q"]  # how often a value lies below its quantile of each of PROBABILITIES
    crps: Number
    energy: Number

    @property
    def least_p_value(self) -> float:
        return min(self.p_values.values())


def measure(
    name: str,
    process: Process,
    exact: GP,
    dim: int,
    sizes: Sizes,
    progress: Progress,
    *,
    at_once: int = 50,
    seed: int = 5,
) -> Calibration:
    """Draw functions, condition on 1 to 10 D values of each, and compare the others with draws of the posterior."""
    source = Synthetic(exact, dim=dim, targets=sizes.targets, most_context=10 * dim, least_context=1)
    batch = source.draw(sizes.tasks, generator=torch.Generator().manual_seed(seed))
    generator = torch.Generator().manual_seed(seed + 1)
    pieces = []
    for rows in torch.arange(sizes.tasks).split(at_once):
        progress(f"{name}, D = {dim}: {int(rows[0])} of {sizes.tasks} functions")
        x, y, mask = batch.x[rows], batch.y[rows], batch.mask[rows]
        cut = batch.num_context
        posterior = process.condition(x[:, :cut], y[:, :cut], mask=mask[:, :cut])
        pieces.append(draw(posterior, x[:, cut:], sizes.draws, generator))
    return score(name, dim, torch.cat(pieces, dim=1), batch.y[:, batch.num_context :], sizes.bins)


def score(name: str, dim: int, draws: Float[Tensor, "S B M 1"], y: Float[Tensor, "B M 1"], bins: int) -> Calibration:
    """All measures of calibration of draws against the truth."""
    ranked = {name: ranks(drawn, true) for name, drawn, true in zip(RANKED, _numbers(draws), _numbers(y), strict=True)}
    counts = {name: rank_histogram(rank, len(draws), bins) for name, rank in ranked.items()}
    inside = interval_coverage(draws, y, COVERAGES).mean((2, 3))
    return Calibration(
        process=name,
        dim=dim,
        counts=counts,
        p_values={name: uniformity_p_value(count) for name, count in counts.items()},
        coverage={str(level): Number.of(share) for level, share in zip(COVERAGES, inside, strict=True)},
        curve=calibration_curve(draws, y, PROBABILITIES),
        crps=Number.of(crps(draws, y).mean((1, 2))),
        energy=Number.of(energy_score(draws, y)),
    )


def _numbers(y: Float[Tensor, "*S B M 1"]) -> tuple[Float[Tensor, "*S B"], ...]:
    values = y[..., 0]
    return values[..., 0], values.mean(-1), values.amax(-1)
