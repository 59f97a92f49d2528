"""Joint values of `universal`, whose dependence is that of its GP experts."""

import numpy as np
import pytest
import torch

import ndp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + RNG.normal(0, 0.2, 60)
X_NEW = RNG.normal(size=(12, 2))


@pytest.fixture(scope="module")
def posterior() -> ndp.NDPPosterior:
    return ndp.load("universal").condition(X, Y)


@pytest.mark.parametrize("observation_noise", [True, False])
def test_draws_have_the_moments_of_single_values(posterior: ndp.NDPPosterior, observation_noise: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    draws = posterior.sample(X_NEW, 4000, observation_noise=observation_noise, generator=generator)
    mean, std = posterior.moments(X_NEW, joint=False, observation_noise=observation_noise)
    assert abs(np.mean(draws.std(0) / std) - 1) < 0.03
    assert np.abs((draws.mean(0) - mean) / std).max() < 0.12


def test_moments_quantiles_and_means_of_joint_values_are_those_of_single_ones(posterior: ndp.NDPPosterior) -> None:
    for joint, alone in zip(posterior.moments(X_NEW), posterior.moments(X_NEW, joint=False), strict=True):
        np.testing.assert_array_equal(joint, alone)


def test_neighbours_have_like_values_and_strangers_do_not(posterior: ndp.NDPPosterior) -> None:
    at = np.array([[0.5, 0.5], [0.5, 0.501], [-2.5, 2.5]])
    draws = posterior.sample(at, 2000, observation_noise=False, generator=torch.Generator().manual_seed(0))
    correlation = np.corrcoef(draws.T)
    assert correlation[0, 1] > 0.98
    assert abs(correlation[0, 2]) < 0.3


def test_values_left_out_change_nothing(posterior: ndp.NDPPosterior) -> None:
    """What is asked for beside some values does not matter: the values are those of one law of functions."""
    noise = np.random.default_rng(1).normal(size=(4, 12))
    whole = posterior.sample(X_NEW, 4, base_noise=noise)
    part = posterior.sample(X_NEW[:5], 4, base_noise=noise[:, :5])
    np.testing.assert_allclose(part, whole[:, :5], rtol=0, atol=1e-5)


def test_the_joint_density_of_one_value_is_its_own(posterior: ndp.NDPPosterior) -> None:
    alone = posterior.log_prob(X_NEW[:1], Y[:1], joint=False, observation_noise=True)
    joint = posterior.log_prob(X_NEW[:1], Y[:1], observation_noise=True)
    assert float(joint) == pytest.approx(float(alone[0]), abs=1e-6)


def test_joint_densities_are_those_of_joint_draws(posterior: ndp.NDPPosterior) -> None:
    """A draw is likelier than the same values dealt out anew to other draws, by the information that they share."""
    at = X_NEW[:1] + np.linspace(0, 0.3, 3)[:, None]
    draws = posterior.sample(at, 16, observation_noise=False, generator=torch.Generator().manual_seed(0))
    dealt = np.stack([np.roll(column, shift) for shift, column in enumerate(draws.T)], axis=1)
    model = ndp.load("universal")
    many = model.condition(np.tile(X, (16, 1, 1)), np.tile(Y, (16, 1)))
    place = np.tile(at, (16, 1, 1))
    together, apart = (
        np.asarray(many.log_prob(place, values[..., None], observation_noise=False)).mean() for values in (draws, dealt)
    )
    assert together > apart + 1


def test_the_network_can_be_asked_for_and_has_gradients(posterior: ndp.NDPPosterior) -> None:
    at = torch.tensor(X_NEW[:3], dtype=torch.float64, requires_grad=True)
    torch.as_tensor(
        ndp.load("universal").condition(torch.tensor(X), torch.tensor(Y)).sample(at, 2, steps=2)
    ).sum().backward()
    assert at.grad is not None
    by_network = posterior.sample(
        X_NEW[:3], 2, dependence="network", steps=3, generator=torch.Generator().manual_seed(0)
    )
    by_experts = posterior.sample(X_NEW[:3], 2, steps=3, generator=torch.Generator().manual_seed(0))
    assert np.abs(by_network - by_experts).max() > 1e-3


def test_what_cannot_be_had_is_told(posterior: ndp.NDPPosterior) -> None:
    with pytest.raises(ValueError, match="this model has no GP experts"):
        ndp.load("se").condition(X[:, :1], Y).sample(X_NEW[:, :1], 2, dependence="experts")
    with pytest.raises(ValueError, match="have no gradients"):
        posterior.sample(torch.tensor(X_NEW, requires_grad=True), 2, dependence="experts")
    with pytest.raises(ValueError, match="noise and probes are for"):
        posterior.log_prob(X_NEW, Y[:12], dependence="experts", probes=2)
    with pytest.raises(ValueError, match="'both' is not a valid Dependence"):
        posterior.sample(X_NEW, 2, dependence="both")
