"""Metrics against closed form."""

import math

import pytest
import scipy.stats
import torch

from benchmarks.closed_form import draw_tasks
from ndp.models.metrics import (
    calibration_curve,
    crps,
    distance_from_uniform,
    energy_score,
    expected_log_prob_gap,
    fitted_gaussian_log_prob,
    interval_coverage,
    noise_of_means,
    rank_histogram,
    ranks,
    spread_of_means,
    total_variation,
    uniformity_p_value,
    wasserstein,
)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_expected_gap_is_the_kl_divergence_of_torch() -> None:
    tasks = draw_tasks("se", num_tasks=3, seed=0, targets=6)
    mean, covariance = tasks.posterior.gaussian(tasks.x, observation_noise=True)
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
    sampled = torch.as_tensor(tasks.posterior.sample(tasks.x, draws, observation_noise=True, generator=generator))
    exact = torch.as_tensor(tasks.posterior.log_prob(tasks.x, tasks.y, observation_noise=True))
    gap = (exact - fitted_gaussian_log_prob(sampled, tasks.y)) / tasks.x.shape[1]
    assert gap.mean().item() == pytest.approx(loss, abs=slack)


def test_too_few_draws_for_a_covariance_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 5 draws"):
        fitted_gaussian_log_prob(torch.zeros(5, 1, 5, 1), torch.zeros(1, 5, 1))


def test_crps_of_a_normal_law_is_its_closed_form_whatever_the_number_of_draws() -> None:
    y = torch.tensor([-1.0, 0.0, 0.4, 2.0], dtype=torch.float64)
    unit = torch.distributions.Normal(torch.zeros_like(y), torch.ones_like(y))
    closed = y * (2 * unit.cdf(y) - 1) + 2 * unit.log_prob(y).exp() - 1 / math.sqrt(math.pi)
    for members, repeats in ((2, 100_000), (10, 20_000)):
        estimates = crps(normal(members, repeats, 4), y.expand(repeats, 4))
        error = estimates.std(0) / repeats**0.5
        assert ((estimates.mean(0) - closed).abs() < 4.5 * error).all()


def test_energy_score_is_crps_in_one_dimension_and_its_definition_in_more() -> None:
    draws, y = normal(7, 3, 1, 1), normal(3, 1, 1, seed=1)
    torch.testing.assert_close(energy_score(draws, y), crps(draws, y)[:, 0, 0])
    draws, y = normal(5, 2, 3, 2), normal(2, 3, 2, seed=1)
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j]
    to_truth = torch.stack([(draw - y).flatten(1).norm(dim=1) for draw in draws]).mean(0)
    between = torch.stack([(draws[i] - draws[j]).flatten(1).norm(dim=1) for i, j in pairs]).mean(0)
    torch.testing.assert_close(energy_score(draws, y), to_truth - between / 2)


def test_a_spread_of_one_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two"):
        crps(normal(1, 3), normal(3))


def test_draws_of_the_true_law_cover_and_are_calibrated_and_narrow_ones_do_not_and_are_not() -> None:
    tasks, levels = 4000, (0.5, 0.9)
    y = normal(tasks, seed=1)
    noise = 4.5 * 0.5 / tasks**0.5
    for scale in (1.0, 0.5):
        draws = scale * normal(400, tasks)
        exact = scipy.stats.norm
        covered = [exact.cdf(scale * exact.ppf((1 + level) / 2)) * 2 - 1 for level in levels]
        expected = torch.tensor(covered, dtype=torch.float64)
        torch.testing.assert_close(interval_coverage(draws, y, levels).mean(1), expected, rtol=0, atol=noise)
        below = torch.tensor([exact.cdf(scale * exact.ppf(p)) for p in (0.1, 0.5, 0.8)], dtype=torch.float64)
        torch.testing.assert_close(calibration_curve(draws, y, (0.1, 0.5, 0.8)), below, rtol=0, atol=noise)


def test_ranks_are_uniform_for_the_true_law_only() -> None:
    y = normal(4000, seed=1)
    for scale, lowest, highest in ((1.0, 0.01, 1.0), (0.8, 0.0, 1e-6)):
        rank = ranks(scale * normal(63, 4000), y)
        assert rank.min() == 0
        assert rank.max() == 63
        assert lowest <= uniformity_p_value(rank_histogram(rank, 63, 16)) <= highest
    assert rank_histogram(torch.tensor([0, 1, 2, 3, 3]), 3, 2).tolist() == [2, 3]
    with pytest.raises(ValueError, match="equal bins"):
        rank_histogram(torch.tensor([0]), 63, 10)


def test_uniformity_is_the_chi_square_test() -> None:
    """The statistic of these counts is 8.54; of four degrees of freedom, P(larger) = exp(-s / 2) (1 + s / 2)."""
    counts = torch.tensor([12, 9, 20, 7, 15])
    half = ((counts - 12.6) ** 2 / 12.6).sum().item() / 2
    assert uniformity_p_value(counts) == pytest.approx(math.exp(-half) * (1 + half), rel=1e-6)


def test_wasserstein_is_the_mean_distance_of_sorted_draws_for_every_value() -> None:
    draws, others = normal(40, 3, 2), 1.5 * normal(40, 3, 2, seed=1) + 0.3
    expected = (draws.sort(0).values - others.sort(0).values).abs().mean(0)
    torch.testing.assert_close(wasserstein(draws, others), expected)
    constant = torch.full((7, 3, 2), 0.7, dtype=torch.float64)
    torch.testing.assert_close(wasserstein(draws, constant), (draws - 0.7).abs().mean(0))


def test_total_variation_of_equal_disjoint_and_shifted_histograms() -> None:
    counts = torch.tensor([[2, 2, 0], [1, 0, 0], [1, 1, 2]])
    others = torch.tensor([[4, 4, 0], [0, 3, 3], [1, 2, 1]])
    assert total_variation(counts, others).tolist() == [0.0, 1.0, 0.25]


def test_the_distance_from_a_uniform_distribution_is_the_largest_gap_of_shares() -> None:
    values = torch.tensor([0.0, 0.3, 0.9, 2.5], dtype=torch.float64)
    assert distance_from_uniform(values, -1.0, 2.0) == pytest.approx(1 / 3)  # no value is below 0
    assert distance_from_uniform(values, 0.0, 4.0) == pytest.approx(3 / 4 - 0.9 / 4)  # three of four are at most 0.9


def test_the_spread_of_means_sees_what_moves_with_the_configuration_only() -> None:
    moves = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
    within = torch.tensor([-5.0, 5.0], dtype=torch.float64)
    assert spread_of_means(moves[:, None] + within).item() == pytest.approx(1.0)
    assert noise_of_means(moves[:, None] + within).item() == pytest.approx(5.0), "two repeats of variance 50"


def test_the_noise_of_means_is_their_spread_where_nothing_moves() -> None:
    still = normal(2000, 5, 20)
    assert noise_of_means(still).square().mean().sqrt().item() == pytest.approx(20**-0.5, rel=0.01)
    assert spread_of_means(still).square().mean().sqrt().item() == pytest.approx(20**-0.5, rel=0.04)
