"""The universal model on held-out functions and real tables, against the exact hierarchical posterior and the clock."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean
from typing import Any, TypeAlias

import gpytorch
import numpy as np
import torch
from sklearn.metrics import mean_pinball_loss
from torch import Tensor

from benchmarks.datasets import Dataset
from benchmarks.regressors import PROBABILITIES, Prediction, Regressor, single_task_gp
from benchmarks.report import Progress
from benchmarks.timing import limited_threads, median_seconds
from ndp.core.devices import read_device
from ndp.gp.exact import GP, ScaledToDimension
from ndp.gp.mixture import GPMixture
from ndp.models.evaluation import Number
from ndp.models.registry import load_ndp
from ndp.priors.tasks import Synthetic
from ndp.priors.universal import Universal
from ndp.processes.ndp import NDP
from ndp.sklearn import NDPRegressor

WORST = -20.0  # lower log-densities count as this one: an outlier of a light-tailed prediction must not decide a mean

# Known inputs and values, and those to be scored.
Part: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    functions: int  # held out, at each number of inputs
    dims: tuple[int, ...]
    splits: int
    hierarchical: int  # functions
    most_rows: int = 200
    most_tested: int = 100


QUICK = Sizes(functions=6, dims=(1, 5), splits=1, hierarchical=8)
FULL = Sizes(functions=167, dims=(1, 2, 3, 5, 8, 10), splits=10, hierarchical=200)
EXACT_DRAWS = 8  # at each place; with one the error is almost twice as large
AT_ONCE = 20  # functions of that comparison in a batch of the model


@dataclass(frozen=True)
class Score:
    """One method on one table or at one number of inputs, in units of the training targets' standard deviation."""

    method: str
    where: str
    nll: float
    crps: float
    coverage: float
    seconds: float
    tested: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def score(predicted: Prediction, y: np.ndarray, unit: float) -> tuple[float, float, float]:
    """Mean negative log-density, CRPS and share in the 90 % interval."""
    nll = -np.maximum(predicted.log_prob + np.log(unit), WORST).mean()
    low, high, *evenly_spread = predicted.quantiles
    # CRPS is the mean of the losses of all quantiles.
    losses = map(partial(_quantile_loss, y), evenly_spread, PROBABILITIES[2:])
    inside = ((low <= y) & (y <= high)).mean()
    return float(nll), 2 * fmean(losses) / unit, float(inside)


def _quantile_loss(y: np.ndarray, quantiles: np.ndarray, probability: float) -> float:
    return float(mean_pinball_loss(y, quantiles, alpha=probability))


def measure_datasets(
    sets: list[Dataset], methods: dict[str, Regressor], sizes: Sizes, progress: Progress
) -> list[Score]:
    """Every method on the same random splits of every table."""
    found = []
    for one in sets:
        parts = []
        for split in range(sizes.splits):
            order = np.random.default_rng(split).permutation(len(one.y))
            known = min(sizes.most_rows, int(0.75 * len(one.y)))
            train, test = order[:known], order[known : known + sizes.most_tested]
            parts.append((one.x[train], one.y[train], one.x[test], one.y[test]))
        for name, method in methods.items():
            progress(f"{one.name}: {name}")
            found.append(_scored(name, one.name, method, parts))
    return found


def measure_functions(methods: dict[str, Regressor], sizes: Sizes, progress: Progress) -> list[Score]:
    """Every method on the same functions of the universal prior, at least three observations of each."""
    found = []
    for dim in sizes.dims:
        source = Universal(dim, most_context=200, targets=20, independent=True)  # with all of its targets
        batch = source.draw(4 * sizes.functions, generator=torch.Generator().manual_seed(2**41 + dim))
        assert batch.of_function is not None
        enough = (batch.mask[:, :200].sum(1) >= 3) & ~batch.of_function & batch.mask[:, 200:].any(1)
        parts = []
        for task in enough.nonzero()[: sizes.functions, 0].tolist():
            x, y, real = (t[task].numpy() for t in (batch.x, batch.y[..., 0], batch.mask))
            known, asked = real.copy(), real.copy()
            known[200:], asked[:200] = False, False
            if y[known].std() > 0:
                parts.append((x[known], y[known], x[asked], y[asked]))
        for name, method in methods.items():
            progress(f"held-out functions, D = {dim}: {name}")
            found.append(_scored(name, f"D = {dim}", method, parts))
    return found


