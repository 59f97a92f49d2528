"""The copula of a mixture of Gaussians, against closed form and by simulation."""

import pytest
import torch
from torch import Tensor

from ndp.gp.copula import GaussianMixtureCopula
from ndp.models.metrics import distance_from_uniform

DRAWS = 20_000


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def mixture(parts: int, values: int = 4, tasks: int = 1) -> GaussianMixtureCopula:
    root = normal(tasks, parts, values, values, seed=0)
    covariance = root @ root.mT + 0.1 * torch.eye(values, dtype=torch.float64)
    weights = torch.log_softmax(normal(tasks, parts, seed=1), dim=1)
    return GaussianMixtureCopula(weights, 2 * normal(tasks, parts, values, seed=2), covariance)


def test_of_one_gaussian_it_is_the_gaussian_copula() -> None:
    copula = mixture(1)
    covariance = copula.covariance[0, 0]
    std = covariance.diagonal().sqrt()
    correlation = covariance / std[:, None] / std
    noise = normal(5, 1, 4, seed=3)
    expected = noise[:, 0] @ torch.linalg.cholesky(correlation).mT
    scores = copula.scores(noise)
    torch.testing.assert_close(scores[:, 0], expected, rtol=0, atol=1e-8)
    together = torch.distributions.MultivariateNormal(torch.zeros(4).double(), correlation).log_prob(expected)
    each = torch.distributions.Normal(0.0, 1.0).log_prob(expected).sum(-1)
    torch.testing.assert_close(copula.log_density(scores)[:, 0], together - each, rtol=0, atol=1e-6)


def test_every_score_is_a_standard_normal_number() -> None:
    scores = mixture(3).scores(normal(DRAWS, 1, 4, seed=4))[:, 0]
    for one in torch.special.ndtr(scores).T:
        assert distance_from_uniform(one, 0.0, 1.0) < 1.63 / DRAWS**0.5  # 1 % of uniform samples


def test_scores_are_dependent_as_the_values_of_the_mixture_are() -> None:
    """Of a mixture with equal means and variances, scores correlate as the mean correlation of its parts."""
    near, far = (torch.tensor([[1.0, r], [r, 1.0]], dtype=torch.float64) for r in (0.9, -0.3))
    weights = torch.tensor([[0.7, 0.3]], dtype=torch.float64).log()
    copula = GaussianMixtureCopula(weights, torch.zeros(1, 2, 2).double(), torch.stack([near, far])[None])
    scores = copula.scores(normal(DRAWS, 1, 2, seed=5))[:, 0]
    correlation = torch.corrcoef(scores.T)[0, 1].item()
    assert correlation == pytest.approx(0.7 * 0.9 - 0.3 * 0.3, abs=5 / DRAWS**0.5)


def test_a_density_is_one_on_average_over_independent_scores() -> None:
    """E[c(z)] = 1 over independent z; with two values the average has a variance that a test can bear."""
    density = mixture(3, values=2).log_density(normal(DRAWS, 1, 2, seed=6)).exp()
    assert density.mean().item() == pytest.approx(1, abs=5 * density.std().item() / DRAWS**0.5)


def test_fewer_values_have_the_density_and_the_scores_of_a_part() -> None:
    """Leaving values out is integrating over them: a mixture of fewer values is the same law of those."""
    copula = mixture(3)
    part = GaussianMixtureCopula(copula.log_weight, copula.mean[..., :2], copula.covariance[..., :2, :2])
    noise = normal(6, 1, 4, seed=7)
    torch.testing.assert_close(copula.scores(noise)[..., :2], part.scores(noise[..., :2]), rtol=0, atol=1e-8)


def test_a_task_does_not_depend_on_its_batch() -> None:
    copula, noise = mixture(3, tasks=2), normal(6, 2, 4, seed=8)
    scores = copula.scores(noise)
    for task in range(2):
        one = slice(task, task + 1)
        alone = GaussianMixtureCopula(copula.log_weight[one], copula.mean[one], copula.covariance[one])
        torch.testing.assert_close(alone.scores(noise[:, one]), scores[:, one], rtol=0, atol=1e-10)
        torch.testing.assert_close(
            alone.log_density(scores[:, one]), copula.log_density(scores)[:, one], rtol=0, atol=1e-8
        )
