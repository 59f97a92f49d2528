"""Metrics against closed form."""

import pytest
import torch

from ndp.experiments.closed_form import draw_tasks
from ndp.metrics import expected_log_prob_gap, fitted_gaussian_log_prob


def test_expected_gap_is_the_kl_divergence_of_torch() -> None:
    tasks = draw_tasks("se", num_tasks=3, seed=0, targets=6)
    mean, covariance = tasks.posterior.gaussian(tasks.x)
    other_mean, other_covariance = mean + 0.1, 1.3 * covariance
    true = torch.distributions.MultivariateNormal(mean[..., 0], covariance)
    other = torch.distributions.MultivariateNormal(other_mean[..., 0], other_covariance)
    expected = torch.distributions.kl_divergence(true, other) / 6
    torch.testing.assert_close(expected_log_prob_gap(other_mean, other_covariance, mean, covariance), expected)


@pytest.mark.parametrize(("draws", "loss", "slack"), [(128, 0.22, 0.03), (1024, 0.013, 0.004)])
def test_the_papers_estimator_loses_what_we_say_it_loses_on_the_exact_posterior(
    draws: int, loss: float, slack: float
) -> None:
    tasks = draw_tasks("se", num_tasks=96, seed=1)
    generator = torch.Generator().manual_seed(0)
    sampled = torch.as_tensor(tasks.posterior.sample(tasks.x, draws, generator=generator))
    exact = torch.as_tensor(tasks.posterior.log_prob(tasks.x, tasks.y))
    gap = (exact - fitted_gaussian_log_prob(sampled, tasks.y)) / tasks.x.shape[1]
    assert gap.mean().item() == pytest.approx(loss, abs=slack)


def test_too_few_draws_for_a_covariance_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 5 draws"):
        fitted_gaussian_log_prob(torch.zeros(5, 1, 5, 1), torch.zeros(1, 5, 1))
