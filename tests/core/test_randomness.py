"""Explicit randomness and moment-matched noise."""

import pytest
import torch

from benchmarks.closed_form import draw_tasks
from ndp.core.randomness import fresh_generator, match_moments, normal, read_generator
from ndp.models.metrics import fitted_gaussian_log_prob


def test_matched_noise_has_exactly_zero_mean_and_unit_covariance() -> None:
    noise = match_moments(normal((40, 3, 10, 2), torch.Generator().manual_seed(0), like=torch.zeros(())))
    flat = noise.flatten(2).transpose(0, 1).double()
    torch.testing.assert_close(flat.mean(1), torch.zeros(3, 20, dtype=torch.float64), rtol=0, atol=1e-6)
    covariance = flat.mT @ flat / 40
    torch.testing.assert_close(covariance, torch.eye(20, dtype=torch.float64).expand(3, -1, -1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("draws", [7, 8])
def test_with_few_draws_matched_noise_is_symmetric_and_of_unit_variance(draws: int) -> None:
    noise = match_moments(normal((draws, 2, 10, 1), torch.Generator().manual_seed(0), like=torch.zeros(())))
    torch.testing.assert_close(noise.mean(0), torch.zeros(2, 10, 1), rtol=0, atol=1e-6)
    torch.testing.assert_close(noise.square().mean(0), torch.ones(2, 10, 1))


@pytest.mark.parametrize("wrong", [0, 3, "seed", True])
@pytest.mark.usefixtures("as_installed")
def test_a_generator_is_a_generator_and_none_is_a_fresh_one(wrong: object) -> None:
    with pytest.raises(ValueError, match=f"generator must be a torch.Generator, .* or None, not {wrong!r}"):
        read_generator(wrong)  # type: ignore[arg-type]
    assert read_generator(None).initial_seed() != read_generator(None).initial_seed()
    own = fresh_generator()
    assert read_generator(own) is own


def test_draws_that_no_memory_holds_are_refused_before_they_are_made() -> None:
    with pytest.raises(
        ValueError, match=r"draws of shape \[1000000000000, 3\] hold 3e\+12 numbers, and 1e\+08 are the most"
    ):
        normal((10**12, 3), None, like=torch.zeros(()))


def test_one_draw_stays_as_it_is() -> None:
    noise = normal((1, 1, 3, 1), torch.Generator().manual_seed(0), like=torch.zeros(()))
    torch.testing.assert_close(match_moments(noise), noise)


def test_matched_noise_takes_the_estimators_loss_away_on_a_gaussian_posterior() -> None:
    """The 0.22 nats that a Gaussian fitted to 128 plain draws loses fall below 0.01."""
    tasks = draw_tasks("se", num_tasks=64, seed=2)
    mean, covariance = tasks.posterior.gaussian(tasks.x, observation_noise=True)
    noise = match_moments(normal((128, *mean.shape), torch.Generator().manual_seed(0), like=mean))
    draws = mean + torch.linalg.cholesky(covariance) @ noise
    exact = torch.as_tensor(tasks.posterior.log_prob(tasks.x, tasks.y, observation_noise=True))
    gap = (exact - fitted_gaussian_log_prob(draws, tasks.y)) / tasks.x.shape[1]
    assert gap.abs().max() < 0.01


def test_a_cpu_generator_gives_the_same_noise_in_every_precision() -> None:
    double, single = (
        normal((5,), torch.Generator().manual_seed(3), like=torch.zeros((), dtype=dtype))
        for dtype in (torch.float64, torch.float32)
    )
    torch.testing.assert_close(double.float(), single)
