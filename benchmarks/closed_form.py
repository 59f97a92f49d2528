"""What solvers, RePaint and the likelihood lose by themselves: everything is measured with the perfect denoiser.

The tasks are those of the paper's regression experiment at D = 1. The distributions of solver outputs are propagated exactly,
so there is no sampling error; standard errors are over tasks.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmarks.report import Progress, Report, Table
from ndp.diffusion.levels import CLEAN, cosine, karras, log_uniform
from ndp.diffusion.likelihood import default_levels, log_prob
from ndp.diffusion.propagation import UncorrelatedNoise, affine_moments, ensemble_moments
from ndp.diffusion.repaint import repaint
from ndp.diffusion.solvers import (
    LastStep,
    Solver,
    Variance,
    ancestral,
    ddim,
    dpm_solver,
    from_noise,
    half_to_zero,
    heun,
    to_zero,
)
from ndp.gp.exact import GP, GPPosterior
from ndp.gp.named import regression_gp
from ndp.gp.oracle import gaussian_denoiser
from ndp.models.metrics import expected_log_prob_gap

TARGETS = 50
LARGEST_CONTEXT = 10


@dataclass(frozen=True)
class Tasks:
    """GP regression tasks with 1 to 10 context points and 50 targets in [-2, 2], and their exact posterior."""

    gp: GP
    x_context: Float[Tensor, "B C 1"]
    y_context: Float[Tensor, "B C 1"]
    mask: Bool[Tensor, "B C"]
    x: Float[Tensor, "B M 1"]
    y: Float[Tensor, "B M 1"]

    @property
    def posterior(self) -> GPPosterior:
        return self.gp.condition(self.x_context, self.y_context, mask=self.mask)


@dataclass(frozen=True)
class Loss:
    """Nats a point lost to the exact posterior (mean over tasks and its standard error) at a number of calls a draw."""

    method: str
    calls: int
    nats: float
    standard_error: float


def draw_tasks(kernel: str, num_tasks: int, seed: int, targets: int = TARGETS) -> Tasks:
    """Tasks of the paper's regression experiment at D = 1."""
    generator = torch.Generator().manual_seed(seed)
    gp = regression_gp(kernel)
    points = LARGEST_CONTEXT + targets
    x = 4 * torch.rand(num_tasks, points, 1, generator=generator, dtype=torch.float64) - 2
    y = gp.sample(x, observation_noise=True, generator=generator)
    assert isinstance(y, Tensor)
    size = torch.randint(1, LARGEST_CONTEXT + 1, (num_tasks, 1), generator=generator)
    mask = torch.arange(LARGEST_CONTEXT) < size
    cut = LARGEST_CONTEXT
    return Tasks(gp, x[:, :cut], y[:, :cut], mask, x[:, cut:], y[:, cut:])


def solver_loss(tasks: Tasks, solver: Solver, levels: Float[Tensor, "K"], last_step: LastStep) -> Float[Tensor, "B"]:
    """What a deterministic solver loses on each task, in nats a point."""
    mean, covariance = tasks.posterior.gaussian(tasks.x, observation_noise=True)
    denoise = gaussian_denoiser(mean, covariance[:, None])

    def draw(noise: Tensor) -> Tensor:
        return last_step(denoise, solver(denoise, from_noise(denoise, noise, levels[0]), levels), levels[-1])

    return expected_log_prob_gap(*affine_moments(draw, mean), mean, covariance)


def ancestral_loss(tasks: Tasks, levels: Float[Tensor, "K"], variance: Variance) -> Float[Tensor, "B"]:
    """What ancestral sampling of the conditional loses on each task, in nats a point."""
    mean, covariance = tasks.posterior.gaussian(tasks.x, observation_noise=True)
    denoise = gaussian_denoiser(mean, covariance[:, None])
    noise = UncorrelatedNoise()
    members = 2 * mean.shape[1] + 2
    start = from_noise(denoise, noise(mean.new_zeros(members, *mean.shape)), levels[0])
    y = ancestral(denoise, start, levels, noise=noise, variance=variance)
    return expected_log_prob_gap(*ensemble_moments(half_to_zero(denoise, y, levels[-1])), mean, covariance)


