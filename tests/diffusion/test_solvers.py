"""Solvers against closed form: the exact flow of a Gaussian, orders of convergence, and what is lost in nats."""

import itertools
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from benchmarks.closed_form import Tasks, ancestral_loss, draw_tasks, solver_loss
from ndp.diffusion.levels import alpha, log_uniform, sigma
from ndp.diffusion.propagation import UncorrelatedNoise, ensemble_moments
from ndp.diffusion.solvers import (
    Solver,
    Variance,
    ancestral,
    ddim,
    dpm_solver,
    from_noise,
    half_to_zero,
    heun,
    to_zero,
    watched,
)
from ndp.gp.oracle import gaussian_denoiser

FIRST, LAST = torch.tensor([-6.0, 6.0], dtype=torch.float64)
VARIANCES = torch.tensor([0.0025, 0.1, 1.0, 12.0], dtype=torch.float64)
MEAN = torch.tensor([0.5, -1.0, 0.0, 2.0], dtype=torch.float64)


@pytest.fixture(scope="module", params=["se", "matern52"])
def tasks(request: pytest.FixtureRequest) -> Tasks:
    return draw_tasks(request.param, num_tasks=32, seed=1)


def diagonal_gaussian() -> tuple[Callable[[Tensor, Tensor], Tensor], Tensor, Tensor]:
    """A denoiser, a start, and where the exact ODE carries it: each direction keeps its standardised value."""
    denoise = gaussian_denoiser(MEAN[None, :, None], torch.diag(VARIANCES)[None, None])
    start = torch.tensor([0.7, -1.2, 2.0, 0.4], dtype=torch.float64)[None, :, None]

    def spread(level: Tensor) -> Tensor:
        return (alpha(level) ** 2 * VARIANCES + sigma(level) ** 2).sqrt()[None, :, None]

    mean = MEAN[None, :, None]
    end = alpha(LAST) * mean + spread(LAST) / spread(FIRST) * (start - alpha(FIRST) * mean)
    return denoise, start, end


def test_watching_changes_nothing_and_sees_every_state() -> None:
    denoise, start, _ = diagonal_gaussian()
    levels = torch.linspace(FIRST, LAST, 9, dtype=torch.float64)
    seen: list[tuple[Tensor, Tensor]] = []
    end = watched(dpm_solver, lambda y, level: seen.append((y, level)))(denoise, start, levels)
    assert torch.equal(end, dpm_solver(denoise, start, levels))
    assert torch.equal(torch.stack([level for _, level in seen]), levels)
    for index, (y, _) in enumerate(seen):
        assert torch.equal(y, dpm_solver(denoise, start, levels[: index + 1]))


@pytest.mark.parametrize(("solver", "order"), [(ddim, 1), (heun, 2), (dpm_solver, 2)])
def test_solvers_follow_the_exact_ode_at_their_order(solver: Solver, order: int) -> None:
    denoise, start, end = diagonal_gaussian()

    def error(steps: int) -> float:
        levels = torch.linspace(FIRST, LAST, steps + 1, dtype=torch.float64)
        return (solver(denoise, start, levels) - end).abs().max().item()

    errors = [error(steps) for steps in (80, 160, 320)]
    observed = [torch.log2(torch.tensor(a / b)).item() for a, b in itertools.pairwise(errors)]
    assert observed[-1] == pytest.approx(order, abs=0.12), (errors, observed)
    assert errors[-1] < (2e-2 if order == 1 else 1e-3)


@pytest.mark.parametrize(("calls", "most"), [(10, 0.001), (20, 0.0005), (50, 0.0001)])
def test_the_default_solver_is_within_a_thousandth_of_a_nat(tasks: Tasks, calls: int, most: float) -> None:
    loss = solver_loss(tasks, dpm_solver, log_uniform(calls), half_to_zero)
    assert loss.max() < most


@pytest.mark.parametrize(("solver", "levels", "most"), [(ddim, 100, 0.01), (heun, 50, 0.0005)])
def test_other_solvers_reach_the_posterior_with_more_calls(
    tasks: Tasks, solver: Solver, levels: int, most: float
) -> None:
    assert solver_loss(tasks, solver, log_uniform(levels), half_to_zero).max() < most


