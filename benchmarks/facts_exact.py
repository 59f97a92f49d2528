"""Facts where the answer is known: Gaussian likelihoods, truncated normals, evidences, classes and counts on GP priors."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.facts_references import Truncated, elliptical_slice, truncated
from benchmarks.report import Progress
from ndp import facts
from ndp.facts.posterior import GivenPosterior
from ndp.gp.exact import GP, gaussian_log_prob
from ndp.gp.named import regression_gp
from ndp.gp.oracle import GPOracle
from ndp.processes.ndp import NDP

KNOWN_X = np.array([[-0.8], [0.1], [0.6]])
KNOWN_Y = np.array([-0.5, 0.3, 0.4])
GAUSSIAN = "Gaussian likelihood"


@dataclass(frozen=True)
class Problem:
    """A fact of hard ends about places, and the same as low < W f < high."""

    name: str
    x: Tensor  # [P 1]
    facts: tuple[facts.Fact, ...]
    weights: Tensor
    low: Tensor
    high: Tensor


def intervals(count: int) -> Problem:
    """Values within half a standard deviation of the prior, about a curve."""
    x = torch.linspace(-1, 1, count, dtype=torch.float64)[:, None] if count > 1 else torch.zeros(1, 1).double()
    low = torch.sin(2 * x[:, 0]) - 0.2
    return Problem(
        f"intervals at {count} points",
        x,
        (facts.Interval(x, low, low + 0.7),),
        torch.eye(count).double(),
        low,
        low + 0.7,
    )


def monotone(count: int) -> Problem:
    """Values that rise along the places."""
    x = torch.linspace(-1, 1, count, dtype=torch.float64)[:, None]
    weights = torch.eye(count).double().diff(dim=0)
    return Problem(
        f"monotone at {count} points",
        x,
        (facts.Monotone(x=x),),
        weights,
        torch.zeros(count - 1).double(),
        torch.full((count - 1,), 100.0).double(),
    )


@dataclass(frozen=True)
class Model:
    """A process, whether its values carry noise, and its GP."""

    name: str
    condition: Callable[..., Any]
    gp: GP
    noisy: bool

    def gaussian(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The exact posterior without facts."""
        known = torch.from_numpy(KNOWN_X)[None], torch.from_numpy(KNOWN_Y)[None, :, None]
        mean, covariance = self.gp.condition(*known).gaussian(x[None], observation_noise=self.noisy)
        return mean[0, :, 0], covariance[0]

    def told(self, some: tuple[facts.Fact, ...], particles: int) -> GivenPosterior:
        """The model's answer."""
        posterior = self.condition(torch.from_numpy(KNOWN_X), torch.from_numpy(KNOWN_Y))
        found: GivenPosterior = posterior.given(*some, num_particles=particles)
        return found


def models() -> tuple[Model, Model]:
    """The exact GP, and an NDP with its exact denoiser, whose values carry the GP's noise."""
    gp = regression_gp("matern52")
    oracle = NDP(GPOracle(gp), noise_floor=gp.noise)
    return Model("exact GP", gp.condition, gp, False), Model("oracle NDP", oracle.condition, gp, True)


@dataclass(frozen=True)
class Moments:
    """Errors of mean and standard deviation: largest in standard errors, and in standard deviations."""

    model: str
    problem: str
    effective: float
    in_errors: float
    in_stds: float
    evidence: float
    exact_evidence: float

    @property
    def met(self) -> bool:
        return self.in_errors <= 3 and self.in_stds <= 0.05


def moments(model: Model, problem: Problem | str, particles: int, count: int) -> Moments:
    """Moments given facts beside the exact ones, at the places of the facts and between them."""
    if isinstance(problem, str):
        name, x, some, reference, exact = _gaussian_likelihood(model)
        error_of_reference, kurtosis = 0.0, torch.tensor(3.0)
    else:
        between = (problem.x[1:] + problem.x[:-1]) / 2
        x, some, name = torch.cat([problem.x, between[::3]]), problem.facts, problem.name
        exactly = _reference(model, problem, x, count)
        reference, exact = (exactly.mean, exactly.std), exactly.log_probability
        error_of_reference = 1 / exactly.effective
        kurtosis = exactly.weight @ ((exactly.draws - exactly.mean) / exactly.std) ** 4
    told = model.told(some, particles)
    mean, std = (torch.as_tensor(part) for part in told.moments(x))
    effective = told.effective_sample_size(x)
    off = torch.stack([(mean - reference[0]) / reference[1], (std - reference[1]) / reference[1]])
    error = torch.stack([torch.ones_like(off[0]), ((kurtosis - 1) / 4).sqrt().expand_as(off[0])])
    error = error * math.sqrt(1 / effective + error_of_reference)
    return Moments(
        model.name,
        name,
        effective,
        (off.abs() / error).max().item(),
        off.abs().max().item(),
        told.log_evidence(x),
        exact,
    )


