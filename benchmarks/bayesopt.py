"""Bayesian optimisation by Thompson sampling: one rule, many models, the same initial points, and regret.

A run is an objective, a row and a seed. Every finished run is appended to a file as one line. An interrupted experiment
therefore continues where it stopped, and several processes may share the work.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import bootstrap
from torch import Tensor

from benchmarks.report import Progress
from ndp.core.randomness import normal
from ndp.core.typing import Process
from ndp.optimise.thompson import PAPER_RULE, Inquiry, Rule, Thompson
from ndp.processes.ndp import FEWEST_STEPS, NDP

INITIAL = 5
EVALUATIONS, EVALUATIONS_PER_INPUT = 100, 25  # at most; the networks are trained on up to 25 observations an input

# Functions at the candidates [M] of each of several inquiries: [B M].
Draw = Callable[[Sequence[Inquiry]], Float[Tensor, "B M"]]


@dataclass(frozen=True)
class Objective:
    """A test function on [-1, 1]^dim, and the least value that it has there."""

    name: str
    title: str
    dim: int
    function: Callable[[np.ndarray], float]
    minimum: float

    @property
    def evaluations(self) -> int:
        return min(EVALUATIONS, EVALUATIONS_PER_INPUT * self.dim)


def objectives() -> list[Objective]:
    """BoTorch's test functions, their boxes rescaled."""
    from botorch.test_functions.synthetic import Ackley, Hartmann, Rastrigin

    return [
        _rescaled("hartmann3", "Hartmann, D = 3", Hartmann(dim=3)),
        _rescaled("rastrigin4", "Rastrigin, D = 4", Rastrigin(dim=4)),
        _rescaled("ackley5", "Ackley, D = 5", Ackley(dim=5)),
        _rescaled("hartmann6", "Hartmann, D = 6", Hartmann(dim=6)),
    ]


def _rescaled(name: str, title: str, function: Any) -> Objective:
    low, high = function.bounds.double()

    def value(x: np.ndarray) -> float:
        return float(function(low + (high - low) * (torch.as_tensor(x) + 1) / 2))

    return Objective(name, title, function.dim, value, float(function.optimal_value))


@dataclass(frozen=True)
class Row:
    """A model under a rule. `draw` None is random search; `batched` draws for all seeds in one call.

    `weights` distinguishes networks of the same name.
    """

    name: str
    draw: Draw | None
    rule: Rule = PAPER_RULE
    batched: bool = False
    weights: str = ""

    @property
    def version(self) -> str:
        """A run belongs to this row if its version is the same."""
        return f"{self.rule.spread} + {self.rule.local} candidates {self.weights}".strip()


@dataclass(frozen=True)
class Run:
    """One optimisation: all values in their order, and the seconds that its surrogate took at a step.

    Where one call drew for several seeds, the seconds are the share of one seed.
    """

    objective: str
    row: str
    version: str
    seed: int
    values: list[float]
    seconds: float


def one_by_one(process: Process, *, observation_noise: bool | None = None) -> Draw:
    """Draws of any process; with `observation_noise=True` new observations, as networks draw them."""

    def draw(inquiries: Sequence[Inquiry]) -> Float[Tensor, "B M"]:
        return torch.stack([_drawn(process, inquiry, observation_noise) for inquiry in inquiries])

    return draw


def _drawn(process: Process, inquiry: Inquiry, observation_noise: bool | None) -> Float[Tensor, "M"]:
    posterior = process.condition(inquiry.x, inquiry.y)
    drawn = posterior.sample(inquiry.candidates, observation_noise=observation_noise, generator=inquiry.generator)
    return torch.as_tensor(drawn).double().cpu()