def repaint_loss(tasks: Tasks, steps: int, repeats: int, variance: Variance) -> Float[Tensor, "B"]:
    """What RePaint loses on each task, in nats a point, on the paper's cosine schedule."""
    losses = []
    for index in range(tasks.x.shape[0]):  # one at a time, each without the points that are masked
        real = tasks.mask[index]
        x_context, y_context = tasks.x_context[index, real][None], tasks.y_context[index, real][None]
        x = tasks.x[index][None]
        joint = torch.cat([x_context, x], dim=1)
        nothing = joint.new_zeros(joint.shape)
        denoise = gaussian_denoiser(nothing, tasks.gp.covariance(joint)[:, None])
        noise = UncorrelatedNoise(seed=index)
        start = noise(x.new_zeros(2 * joint.shape[1] + 2, *x.shape))
        clean = torch.full_like(y_context[..., 0], CLEAN)
        draws = repaint(
            denoise, start, y_context, clean, cosine(steps), noise=noise, repeats=repeats, variance=variance
        )
        exact = tasks.gp.condition(x_context, y_context).gaussian(x, observation_noise=True)
        losses.append(expected_log_prob_gap(*ensemble_moments(draws), *exact))
    return torch.cat(losses)


def likelihood_error(tasks: Tasks, steps: int) -> Float[Tensor, "B"]:
    """Error of the ODE log-density on each task, in nats a point."""
    mean, covariance = tasks.posterior.gaussian(tasks.x, observation_noise=True)
    estimate = log_prob(gaussian_denoiser(mean, covariance[:, None]), tasks.y, default_levels(tasks.x.shape[1], steps))
    exact = tasks.posterior.log_prob(tasks.x, tasks.y, observation_noise=True)
    return (estimate - torch.as_tensor(exact)) / tasks.x.shape[1]


def reproduce(*, tasks: int, quick: bool, progress: Progress) -> Report:
    """What every method loses, a table for each kernel."""
    tables, numbers = [], {}
    for kernel in ("se", "matern52"):
        progress(f"{kernel}: measuring")
        losses = measure(kernel, num_tasks=tasks, quick=quick)
        rows = [(one.method, str(one.calls), f"{one.nats:.5f} ± {one.standard_error:.5f}") for one in losses]
        tables.append(Table(f"{kernel}, nats a point", ("method", "calls", "lost"), rows))
        numbers[kernel] = [asdict(one) for one in losses]
    return Report("closed-form", tables, "", numbers)


def measure(kernel: str, *, num_tasks: int, quick: bool, seed: int = 0) -> list[Loss]:
    """The table of `docs/solvers.md` for one kernel."""
    tasks = draw_tasks(kernel, num_tasks, seed)
    few = draw_tasks(kernel, 2 if quick else 8, seed)

    def subsampled_cosine(steps: int) -> Tensor:
        schedule = cosine(500)
        return schedule[torch.linspace(0, len(schedule) - 1, steps).round().long()]

    rows: list[tuple[str, int, Callable[[], Tensor]]] = []
    for calls in (5, 10, 20, 50):
        rows += [
            (
                "DPM-Solver++(2M), log-uniform 40 to .01, half",
                calls,
                partial(solver_loss, tasks, dpm_solver, log_uniform(calls), half_to_zero),
            ),
            (
                "DPM-Solver++(2M), rho = 7, 40 to .004, to zero",
                calls,
                partial(solver_loss, tasks, dpm_solver, karras(calls), to_zero),
            ),
            (
                "DPM-Solver++(2M), cosine, to zero",
                calls,
                partial(solver_loss, tasks, dpm_solver, subsampled_cosine(calls), to_zero),
            ),
            ("DDIM, rho = 7, 40 to .004, to zero", calls, partial(solver_loss, tasks, ddim, karras(calls), to_zero)),
        ]
    for levels in (5, 10, 25):
        rows.append(
            (
                "Heun, log-uniform 40 to .01, half",
                2 * levels - 1,
                partial(solver_loss, tasks, heun, log_uniform(levels), half_to_zero),
            )
        )
    for calls in (20, 50) if quick else (20, 50, 200):
        for variance in Variance:
            rows.append(
                (
                    f"ancestral, log-uniform, {variance}",
                    calls,
                    partial(ancestral_loss, few, log_uniform(calls), variance),
                )
            )
    settings = [(100, 1), (100, 5)] if quick else [(100, 1), (100, 5), (100, 20), (500, 1), (500, 5)]
    for steps, repeats in settings:
        for variance in Variance if repeats == 5 else [Variance.BETA]:
            name = f"RePaint, T = {steps}, U = {repeats}, {variance}"
            rows.append((name, steps * repeats, partial(repaint_loss, few, steps, repeats, variance)))
    for steps in (10, 15, 20):
        rows.append((f"log_prob by the ODE, {steps} steps (error)", 4 * steps, partial(likelihood_error, tasks, steps)))
    losses = [(method, calls, loss()) for method, calls, loss in rows]
    return [
        Loss(method, calls, loss.mean().item(), (loss.std() / len(loss) ** 0.5).item())
        for method, calls, loss in losses
    ]
