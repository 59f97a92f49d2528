"""The computations behind the endpoints. Requests that wait together are one batch, with the numbers each would get alone."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ndp.apps.playground.costs import drawing_cost
from ndp.apps.playground.engine import CORES, Compute, Engine, UnwantedError, Wanted
from ndp.core.randomness import match_moments, normal
from ndp.diffusion.levels import ratio
from ndp.diffusion.solvers import Solver, dpm_solver, watched
from ndp.processes.ndp import NDP
from ndp.processes.posterior import NDPPosterior

# Values whose densities are computed in one call, a second of work or less: a client that has left is noticed between calls.
VALUES_A_PIECE = 32


@dataclass(frozen=True)
class Observations:
    """Observations `y` of one function of one input, with noise of standard deviation `noise`."""

    x: Float[np.ndarray, "C"]
    y: Float[np.ndarray, "C"]
    noise: Float[np.ndarray, "C"]


@dataclass(frozen=True)
class DrawTask:
    """Functions at `at`, drawn from `noise`; `record` keeps the states of the solver."""

    observations: Observations
    at: Float[np.ndarray, "M"]
    noise: Float[Tensor, "S M"]
    record: bool = False


@dataclass(frozen=True)
class Drawn:
    """Draws, and the solver's states on the way, each with its noise level sigma / alpha."""

    draws: Float[np.ndarray, "S M"]
    states: list[tuple[float, Float[np.ndarray, "S M"]]]


def noise_of_seed(draws: int, points: int, seed: int) -> Float[Tensor, "S M"]:
    """The noise of `posterior.sample(x, draws, generator=torch.Generator().manual_seed(seed))`."""
    like = torch.zeros((), dtype=torch.float64)
    return normal((draws, points), torch.Generator().manual_seed(seed), like=like)


def matched_noise(draws: int, points: int) -> Float[Tensor, "S M"]:
    """The noise of `posterior.summary(x, probabilities, num_samples=draws)`."""
    return match_moments(noise_of_seed(draws, points, 0)[:, None, :, None])[:, 0, :, 0]


def drawing(model: NDP, steps: int, pool: Executor | None = None) -> Compute:
    """Computes a batch of `DrawTask`s, which must have equal numbers of draws and of points.

    With a `pool`, its threads share the posterior and divide the draws, because a draw depends on its own noise alone. On a few
    cores that is quicker, and far steadier, than threads within each of a network's many small matrix products.
    """
    return partial(_draw, model, steps, pool)


async def draw_in_batch(engine: Engine, name: str, model: NDP, task: DrawTask, steps: int) -> Drawn:
    """The draws of a task, computed with those of other requests of the same shape for the model of that name."""
    draws, points = task.noise.shape
    cost = drawing_cost(context=len(task.observations.x), points=points, draws=draws, steps=steps)
    drawn: Drawn = await engine.run(
        drawing(model, steps, engine.pool), task, cost=cost, batch_key=("draws", name, steps, draws, points)
    )
    return drawn


def _draw(model: NDP, steps: int, pool: Executor | None, tasks: Sequence[DrawTask], wanted: Wanted) -> list[Drawn]:
    recording = any(task.record for task in tasks)
    posterior = condition_batch(model, [task.observations for task in tasks])
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
        draws = posterior.sample(at, len(noise), dependence="network", steps=steps, solver=solver, base_noise=noise)
        return torch.as_tensor(draws), states

    solved = spread(solve, noise, pool)
    draws = torch.cat([draws for draws, _ in solved]).numpy()
    states = [
        (moment[0][0], torch.cat([values for _, values in moment]).numpy())
        for moment in zip(*(states for _, states in solved), strict=True)
    ]
    return [
        Drawn(draws[:, index], [(at_ratio, values[:, index]) for at_ratio, values in states if task.record])
        for index, task in enumerate(tasks)
    ]


def spread(solve: Callable[[Tensor], Any], noise: Float[Tensor, "S *A"], pool: Executor | None) -> list[Any]:
    """The results of `solve` for pieces of the noise, in order: one piece for each core, or one without a pool."""
    return list(pool.map(solve, noise.tensor_split(min(CORES, len(noise))))) if pool else [solve(noise)]


def condition_batch(model: NDP, contexts: Sequence[Observations]) -> NDPPosterior:
    """One posterior for contexts of any sizes; short ones are filled up with masked points."""
    most = max(len(one.x) for one in contexts)
    x, y, noise = (torch.zeros(len(contexts), most, dtype=torch.float64) for _ in range(3))
    mask = torch.zeros(len(contexts), most, dtype=torch.bool)
    for row, one in enumerate(contexts):
        size = len(one.x)
        x[row, :size], y[row, :size] = torch.as_tensor(one.x), torch.as_tensor(one.y)
        noise[row, :size], mask[row, :size] = torch.as_tensor(one.noise), True
    return model.condition(x[..., None], y, noise=noise, mask=mask)


def log_densities(
    model: NDP,
    observations: Observations,
    at: Float[np.ndarray, "M"],
    values: Float[np.ndarray, "R M"],
    *,
    noise: float,
    steps: int,
    pool: Executor,
    wanted: Wanted,
) -> Float[np.ndarray, "R"]:
    """The log-densities of the rows of `values`, in pieces for the threads of the pool, which share one posterior."""
    most = max(1, VALUES_A_PIECE // len(at))
    pieces = math.ceil(len(values) / most)
    size = math.ceil(len(values) / pieces)
    posterior = condition_batch(model, [observations] * size)
    inputs = at[None, :, None].repeat(size, axis=0)
    filled = np.concatenate([values, values[-1:].repeat(size * pieces - len(values), axis=0)])

    def compute(piece: Float[np.ndarray, "B M"]) -> Float[np.ndarray, "B"]:
        if not wanted():
            raise UnwantedError
        return np.asarray(posterior.log_prob(inputs, piece, noise=noise, steps=steps))

    return np.concatenate(list(pool.map(compute, np.split(filled, pieces))))[: len(values)]


def single(compute: Callable[[Wanted], Any]) -> Compute:
    """Computes a task that has no batch."""

    def run(tasks: Sequence[Any], wanted: Wanted) -> list[Any]:
        return [compute(wanted) for _ in tasks]

    return run