def _scored(name: str, where: str, method: Regressor, parts: Sequence[Part]) -> Score:
    predicted = [method(*part) for part in parts]
    scores = [score(one, part[3], float(part[1].std()) or 1.0) for one, part in zip(predicted, parts, strict=True)]
    weights = np.array([len(part[3]) for part in parts], dtype=float)
    nll, ranked, inside = np.average(np.array(scores), axis=0, weights=weights)
    seconds = fmean(one.seconds for one in predicted)
    return Score(name, where, float(nll), float(ranked), float(inside), seconds, int(weights.sum()))


def mean_ranks(scores: list[Score]) -> dict[str, float]:
    """Each method's rank by NLL, averaged over the places where it was measured; 1 is the best."""
    ranks: dict[str, list[int]] = {}
    for where in dict.fromkeys(one.where for one in scores):
        here = sorted((one for one in scores if one.where == where), key=lambda one: one.nll)
        for rank, one in enumerate(here, start=1):
            ranks.setdefault(one.method, []).append(rank)
    return {method: fmean(each) for method, each in ranks.items()}


def pooled_coverage(scores: list[Score], method: str) -> float:
    """The share of all tested values in their 90 % intervals."""
    ours = [one for one in scores if one.method == method]
    return sum(one.coverage * one.tested for one in ours) / sum(one.tested for one in ours)


def hierarchical_gap(model: str | NDP, device: str, dim: int, functions: int, progress: Progress) -> Number:
    """Nats a value lost to the exact posterior under a known prior of lengthscale and noise, which the model does not know.

    At each of eight places of every function it is averaged over draws of the exact posterior.
    """
    exact = hierarchical_prior()
    generator = torch.Generator().manual_seed(dim)
    source = Synthetic(exact, dim=dim, targets=8, most_context=64, least_context=8)
    ndp = model if isinstance(model, NDP) else load_ndp(model, device)
    gaps: list[Tensor] = []
    for batch in source.draw(functions, generator=generator).split(AT_ONCE):
        progress(f"exact hierarchical posterior, D = {dim}: {AT_ONCE * len(gaps)} of {functions}")
        x, y, mask = batch.context
        posterior = exact.condition(x, y, mask=mask)
        places, _ = batch.targets
        drawn = posterior.sample(places, EXACT_DRAWS, observation_noise=True, generator=generator)
        values = torch.as_tensor(drawn)
        places = places.repeat(1, EXACT_DRAWS, 1)
        values = values.transpose(0, 1).flatten(1, 2)
        ours, best = (
            torch.as_tensor(one.log_prob(places, values, joint=False, observation_noise=True)).cpu()
            for one in (ndp.condition(x, y, mask=mask), posterior)
        )
        gaps.append((best - ours).mean((1, 2)))
    return Number.of(torch.cat(gaps))


def hierarchical_prior() -> GPMixture:
    """Squared exponentials of eight lengthscales and three sizes of noise, all equally likely."""
    gps = []
    for lengthscale in np.geomspace(0.15, 1.5, 8):
        for noise in (0.03, 0.1, 0.3):
            kernel = gpytorch.kernels.RBFKernel().double()
            kernel.lengthscale = float(lengthscale)
            gps.append(GP(ScaledToDimension(kernel), noise=noise))
    return GPMixture(gps, torch.ones(len(gps)))


@dataclass(frozen=True)
class Clock:
    """Seconds on one machine, in one run. The GP is timed on the device of the model, too, where it may be slower."""

    gp: float  # on the CPU
    gp_on_device: float
    predict: float
    draws: float
    threads: int


def measure_speed(model: str, device: str, *, threads: int = 2, repeats: int = 3) -> Clock:
    """Mean and standard deviation at 100 new points from 200 (D = 5), a GP's fit and predict, and 64 joint draws."""
    rng = np.random.default_rng(0)
    x, x_new = rng.normal(size=(200, 5)), rng.normal(size=(100, 5))
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=200)
    regressor = NDPRegressor(model, device=device)

    def with_threads(run: Callable[[], object]) -> float:
        with limited_threads(threads):
            return median_seconds(run, repeats)

    def gp_on(place: str) -> float:
        return with_threads(lambda: single_task_gp(x, y, x_new, np.zeros(100), device=place))

    on_cpu, place = gp_on("cpu"), read_device(device).type
    return Clock(
        gp=on_cpu,
        gp_on_device=on_cpu if place == "cpu" else gp_on(place),
        predict=with_threads(lambda: regressor.fit(x, y).predict(x_new, return_std=True)),
        draws=with_threads(lambda: regressor.fit(x, y).sample_y(x_new, 64)),
        threads=threads,
    )