def test_half_a_last_step_beats_a_whole_one_where_there_is_a_noise_floor(tasks: Tasks) -> None:
    levels = log_uniform(20, smallest=0.02)
    half, whole = (solver_loss(tasks, dpm_solver, levels, last) for last in (half_to_zero, to_zero))
    assert (half < whole / 30).all()


def test_without_noise_the_whole_last_step_is_the_exact_one() -> None:
    """A point mass: the ODE runs straight into it, and only the whole step arrives."""
    point = torch.tensor([[[0.8]]], dtype=torch.float64)
    denoise = gaussian_denoiser(point, torch.zeros(1, 1, 1, 1, dtype=torch.float64))
    levels = log_uniform(5, smallest=0.002)
    y = dpm_solver(denoise, torch.ones_like(point), levels)
    torch.testing.assert_close(to_zero(denoise, y, levels[-1]), point)


def test_the_start_is_noise_about_the_scaled_mean() -> None:
    """At ratio 40 a start without the mean would shift a draw by up to sqrt(largest eigenvalue) * mean / 40."""
    level = log_uniform(1)[0]
    denoise = gaussian_denoiser(MEAN[None, :, None], torch.diag(VARIANCES)[None, None])
    start = from_noise(denoise, torch.zeros(2, 1, 4, 1, dtype=torch.float64), level)
    torch.testing.assert_close(
        start, (alpha(level) * MEAN)[None, None, :, None].expand(2, 1, 4, 1), rtol=0.01, atol=1e-3
    )


@pytest.mark.parametrize("variance", list(Variance))
def test_ancestral_sampling_converges_to_the_posterior(variance: Variance) -> None:
    tasks = draw_tasks("se", num_tasks=3, seed=2, targets=12)
    losses = [ancestral_loss(tasks, log_uniform(steps), variance).mean().item() for steps in (25, 50, 100, 200)]
    assert all(later < earlier / 2 for earlier, later in itertools.pairwise(losses)), losses
    assert losses[-1] < 0.001


def test_an_ancestral_step_has_the_variance_of_the_literature() -> None:
    """From a point mass at zero, beta-tilde is exact for any step: the state keeps the forward process's law."""
    zero = torch.zeros(1, 3, 1, dtype=torch.float64)
    denoise = gaussian_denoiser(zero, torch.zeros(1, 1, 3, 3, dtype=torch.float64))
    noise = UncorrelatedNoise()
    levels = log_uniform(4, smallest=0.3)
    start = sigma(levels[0]) * noise(zero.expand(10, 1, 3, 1))
    y = ancestral(denoise, start, levels, noise=noise, variance=Variance.BETA_TILDE)
    _, covariance = ensemble_moments(y)
    torch.testing.assert_close(covariance[0], sigma(levels[-1]) ** 2 * torch.eye(3, dtype=torch.float64))


def test_beta_is_exact_for_unit_variance_and_beta_tilde_is_not() -> None:
    zero = torch.zeros(1, 2, 1, dtype=torch.float64)
    unit = torch.eye(2, dtype=torch.float64)
    denoise = gaussian_denoiser(zero, unit[None, None])
    levels = log_uniform(4, smallest=0.3)
    laws = {}
    for variance in Variance:
        noise = UncorrelatedNoise()
        start = noise(zero.expand(10, 1, 2, 1))
        laws[variance] = ensemble_moments(ancestral(denoise, start, levels, noise=noise, variance=variance))[1][0]
    torch.testing.assert_close(laws[Variance.BETA], unit)
    assert (laws[Variance.BETA_TILDE].diagonal() < 0.9).all()


def test_solvers_treat_every_draw_by_itself() -> None:
    denoise, start, _ = diagonal_gaussian()
    many = torch.stack([start, 2 * start, -start])
    for solver in (ddim, heun, dpm_solver, partial(ancestral, noise=torch.zeros_like)):
        together = solver(denoise, many, log_uniform(6))
        for draw, begin in zip(together, many, strict=True):
            torch.testing.assert_close(solver(denoise, begin, log_uniform(6)), draw, rtol=1e-12, atol=1e-12)