def all_at_once(ndp: NDP, *, steps: int = FEWEST_STEPS) -> Draw:
    """Draws of an NDP in one batch, the same as one by one. All inquiries have equally many observations and candidates."""

    def draw(inquiries: Sequence[Inquiry]) -> Float[Tensor, "B M"]:
        x, y, at = (torch.stack([getattr(q, name) for q in inquiries]) for name in ("x", "y", "candidates"))
        noise = torch.cat([normal((1, 1, len(q.candidates), 1), q.generator, like=q.x) for q in inquiries], dim=1)
        return torch.as_tensor(ndp.condition(x, y).sample(at, steps=steps, base_noise=noise)).double().cpu()

    return draw


def optimise(objective: Objective, row: Row, seeds: Sequence[int], evaluations: int, progress: Progress) -> list[Run]:
    """Runs of several seeds, step by step. The initial points depend on the seed alone."""
    bounds = [[-1.0, 1.0]] * objective.dim
    runs = [Thompson(bounds, None, rule=row.rule, initial=INITIAL, seed=seed) for seed in seeds]
    seconds = 0.0
    for step in range(evaluations):
        if row.draw is None or step < INITIAL:
            points = [run.ask()[0] for run in runs]
        else:
            progress(f"{objective.title}, {row.name}, {_named(seeds)}: evaluation {step + 1} of {evaluations}")
            inquiries = [run.inquiry() for run in runs]
            began = time.perf_counter()
            chosen = row.draw(inquiries).argmin(-1).tolist()
            seconds += time.perf_counter() - began
            points = [inquiry.points[index] for inquiry, index in zip(inquiries, chosen, strict=True)]
        for run, point in zip(runs, points, strict=True):
            run.tell(point, objective.function(point))
    each = seconds / max(1, evaluations - INITIAL) / len(runs)
    return [
        Run(objective.name, row.name, row.version, seed, run.history.y, each)
        for seed, run in zip(seeds, runs, strict=True)
    ]


def _named(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"


def optimise_missing(
    objective: Objective, row: Row, seeds: Sequence[int], evaluations: int, path: Path, progress: Progress
) -> None:
    """Make the runs that the file does not have yet, and append each when it is finished."""
    done = {run.seed for run in read_runs(path, objective, row.name, evaluations, version=row.version)}
    missing = [seed for seed in seeds if seed not in done]
    size = len(missing) if row.batched else 1
    for start in range(0, len(missing), max(1, size)):
        for run in optimise(objective, row, missing[start : start + size], evaluations, progress):
            _append(path, run)


def read_runs(path: Path, objective: Objective, row: str, evaluations: int, *, version: str | None = None) -> list[Run]:
    """The runs of a row that are long enough, cut to length: a short run is the beginning of a longer one.

    Without a `version` they are those of the last version in the file.
    """
    runs = [
        run
        for run in _lines(path)
        if (run.objective, run.row) == (objective.name, row) and len(run.values) >= evaluations
    ]
    version = runs[-1].version if runs and version is None else version
    found = {run.seed: replace(run, values=run.values[:evaluations]) for run in runs if run.version == version}
    return [found[seed] for seed in sorted(found)]


def _lines(path: Path) -> Iterator[Run]:
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), start=1):
        try:
            yield Run(**json.loads(line))
        except (json.JSONDecodeError, TypeError) as error:
            raise ValueError(f"line {number} of {path} is not a run: {error}") from error


def _append(path: Path, run: Run) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(asdict(run)) + "\n")


def regret(objective: Objective, runs: Sequence[Run]) -> Float[np.ndarray, "R T"]:
    """How far the best value so far is above the least, after every evaluation."""
    values = np.array([run.values for run in runs])
    return np.maximum(np.minimum.accumulate(values, axis=1) - objective.minimum, 0.0)


def median_interval(
    values: Float[np.ndarray, "R T"], *, level: float = 0.95, resamples: int = 2000
) -> Float[np.ndarray, "2 T"]:
    """A percentile bootstrap interval of the median over runs; of one run its own values."""
    if len(values) == 1:
        return np.repeat(values, 2, axis=0)
    found = bootstrap(
        (values,),
        np.median,
        axis=0,
        vectorized=True,
        confidence_level=level,
        n_resamples=resamples,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return np.stack([found.confidence_interval.low, found.confidence_interval.high])
