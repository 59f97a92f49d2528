"""How close a trained model is to the exact process, on tasks of the paper's protocol: predictions of new observations.

Every likelihood stands beside the exact one on the same tasks, and sample-based ones also beside the exact posterior through
the same estimator: what the estimator loses by itself is not the model's fault. Gaps are paired; errors are standard errors.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.gp.exact import GP
from ndp.models.metrics import fitted_gaussian_log_prob
from ndp.models.registry import exact_process_of, load_ndp
from ndp.priors.tasks import Batch, Synthetic
from ndp.processes.ndp import NDP

COVERAGES = (0.5, 0.9, 0.95)


@dataclass(frozen=True)
class Number:
    """A mean over tasks and its standard error."""

    mean: float
    standard_error: float

    @staticmethod
    def of(values: Float[Tensor, "B"]) -> "Number":
        return Number(values.mean().item(), (values.std() / len(values) ** 0.5).item())

    def __str__(self) -> str:
        return f"{self.mean:.4f} ± {self.standard_error:.4f}"


@dataclass(frozen=True)
class Evaluation:
    """All in nats a point, but for `mean_error` (root mean square, in units of the function) and coverage (shares)."""

    dim: int
    tasks: int
    draws: int
    steps: int
    exact: Number
    model_fitted: Number  # a Gaussian fitted to the model's draws: the paper's estimator
    exact_fitted: Number  # the same of the exact posterior's draws
    gap: Number  # exact less model_fitted
    net_gap: Number  # exact_fitted less model_fitted: what is the model's, not the estimator's
    ode_gap: Number | None  # exact less the model's own log-density
    mean_error: float
    coverage: dict[str, float]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def evaluate(
    model: NDP,
    gp: GP,
    *,
    dim: int,
    tasks: int = 512,
    draws: int = 1024,
    steps: int = 20,
    ode_tasks: int = 64,
    seed: int = 1234,
    shift: float = 0.0,
) -> Evaluation:
    """Score `model` against the exact `gp`: 1 to 10 D context points and 50 targets in [-2, 2]^D (moved by `shift`)."""
    began = time.monotonic()
    source = Synthetic(gp, dim=dim, most_context=10 * dim, least_context=1)
    batch = source.draw(tasks, generator=torch.Generator().manual_seed(seed)).to(model.device)
    gp = gp.to(model.device)
    generator = torch.Generator(model.device).manual_seed(seed)
    fast = model.compiled() if model.device.type == "cuda" else model
    pieces = [_score(fast, gp, piece, draws, steps, shift, generator) for piece in batch.split(32)]
    exact, model_fitted, exact_fitted = (torch.cat([p[i] for p in pieces]) for i in range(3))
    error = torch.cat([p[3] for p in pieces])
    inside = torch.cat([p[4] for p in pieces], dim=1)
    ode = None
    if ode_tasks:
        few = batch.rows(slice(0, ode_tasks))
        ode = Number.of(_ode_gap(model, gp, few, shift))
    return Evaluation(
        dim=dim,
        tasks=tasks,
        draws=draws,
        steps=steps,
        exact=Number.of(exact),
        model_fitted=Number.of(model_fitted),
        exact_fitted=Number.of(exact_fitted),
        gap=Number.of(exact - model_fitted),
        net_gap=Number.of(exact_fitted - model_fitted),
        ode_gap=ode,
        mean_error=error.square().mean().sqrt().item(),
        coverage={
            str(level): share.item() for level, share in zip(COVERAGES, inside.double().mean((1, 2)), strict=True)
        },
        seconds=time.monotonic() - began,
    )


def evaluate_named(
    name: str,
    dims: tuple[int, ...] | None,
    *,
    tasks: int,
    draws: int,
    steps: int,
    shift: float,
    device: str,
    seed: int,
) -> Iterator[Evaluation]:
    """Evaluate a model by its name at each number of input dimensions, against the process that it was trained on."""
    model = load_ndp(name, device)
    gp = exact_process_of(model, name)
    for dim in dims or model.input_dims or (1,):
        yield evaluate(model, gp, dim=dim, tasks=tasks, draws=draws, steps=steps, shift=shift, seed=seed)


def given(process: Any, batch: Batch) -> Any:
    """The posterior of a process given the contexts of a batch."""
    x, y, mask = batch.context
    return process.condition(x, y, mask=mask)


def _score(
    model: NDP, gp: GP, batch: Batch, draws: int, steps: int, shift: float, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Per task: exact, model and exact through the estimator (nats a point), error of the mean, and what is covered."""
    x, y = batch.targets
    posterior = given(gp, batch)
    points = x.shape[1]
    exact = torch.as_tensor(posterior.log_prob(x, y, observation_noise=True)) / points
    drawn_exactly = torch.as_tensor(posterior.sample(x, draws, observation_noise=True, generator=generator))
    exact_fitted = fitted_gaussian_log_prob(drawn_exactly, y) / points
    ours = given(model, batch.shifted(shift))
    drawn = torch.as_tensor(
        ours.sample(x + shift, draws, observation_noise=True, steps=steps, generator=generator)
    ).double()
    model_fitted = fitted_gaussian_log_prob(drawn, y) / points
    mean = torch.as_tensor(posterior.moments(x).mean)
    error = (drawn.mean(0) - mean)[..., 0]
    tails = torch.tensor([(1 - level) / 2 for level in COVERAGES], dtype=drawn.dtype, device=drawn.device)
    low, high = torch.quantile(drawn, tails, dim=0), torch.quantile(drawn, 1 - tails, dim=0)
    inside = ((low <= y) & (y <= high))[..., 0]
    return exact, model_fitted, exact_fitted, error, inside


def _ode_gap(model: NDP, gp: GP, batch: Batch, shift: float) -> Float[Tensor, "B"]:
    x, y = batch.targets
    exact = torch.as_tensor(given(gp, batch).log_prob(x, y, observation_noise=True))
    ours = given(model, batch.shifted(shift)).log_prob(x + shift, y, observation_noise=True)
    return (exact - torch.as_tensor(ours)) / x.shape[1]
