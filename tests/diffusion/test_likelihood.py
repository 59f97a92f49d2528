"""The ODE log-density driven by the oracle, against the exact GP log-density."""

import itertools
import math

import gpytorch
import pytest
import torch

from benchmarks.closed_form import Tasks, draw_tasks, likelihood_error
from ndp.core.units import FixedUnits
from ndp.diffusion.levels import log_uniform
from ndp.diffusion.likelihood import exact_divergence, hutchinson_divergence, log_prob
from ndp.gp.exact import GP
from ndp.gp.named import regression_gp
from ndp.gp.oracle import GPOracle, gaussian_denoiser
from ndp.processes.ndp import NDP


@pytest.fixture(scope="module", params=["se", "matern52"])
def tasks(request: pytest.FixtureRequest) -> Tasks:
    return draw_tasks(request.param, num_tasks=64, seed=4)


def test_default_settings_are_within_a_thousandth_of_a_nat_on_every_task(tasks: Tasks) -> None:
    assert likelihood_error(tasks, steps=15).abs().max() < 0.001


def test_the_error_falls_as_steps_grow() -> None:
    tasks = draw_tasks("se", num_tasks=8, seed=5)
    mean, covariance = tasks.posterior.gaussian(tasks.x, observation_noise=True)
    denoise = gaussian_denoiser(mean, covariance[:, None])
    exact = torch.as_tensor(tasks.posterior.log_prob(tasks.x, tasks.y, observation_noise=True))
    errors = []
    for steps in (8, 16, 32, 64):
        levels = log_uniform(steps + 1, largest=400.0, smallest=0.002)
        errors.append(((log_prob(denoise, tasks.y, levels) - exact) / tasks.x.shape[1]).abs().mean().item())
    assert all(later < earlier / 3 for earlier, later in itertools.pairwise(errors)), errors
    assert errors[-1] < 1e-4


def test_exact_divergence_is_the_trace_whatever_the_chunk() -> None:
    tasks = draw_tasks("se", num_tasks=3, seed=6, targets=7)
    mean, covariance = tasks.posterior.gaussian(tasks.x, observation_noise=True)
    denoise = gaussian_denoiser(mean, covariance[:, None])
    level = torch.tensor(1.0, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda y: denoise(y, level), tasks.y)
    expected = torch.stack([jacobian[b, :, 0, b, :, 0].trace() for b in range(3)])
    for chunk in (1, 3, 64):
        torch.testing.assert_close(exact_divergence(denoise, tasks.y, level, chunk=chunk), expected)


def test_hutchinson_is_unbiased_and_as_noisy_as_documented() -> None:
    tasks = draw_tasks("se", num_tasks=40, seed=7)
    mean, covariance = tasks.posterior.gaussian(tasks.x, observation_noise=True)
    denoise = gaussian_denoiser(mean, covariance[:, None])
    generator = torch.Generator().manual_seed(0)

    def noise(like: torch.Tensor) -> torch.Tensor:
        return torch.randn(like.shape, generator=generator, dtype=like.dtype)

    exact = log_prob(denoise, tasks.y)
    estimate = log_prob(denoise, tasks.y, divergence=hutchinson_divergence(noise, probes=1))
    error = (estimate - exact) / tasks.x.shape[1]
    standard_error = error.std() / len(error) ** 0.5
    assert error.mean().abs() < 4.5 * standard_error
    assert 0.02 < error.std() < 0.1


def test_several_outputs_are_one_vector() -> None:
    """Two independent outputs: the joint log-density is the sum."""
    tasks = draw_tasks("matern52", num_tasks=2, seed=8, targets=9)
    mean, covariance = tasks.posterior.gaussian(tasks.x, observation_noise=True)
    one = log_prob(gaussian_denoiser(mean, covariance[:, None]), tasks.y)
    both = log_prob(
        gaussian_denoiser(mean.expand(-1, -1, 2).contiguous(), covariance[:, None].expand(-1, 2, -1, -1)),
        tasks.y.expand(-1, -1, 2).contiguous(),
    )
    torch.testing.assert_close(both, 2 * one)


def test_functions_without_noise_have_an_exact_density_once_they_are_observed_with_some() -> None:
    """Matern-3/2 with noise 0.001, scored with 0.01 on top: without it the ODE is off by 0.14 nats a point on its own."""
    kernel = gpytorch.kernels.MaternKernel(nu=1.5)
    kernel.lengthscale = 1.5
    gp = GP(kernel, noise=1e-3)
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(6, 25, 1, generator=generator, dtype=torch.float64) - 1
    y = torch.as_tensor(gp.sample(x, observation_noise=True, generator=generator))
    seen = y + 0.01 * torch.randn(y.shape, generator=generator, dtype=torch.float64)
    context, x, seen = (x[:, :5], y[:, :5]), x[:, 5:], seen[:, 5:]
    exact = torch.as_tensor(gp.condition(*context).log_prob(x, seen, observation_noise=True, noise=0.01))
    posterior = NDP(GPOracle(gp), noise_floor=1e-3).condition(*context)
    ours = torch.as_tensor(posterior.log_prob(x, seen, noise=0.01, steps=25))
    assert (ours - exact).abs().max() / 20 < 0.004
    with pytest.raises(ValueError, match="below the least that this model was trained for"):
        posterior.log_prob(x, seen, noise=0.001)


def test_noise_of_a_density_is_in_the_users_units() -> None:
    gp = regression_gp("se")
    x = torch.linspace(-1, 0, 4, dtype=torch.float64)[None, :, None]
    y = torch.sin(3 * x)
    plain = NDP(GPOracle(gp), noise_floor=0.05)
    halved = NDP(GPOracle(gp), noise_floor=0.05, units=FixedUnits((0.0,), (1.0,), (0.0,), (0.5,)))
    ours = halved.condition(x, y / 2).log_prob(x + 1, y / 2, noise=0.05)
    expected = plain.condition(x, y).log_prob(x + 1, y, noise=0.1)
    torch.testing.assert_close(ours, expected + 4 * math.log(2))
