"""What the engine computes: tasks of the same kind in one call of a network, with the numbers that one alone would get."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ndp.apps.playground.engine import CORES, Compute, UnwantedError, Wanted
from ndp.core.randomness import normal
from ndp.diffusion.levels import ratio
from ndp.diffusion.solvers import Solver, dpm_solver, watched
from ndp.processes.ndp import NDP, NDPPosterior


@dataclass(frozen=True)
class Given:
    """Observations of one function of one input."""

    x: Float[np.ndarray, "C"]
    y: Float[np.ndarray, "C"]
    noise: Float[np.ndarray, "C"]


@dataclass(frozen=True)
class DrawTask:
    """Functions at `at` from `noise`; `record` keeps the states on the way."""

    given: Given
    at: Float[np.ndarray, "M"]
    noise: Float[Tensor, "S M"]
    record: bool = False


@dataclass(frozen=True)
class Drawn:
    draws: Float[np.ndarray, "S M"]
    states: list[tuple[float, Float[np.ndarray, "S M"]]]


def noise_of_seed(draws: int, points: int, seed: int) -> Float[Tensor, "S M"]:
    """The noise that `posterior.sample(x, draws, generator=torch.Generator().manual_seed(seed))` takes."""
    like = torch.zeros((), dtype=torch.float64)
    return normal((draws, points), torch.Generator().manual_seed(seed), like=like)


def drawing(model: NDP, steps: int, crew: Executor | None = None) -> Compute:
    """Draws for several tasks at once, which must have as many draws and points as each other.

    With a `crew` the draws are shared out to its threads: a draw is a matter of its own noise alone. On a few cores that is
    quicker, and far steadier, than threads that share out each of the many small products of a network.
    """
    return partial(_draw, model, steps, crew)


def _draw(model: NDP, steps: int, crew: Executor | None, tasks: Sequence[DrawTask], wanted: Wanted) -> list[Drawn]:
    recording = any(task.record for task in tasks)
    posterior = condition_together(model, [task.given for task in tasks])
    at = torch.as_tensor(np.stack([task.at for task in tasks]))[..., None]
    noise = torch.stack([task.noise for task in tasks], dim=1)[..., None]

    def solve(noise: Float[Tensor, "S B M 1"]) -> tuple[Tensor, list[tuple[float, Tensor]]]:
        states: list[tuple[float, Tensor]] = []

        def watch(y: Tensor, level: Tensor) -> None:
            if not wanted():
                raise UnwantedError
            if recording:
                states.append((ratio(level).item(), posterior.units.from_model_y(y)[..., 0]))

        solver: Solver = watched(dpm_solver, watch)
        draws = posterior.sample(at, len(noise), steps=steps, solver=solver, base_noise=noise)
        return torch.as_tensor(draws), states

    pieces = noise.tensor_split(min(CORES, len(noise))) if crew else (noise,)
    solved = list(crew.map(solve, pieces)) if crew else [solve(noise)]
    draws = torch.cat([draws for draws, _ in solved]).numpy()
    states = [
        (moment[0][0], torch.cat([values for _, values in moment]).numpy())
        for moment in zip(*(states for _, states in solved), strict=True)
    ]
    return [
        Drawn(draws[:, index], [(at_ratio, values[:, index]) for at_ratio, values in states if task.record])
        for index, task in enumerate(tasks)
    ]


def condition_together(model: NDP, contexts: Sequence[Given]) -> NDPPosterior:
    """One posterior for contexts of any sizes, the short ones filled up with points that are masked."""
    most = max(len(given.x) for given in contexts)
    x, y, noise = (torch.zeros(len(contexts), most, dtype=torch.float64) for _ in range(3))
    mask = torch.zeros(len(contexts), most, dtype=torch.bool)
    for row, given in enumerate(contexts):
        size = len(given.x)
        x[row, :size], y[row, :size] = torch.as_tensor(given.x), torch.as_tensor(given.y)
        noise[row, :size], mask[row, :size] = torch.as_tensor(given.noise), True
    return model.condition(x[..., None], y, noise=noise, mask=mask)


def alone(compute: Callable[[Wanted], Any]) -> Compute:
    """A task that is computed by itself."""

    def run(tasks: Sequence[Any], wanted: Wanted) -> list[Any]:
        return [compute(wanted) for _ in tasks]

    return run