def _reference(model: Model, problem: Problem, x: Tensor, count: int) -> Truncated:
    mean, covariance = model.gaussian(x)
    more = torch.zeros(len(problem.weights), len(x) - len(problem.x), dtype=torch.float64)
    return truncated(mean, covariance, torch.cat([problem.weights, more], dim=1), problem.low, problem.high, count)


def _gaussian_likelihood(model: Model) -> tuple[str, Tensor, tuple[facts.Fact, ...], tuple[Tensor, Tensor], float]:
    """Observations with noise 0.2 as a Python function, against the GP's algebra."""
    x = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None]
    at, y, noise = x[::2], torch.tensor([0.4, -0.6, 0.2, 0.9, -0.3], dtype=torch.float64), 0.2

    def log_likelihood(values: Tensor) -> Tensor:
        return torch.distributions.Normal(values, noise).log_prob(y).sum(-1)

    mean, covariance = model.gaussian(x)
    cross = covariance[:, ::2]
    inner = cross[::2] + noise**2 * torch.eye(5).double()
    gain = torch.linalg.solve(inner, cross.T).T
    best = mean + gain @ (y - mean[::2])
    std = (covariance - gain @ cross.T).diagonal().sqrt()
    exact = gaussian_log_prob(y[None, :, None], mean[None, ::2, None], inner[None]).item()
    return GAUSSIAN, x, (facts.Likelihood(at, log_likelihood),), (best, std), exact


@dataclass(frozen=True)
class Evidence:
    """Repeated estimates of an evidence over its exact value."""

    model: str
    problem: str
    ratio: float  # the mean of the estimates over the exact evidence
    error: float  # its standard error
    rmse: dict[int, float]  # of the ratio, by number of particles

    @property
    def slope(self) -> float:
        """Of log RMSE over log particles."""
        sizes = np.log(list(self.rmse))
        return float(np.polyfit(sizes, np.log(list(self.rmse.values())), 1)[0])


def evidences(model: Model, repetitions: int, sizes: tuple[int, ...], count: int, progress: Progress) -> list[Evidence]:
    """Five problems: Gaussian and truncated ones."""
    found = []
    for problem in (GAUSSIAN, intervals(1), intervals(5), monotone(5), monotone(10)):
        if isinstance(problem, str):
            name, x, some, _, exact = _gaussian_likelihood(model)
            more = 0.0
        else:
            x, some, name = problem.x, problem.facts, problem.name
            reference = _reference(model, problem, x, count)
            exact, more = reference.log_probability, reference.error
        ratios = {}
        for size in sizes:
            progress(f"evidence of {name}, {model.name}: {size} particles")
            told = model.told(some, size)
            each = [
                told.log_evidence(generator=torch.Generator().manual_seed(1000 * size + seed)) - exact
                for seed in range(repetitions)
            ]
            ratios[size] = np.exp(each)
        last = ratios[sizes[-1]]
        found.append(
            Evidence(
                model.name,
                name,
                float(last.mean()),
                float(np.hypot(last.std(ddof=1) / math.sqrt(repetitions), more)),
                {size: float(np.sqrt(((one - 1) ** 2).mean())) for size, one in ratios.items()},
            )
        )
    return found


@dataclass(frozen=True)
class Distances:
    """The largest Kolmogorov-Smirnov distance of a marginal from elliptical slice sampling."""

    model: str
    problem: str
    distance: float
    effective: float


def distances(model: Model, particles: int, chains: int) -> list[Distances]:
    """Classes and counts at 20 places."""
    x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    curve = torch.sin(3 * x[:, 0])
    rng = np.random.default_rng(0)
    classes = torch.from_numpy((rng.random(20) < 1 / (1 + np.exp(-2 * curve.numpy()))).astype(float))
    counts = torch.from_numpy(rng.poisson(3 * np.exp(curve.numpy())).astype(float))
    mean, covariance = model.gaussian(x)
    if not model.noisy:
        covariance = covariance + 1e-8 * torch.eye(20).double()
    found = []
    for name, fact, likelihood in (
        ("binary classes", facts.Classes(x, classes), partial(_bernoulli, classes)),
        ("Poisson counts", facts.Counts(x, counts, exposure=3.0), partial(_poisson, counts)),
    ):
        reference = elliptical_slice(mean, covariance, likelihood, chains=chains, steps=25, burn_in=300)
        told = model.told((fact,), particles)
        levels = np.linspace(0.002, 0.998, 499)
        quantiles = torch.as_tensor(told.quantiles(x, levels.tolist()))
        below = (reference[:, None] < quantiles).double().mean(0)  # [levels, places]
        away = (below - torch.from_numpy(levels)[:, None]).abs().max().item()
        found.append(Distances(model.name, name, away, told.effective_sample_size(x)))
    return found


def _bernoulli(classes: Tensor, values: Tensor) -> Tensor:
    return torch.distributions.Bernoulli(logits=values).log_prob(classes).sum(-1)


def _poisson(counts: Tensor, values: Tensor) -> Tensor:
    return torch.distributions.Poisson(3.0 * values.exp()).log_prob(counts).sum(-1)
