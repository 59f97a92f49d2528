"""Gaussian processes with unknown hyperparameters, against closed form and against plain Gaussian processes."""

import gpytorch
import pytest
import torch

from ndp.gp.exact import GP
from ndp.gp.mixture import GPMixture, log_normal_lengthscales
from ndp.gp.named import marginalised_gp, regression_gp
from ndp.models.registry import matern32
from ndp.priors.registry import make_prior

X = torch.linspace(-1, 1, 4, dtype=torch.float64)[None, :, None]
Y = torch.tensor([0.3, -0.5, 0.2, 1.0], dtype=torch.float64)[None, :, None]
X_NEW = torch.tensor([-0.9, -0.1, 0.5], dtype=torch.float64)[None, :, None]
Y_NEW = torch.tensor([0.1, -0.4, 0.3], dtype=torch.float64)[None, :, None]


def two_lengthscales() -> tuple[GP, GP]:
    gps = []
    for lengthscale in (0.2, 0.9):
        kernel = gpytorch.kernels.RBFKernel()
        kernel.lengthscale = lengthscale
        gps.append(GP(kernel, noise=0.1))
    return gps[0], gps[1]


def test_a_mixture_of_one_is_that_process() -> None:
    gp = regression_gp("se")
    one = GPMixture([gp], torch.ones(1))
    alone, mixed = gp.condition(X, Y), one.condition(X, Y)
    torch.testing.assert_close(mixed.log_prob(X_NEW, Y_NEW, noise=0.2), alone.log_prob(X_NEW, Y_NEW, noise=0.2))
    torch.testing.assert_close(mixed.moments(X_NEW), alone.moments(X_NEW))
    torch.testing.assert_close(mixed.quantiles(X_NEW, [0.05, 0.6]), alone.quantiles(X_NEW, [0.05, 0.6]))
    seeds = (torch.Generator().manual_seed(0), torch.Generator().manual_seed(0))
    torch.testing.assert_close(mixed.sample(X_NEW, 3, generator=seeds[0]), alone.sample(X_NEW, 3, generator=seeds[1]))


def test_densities_obey_bayes_rule_through_the_prior() -> None:
    """log p(new | context) = log p(new, context) - log p(context), each a mixture of its own."""
    mixture = GPMixture(two_lengthscales(), torch.tensor([0.3, 0.7]))
    nothing = mixture.condition(X[:, :0], Y[:, :0])
    torch.testing.assert_close(nothing.log_weights.exp(), torch.tensor([[0.3, 0.7]], dtype=torch.float64))
    joint = nothing.log_prob(torch.cat([X, X_NEW], 1), torch.cat([Y, Y_NEW], 1))
    torch.testing.assert_close(mixture.condition(X, Y).log_prob(X_NEW, Y_NEW), joint - nothing.log_prob(X, Y))


def test_the_density_of_each_value_is_that_of_it_alone() -> None:
    posterior = GPMixture(two_lengthscales(), torch.tensor([0.3, 0.7])).condition(X, Y)
    each = torch.as_tensor(posterior.log_prob_of_each(X_NEW, Y_NEW))
    alone = [posterior.log_prob(X_NEW[:, i : i + 1], Y_NEW[:, i : i + 1]) for i in range(3)]
    torch.testing.assert_close(each[..., 0], torch.stack([torch.as_tensor(one) for one in alone], dim=-1))


def test_evidence_is_the_density_of_the_context_and_masked_points_do_not_count() -> None:
    gp = regression_gp("se")
    mask = torch.tensor([[True, False, True, True]])
    real = mask[0]
    expected = gp.condition(X[:, :0], Y[:, :0]).log_prob(X[:, real], Y[:, real])
    torch.testing.assert_close(gp.condition(X, Y, mask=mask).log_evidence(), expected)


def test_draws_have_the_exact_moments_quantiles_and_share_of_each_process() -> None:
    mixture = GPMixture(two_lengthscales(), torch.tensor([0.5, 0.5]))
    posterior = mixture.condition(X.repeat(2, 1, 1), torch.cat([Y, -Y / 3]))
    x = X_NEW.repeat(2, 1, 1)
    draws = torch.as_tensor(posterior.sample(x, 40_000, generator=torch.Generator().manual_seed(0)))
    mean, std = (torch.as_tensor(part) for part in posterior.moments(x))
    assert ((draws.mean(0) - mean).abs() < 4.5 * std / 200).all()
    assert ((draws.std(0) / std - 1).abs() < 0.025).all()
    for probability, quantile in zip((0.1, 0.5, 0.95), posterior.quantiles(x, [0.1, 0.5, 0.95]), strict=True):
        assert ((draws < quantile).double().mean(0) - probability).abs().max() < 4.5 * 0.5 / 200


def test_the_grid_of_lengthscales_is_the_prior_that_models_are_trained_on() -> None:
    """The covariance of neighbouring values depends on the lengthscale: 20,000 functions of either agree on it."""
    exact, lengthscales = marginalised_gp()
    assert (lengthscales.log() * exact.weights).sum().exp().item() == pytest.approx(0.5)
    x = torch.tensor([0.0, 0.3], dtype=torch.float64)[None, :, None]
    drawn = [
        torch.as_tensor(prior.sample(x.expand(20_000, -1, -1), generator=torch.Generator().manual_seed(0)))
        for prior in (exact, make_prior("matern32-marginal", torch.device("cpu")))
    ]
    first, second = (values.prod(1)[:, 0] for values in drawn)
    assert abs(first.mean() - second.mean()) < 4.5 * (first.std() + second.std()) / 20_000**0.5


def test_weights_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="needs a weight"):
        GPMixture(two_lengthscales(), torch.ones(3))
    with pytest.raises(ValueError, match="negative"):
        GPMixture(two_lengthscales(), torch.tensor([1.0, -1.0]))


def test_the_truth_is_found_from_many_values() -> None:
    mixture, nodes = log_normal_lengthscales(matern32, median=0.5, log_std=0.7, noise=0.01)
    kernel = matern32()
    kernel.lengthscale = 0.3
    x = torch.linspace(-3, 3, 200, dtype=torch.float64)[None, :, None]
    y = GP(kernel, noise=0.01).sample(x, generator=torch.Generator().manual_seed(0))
    weights = mixture.condition(x, y).log_weights[0].exp()
    assert weights[(nodes > 0.2) & (nodes < 0.45)].sum() > 0.95
