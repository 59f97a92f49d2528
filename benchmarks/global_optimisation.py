"""Finding minima on [-1, 1]: functions to be searched, ways to search them, and how many evaluations these take."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.report import Progress
from ndp.core.typing import Process
from ndp.gp.exact import GP
from ndp.gp.inverse import ExactInputs
from ndp.optimise.joint_search import PAPER_TARGET, JointProcess, JointSearch, Target
from ndp.optimise.loop import AskTell
from ndp.optimise.thompson import Thompson
from ndp.processes.ndp import NDP
from ndp.processes.refitted_gp import RefittedGP

INITIAL = 3  # random evaluations at the beginning
NEAR = 0.05  # a value so little above the minimum counts as found
BOUNDS = [[-1.0, 1.0]]
NARROWER = Target(spread=0.5)
JOINT, JOINT_NARROWER, THOMPSON, GPR, RANDOM = "joint", "joint, y* closer", "Thompson, NDP", "Thompson, GPR", "random"
EXACT_JOINT, EXACT_NARROWER, EXACT_THOMPSON = "exact joint", "exact joint, y* closer", "exact Thompson"


@dataclass(frozen=True)
class Searched:
    """A function on [-1, 1] and the least value that it has there."""

    title: str
    function: Callable[[np.ndarray], float]
    minimum: float


def random_functions(gp: GP, count: int, *, nodes: int = 1001, seed: int = 0) -> list[Searched]:
    """Draws of a GP without its observation noise, linear between the nodes of a fine grid."""
    grid = torch.linspace(-1, 1, nodes, dtype=torch.float64)[:, None]
    smooth = GP(gp.kernel, jitter=1e-6)
    drawn = np.asarray(smooth.sample(grid.numpy(), count, generator=torch.Generator().manual_seed(seed)))
    return [_between_nodes(f"function {number + 1}", values) for number, values in enumerate(drawn)]


def _between_nodes(title: str, values: np.ndarray) -> Searched:
    grid = np.linspace(-1, 1, len(values))
    return Searched(title, lambda x: float(np.interp(x[0], grid, values)), float(values.min()))


def classical_functions() -> list[Searched]:
    """Test functions of one input from the literature, their intervals moved to [-1, 1]."""
    return [
        _moved("Forrester", lambda x: (6 * x - 2) ** 2 * np.sin(12 * x - 4), 0.0, 1.0),
        _moved("Gramacy and Lee", lambda x: np.sin(10 * np.pi * x) / (2 * x) + (x - 1) ** 4, 0.5, 2.5),
        _moved("Rastrigin", lambda x: 10 + x**2 - 10 * np.cos(2 * np.pi * x), -5.12, 5.12),
    ]


def _moved(title: str, function: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> Searched:
    def value(x: np.ndarray) -> float:
        return float(function(low + (high - low) * (x[0] + 1) / 2))

    return Searched(title, value, float(function(np.linspace(low, high, 200_001)).min()))


def searches(model: NDP, gp: GP) -> dict[str, Callable[[int], AskTell]]:
    """Ways to search by their names, each a function of the seed."""

    def joint(process: JointProcess, target: Target = PAPER_TARGET) -> Callable[[int], AskTell]:
        options: dict[str, Any] | None = {} if isinstance(process, ExactInputs) else None
        return lambda seed: JointSearch(
            BOUNDS, process, target=target, initial=INITIAL, seed=seed, sample_options=options
        )

    def thompson(process: Process | None, **sample_options: Any) -> Callable[[int], AskTell]:
        options = sample_options or None
        return lambda seed: Thompson(BOUNDS, process, initial=INITIAL, seed=seed, sample_options=options)

    return {
        JOINT: joint(model),
        JOINT_NARROWER: joint(model, NARROWER),
        THOMPSON: thompson(model),
        GPR: thompson(RefittedGP()),
        RANDOM: thompson(None),
        EXACT_JOINT: joint(ExactInputs(gp)),
        EXACT_NARROWER: joint(ExactInputs(gp), NARROWER),
        EXACT_THOMPSON: thompson(gp, observation_noise=True),  # as a network draws
    }


@dataclass(frozen=True)
class Effort:
    """Evaluations that each function took until its minimum was found (`limit` where it was not), and seconds a step."""

    row: str
    evaluations: tuple[int, ...]
    limit: int
    seconds: float

    @property
    def median(self) -> float:
        return float(np.median(self.evaluations))

    @property
    def found(self) -> float:
        """The share of functions whose minimum was found."""
        return float(np.mean([count < self.limit for count in self.evaluations]))


def measure(
    row: str, start: Callable[[int], AskTell], functions: Sequence[Searched], limit: int, progress: Progress
) -> Effort:
    """Search every function until it is within NEAR of its minimum, or `limit` evaluations were made."""
    began = time.perf_counter()
    counts = []
    for number, one in enumerate(functions):
        progress(f"{row}: {one.title} ({number + 1} of {len(functions)})")
        counts.append(evaluations_to_find(start(number), one, limit))
    return Effort(row, tuple(counts), limit, (time.perf_counter() - began) / sum(counts))


def evaluations_to_find(search: AskTell, searched: Searched, limit: int) -> int:
    """How many evaluations it takes; `limit` if more."""
    for count in range(1, limit):
        (point,) = search.ask()
        value = searched.function(point)
        search.tell(point, value)
        if value <= searched.minimum + NEAR:
            return count
    return limit
