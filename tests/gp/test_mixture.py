"""Gaussian processes with unknown hyperparameters, against closed form and against plain Gaussian processes."""

import gpytorch
import pytest
import torch

from ndp.gp.exact import GP
from ndp.gp.mixture import GPMixture, log_normal_lengthscales
from ndp.gp.named import marginalised_gp, matern32, regression_gp
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
    single, mixed = gp.condition(X, Y), one.condition(X, Y)
    for kind in ({}, {"observation_noise": False}, {"observation_noise": True}):
        expected = single.log_prob(X_NEW, Y_NEW, noise=0.2, **kind)
        torch.testing.assert_close(mixed.log_prob(X_NEW, Y_NEW, noise=0.2, **kind), expected)
        torch.testing.assert_close(mixed.moments(X_NEW, **kind), single.moments(X_NEW, **kind))
        expected = single.quantiles(X_NEW, [0.05, 0.6], **kind)
        torch.testing.assert_close(mixed.quantiles(X_NEW, [0.05, 0.6], **kind), expected)
        for joint in (True, False):
            drawn = (
                one.sample(X_NEW, joint=joint, generator=torch.Generator().manual_seed(0), **kind)
                for one in (mixed, single)
            )
            torch.testing.assert_close(*drawn)


def test_densities_obey_bayes_rule_through_the_prior() -> None:
    """log p(new | context) = log p(new, context) - log p(context), each a mixture of its own."""
    mixture = GPMixture(two_lengthscales(), torch.tensor([0.3, 0.7]))
    nothing = mixture.condition(X[:, :0], Y[:, :0])
    torch.testing.assert_close(nothing.log_weights.exp(), torch.tensor([[0.3, 0.7]], dtype=torch.float64))
    joint = nothing.log_prob(torch.cat([X, X_NEW], 1), torch.cat([Y, Y_NEW], 1), observation_noise=True)
    expected = joint - nothing.log_prob(X, Y, observation_noise=True)
    found = mixture.condition(X, Y).log_prob(X_NEW, Y_NEW, observation_noise=True)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("observation_noise", [False, True])
def test_independent_densities_are_those_of_single_values(observation_noise: bool) -> None:
    posterior = GPMixture(two_lengthscales(), torch.tensor([0.3, 0.7])).condition(X, Y)
    each = torch.as_tensor(posterior.log_prob(X_NEW, Y_NEW, joint=False, observation_noise=observation_noise))
    single = [
        posterior.log_prob(X_NEW[:, i : i + 1], Y_NEW[:, i : i + 1], observation_noise=observation_noise)
        for i in range(3)
    ]
    torch.testing.assert_close(each[..., 0], torch.stack([torch.as_tensor(one) for one in single], dim=-1))


def test_evidence_is_the_density_of_the_context_and_masked_points_do_not_count() -> None:
    gp = regression_gp("se")
    mask = torch.tensor([[True, False, True, True]])
    real = mask[0]
    expected = gp.condition(X[:, :0], Y[:, :0]).log_prob(X[:, real], Y[:, real], observation_noise=True)
    torch.testing.assert_close(gp.condition(X, Y, mask=mask).log_evidence(), expected)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("observation_noise", [False, True])
def test_draws_have_the_exact_moments_quantiles_and_share_of_each_process(joint: bool, observation_noise: bool) -> None:
    mixture = GPMixture(two_lengthscales(), torch.tensor([0.5, 0.5]))
    posterior = mixture.condition(X.repeat(2, 1, 1), torch.cat([Y, -Y / 3]))
    x = X_NEW.repeat(2, 1, 1)
    generator = torch.Generator().manual_seed(0)
    drawn = posterior.sample(x, 40_000, joint=joint, observation_noise=observation_noise, generator=generator)
    draws = torch.as_tensor(drawn)
    asked = (0.1, 0.5, 0.95)
    moments, quantiles = posterior.summary(x, asked, joint=joint, observation_noise=observation_noise)
    mean, std = (torch.as_tensor(part) for part in moments)
    assert ((draws.mean(0) - mean).abs() < 4.5 * std / 200).all()
    assert ((draws.std(0) / std - 1).abs() < 0.025).all()
    for probability, quantile in zip(asked, quantiles, strict=True):
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
    y = GP(kernel, noise=0.01).sample(x, observation_noise=True, generator=torch.Generator().manual_seed(0))
    weights = mixture.condition(x, y).log_weights[0].exp()
    assert weights[(nodes > 0.2) & (nodes < 0.45)].sum() > 0.95
