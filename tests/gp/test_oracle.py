"""The oracle as a network, and conditioning as a choice of levels, against the closed-form posterior."""

import pytest
import torch

from benchmarks.closed_form import Tasks, draw_tasks
from ndp.diffusion.levels import alpha, level_of_ratio, sigma
from ndp.diffusion.prediction import Prediction
from ndp.gp.exact import GPPosterior
from ndp.gp.oracle import GPOracle, gaussian_denoiser
from ndp.processes.ndp import NDP

LEVELS = [-8.0, -2.0, 0.0, 3.0, 9.0]


@pytest.fixture(scope="module", params=["se", "matern52"])
def tasks(request: pytest.FixtureRequest) -> Tasks:
    return draw_tasks(request.param, num_tasks=4, seed=9, targets=12)


def posterior(tasks: Tasks, noise: torch.Tensor | float | None) -> GPPosterior:
    return tasks.gp.condition(tasks.x_context, tasks.y_context, noise=noise, mask=tasks.mask)


@pytest.mark.parametrize("prediction", list(Prediction))
@pytest.mark.parametrize("observed", ["clean", "noisy", "mixed"])
def test_conditioning_through_levels_equals_the_gp_posterior(
    tasks: Tasks, prediction: Prediction, observed: str
) -> None:
    """Context clean, or noisy with a standard deviation of its own at every point: the same denoiser as the posterior's."""
    generator = torch.Generator().manual_seed(0)
    random = torch.rand(tasks.mask.shape, generator=generator, dtype=torch.float64)
    noise = {"clean": None, "noisy": 0.3, "mixed": random * (random > 0.4)}[observed]
    mean, covariance = posterior(tasks, noise).gaussian(tasks.x, observation_noise=True)
    exact = gaussian_denoiser(mean, covariance[:, None])
    ndp = NDP(GPOracle(tasks.gp, prediction), prediction=prediction, noise_floor=0.05)
    encoded = ndp.condition(tasks.x_context, tasks.y_context, noise=noise, mask=tasks.mask)._encoded
    denoise = encoded.denoiser(tasks.x)
    y_t = torch.randn(3, *tasks.y.shape, generator=generator, dtype=torch.float64)
    for level in torch.tensor(LEVELS, dtype=torch.float64):
        # A clean context is at ratio 4.5e-5: a variance of 2e-9 on top of the noise floor's 2.5e-3.
        torch.testing.assert_close(denoise(y_t, level), exact(y_t, level), rtol=1e-5, atol=5e-6)


def test_conditioning_by_the_formula_of_levels_alone_equals_the_encoded_context(tasks: Tasks) -> None:
    """One call with a level at every point, against the context worked out once."""
    oracle = GPOracle(tasks.gp)
    generator = torch.Generator().manual_seed(3)
    x = torch.cat([tasks.x_context, tasks.x], dim=1)
    mask = torch.cat([tasks.mask, torch.ones_like(tasks.x[..., 0], dtype=torch.bool)], dim=1)
    num_context = tasks.mask.shape[1]
    held = level_of_ratio(torch.rand(tasks.mask.shape, generator=generator, dtype=torch.float64))
    y_context = alpha(held)[..., None] * tasks.y_context
    targets = oracle.encode_targets(oracle.encode_context(tasks.x_context, y_context, held, tasks.mask), tasks.x)
    for level in torch.tensor(LEVELS, dtype=torch.float64):
        y_t = torch.randn(tasks.y.shape, generator=generator, dtype=torch.float64)
        levels = torch.cat([held, level.expand(y_t.shape[:2])], dim=1)
        whole = oracle(x, torch.cat([y_context, y_t], dim=1), levels, mask, num_context=num_context)
        torch.testing.assert_close(oracle.denoise(targets, y_t, level), whole[:, num_context:], rtol=1e-6, atol=1e-6)


def test_noisy_draws_and_densities_are_those_of_the_gp(tasks: Tasks) -> None:
    exact = posterior(tasks, 0.3)
    ndp = NDP(GPOracle(tasks.gp), noise_floor=0.05)
    ours = ndp.condition(tasks.x_context, tasks.y_context, noise=0.3, mask=tasks.mask)
    for found, expected in zip(
        ours.moments(tasks.x, steps=40), exact.moments(tasks.x, observation_noise=True), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=0, atol=4e-3)
    points = tasks.x.shape[1]
    difference = ours.log_prob(tasks.x, tasks.y) - exact.log_prob(tasks.x, tasks.y, observation_noise=True)
    assert (difference / points).abs().max() < 0.001


def test_without_conditioning_context_and_targets_share_one_level(tasks: Tasks) -> None:
    real = tasks.mask[0]
    x_context, y_context = tasks.x_context[:1, real], tasks.y_context[:1, real]
    ndp = NDP(GPOracle(tasks.gp))
    x = tasks.x[:1]
    denoise = ndp.condition(x_context, y_context)._encoded.unconditional(x)
    everything = torch.cat([x_context, x], dim=1)
    exact = gaussian_denoiser(torch.zeros_like(everything), tasks.gp.covariance(everything)[:, None])
    y_t = torch.randn(2, *everything.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for level in torch.tensor(LEVELS, dtype=torch.float64):
        torch.testing.assert_close(denoise(y_t, level), exact(y_t, level))


def test_the_oracle_is_the_conditional_expectation(tasks: Tasks) -> None:
    """E[y0 | y_t] leaves a residual that is uncorrelated with y_t, whatever the levels."""
    generator = torch.Generator().manual_seed(2)
    draws, points = 40_000, 5
    x = tasks.x[:1, :points].expand(draws, -1, -1)
    y0 = torch.as_tensor(tasks.gp.sample(tasks.x[:1, :points], draws, observation_noise=True, generator=generator))[
        :, 0
    ]
    level = level_of_ratio(torch.tensor([0.01, 0.2, 1.0, 5.0, 0.2], dtype=torch.float64)).expand(draws, -1)
    eps = torch.randn(y0.shape, generator=generator, dtype=torch.float64)
    y_t = alpha(level)[..., None] * y0 + sigma(level)[..., None] * eps
    residual = (y0 - GPOracle(tasks.gp, Prediction.Y0)(x, y_t, level))[..., 0]
    products = residual[:, :, None] * y_t[:, None, :, 0]
    z = products.mean(0) / (products.std(0) / draws**0.5)
    assert z.abs().max() < 4.5
