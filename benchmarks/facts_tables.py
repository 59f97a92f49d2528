"""Real tables on which facts are known: held-out density with them and without."""

from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.report import Progress
from ndp import facts
from ndp.models.evaluation import Number
from ndp.processes.ndp import NDP


@dataclass(frozen=True)
class RealTable:
    """Rows of one input and a target, and what is known of the curve before one sees them."""

    name: str
    x: np.ndarray
    y: np.ndarray
    facts: tuple[facts.Fact, ...]
    words: str
    known: int  # rows that are observed; the others are held out


def ryegrass() -> RealTable:
    """Root lengths of perennial ryegrass by the concentration of ferulic acid (Inderjit et al., 2002)."""
    dose = np.repeat([0.0, 0.94, 1.88, 3.75, 7.5, 15.0, 30.0], [6, 3, 3, 3, 3, 3, 3])
    length = (
        "7.58 8.00 8.3286 7.25 7.375 7.9625 8.3556 6.9143 7.75 6.8714 6.45 5.9222 1.925 2.8857 4.2333 1.1875 0.8571 1.0571 "
        "0.6875 0.525 0.825 0.25 0.22 0.44"
    )
    told = facts.Monotone("decreasing"), facts.Bounds(0)
    return RealTable("ryegrass", np.log1p(dose), _numbers(length), told, "decreasing, not negative", 8)


def puromycin() -> RealTable:
    """Rates of an enzymatic reaction by the concentration of the substrate, treated cells (Treloar, 1974)."""
    concentration = _numbers("0.02 0.02 0.06 0.06 0.11 0.11 0.22 0.22 0.56 0.56 1.1 1.1")
    rate = _numbers("76 47 97 107 123 139 159 152 191 201 207 200")
    return RealTable("puromycin", np.log(concentration), rate, (facts.Monotone(),), "increasing", 6)


def beetles(*, increasing: bool) -> RealTable:
    """The proportion of flour beetles killed by carbon disulphide, by the log of its concentration (Bliss, 1935)."""
    dose = _numbers("1.6907 1.7242 1.7552 1.7842 1.8113 1.8369 1.8610 1.8839")
    killed, exposed = _numbers("6 13 18 28 52 53 61 60"), _numbers("59 60 62 56 63 59 62 60")
    told: tuple[facts.Fact, ...] = (facts.Bounds(0, 1), *((facts.Monotone(),) if increasing else ()))
    words = "in [0, 1], increasing" if increasing else "in [0, 1]"
    return RealTable("beetles", dose, killed / exposed, told, words, 4)


def _numbers(text: str) -> np.ndarray:
    return np.array([float(one) for one in text.split()])


@dataclass(frozen=True)
class HeldOut:
    """Negative log-densities of held-out rows, each by itself, over random splits."""

    table: str
    words: str
    without: Number
    told: Number
    gain: Number  # told less without: below zero where facts help


def held_out(model: NDP, splits: int, progress: Progress, *, particles: int = 256) -> list[HeldOut]:
    """The same splits with facts and without."""
    found = []
    for table in (ryegrass(), puromycin(), beetles(increasing=False), beetles(increasing=True)):
        progress(f"held-out rows of {table.name}")
        nll: list[tuple[float, float]] = []
        for seed in range(splits):
            order = np.random.default_rng(seed).permutation(len(table.y))
            known, rest = order[: table.known], order[table.known :]
            if len(np.unique(table.x[known])) < 3:
                continue
            posterior = model.condition(table.x[known, None], table.y[known])
            at = table.x[rest, None], table.y[rest]
            told = posterior.given(*table.facts, num_particles=particles)
            nll.append(
                (
                    -float(np.mean(posterior.given().log_prob(*at, joint=False, observation_noise=True))),
                    -float(np.mean(told.log_prob(*at, joint=False, observation_noise=True))),
                )
            )
        each = torch.tensor(nll, dtype=torch.float64)
        found.append(
            HeldOut(
                table.name,
                table.words,
                Number.of(each[:, 0]),
                Number.of(each[:, 1]),
                Number.of(each[:, 1] - each[:, 0]),
            )
        )
    return found
