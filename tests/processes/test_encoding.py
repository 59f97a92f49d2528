"""A posterior encodes its context once, however much is asked of it."""

from typing import Any

import numpy as np
import pytest
import torch

import ndp
import ndp.sklearn
from ndp.networks import adaptive_experts
from ndp.networks.bidimensional import BiDimensionalAttention
from ndp.sklearn import NDPRegressor

X = np.random.default_rng(0).normal(size=(200, 5))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
X_NEW = np.random.default_rng(1).normal(size=(600, 5))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often contexts were encoded, and the experts chosen and their covariances factorised."""
    counted = {"encode_context": 0, "experts": 0}

    def count(owner: Any, name: str, what: str) -> None:
        call = getattr(owner, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            counted[what] += 1
            return call(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    count(BiDimensionalAttention, "encode_context", "encode_context")
    count(adaptive_experts, "factorise_each", "experts")
    return counted


def test_everything_asked_of_a_posterior_shares_one_encoding(calls: dict[str, int]) -> None:
    posterior = ndp.load("universal").condition(X[:40], Y[:40])
    assert calls == {"encode_context": 1, "experts": 0}, "the experts are computed when they are needed"
    few = X_NEW[:4]
    posterior.sample(few, 2, steps=2)
    posterior.moments(few, steps=2, num_samples=4)
    posterior.quantiles(few, (0.1, 0.9), steps=2, num_samples=4)
    posterior.sample(few, 2, dependence="network", steps=2)
    assert calls == {"encode_context": 1, "experts": 1}
    posterior.sample(few, 2, joint=False, observation_noise=True, steps=2)
    posterior.moments(few, joint=False, steps=3)
    posterior.quantiles(few, (0.1, 0.9), joint=False, observation_noise=True, steps=3)
    posterior.log_prob(few, np.zeros(4), joint=False, observation_noise=True, steps=3)
    posterior.log_prob(few, np.zeros(4), steps=2)
    assert calls == {"encode_context": 1, "experts": 1}


def test_a_network_whose_context_does_not_depend_on_targets_encodes_it_once_without_experts_too(
    calls: dict[str, int],
) -> None:
    posterior = ndp.load("se").condition(X[:10, :1], Y[:10])
    expected = int(ndp.load("se").diffusion.encodes_context)
    posterior.sample(X_NEW[:4, :1], 2, steps=2)
    posterior.moments(X_NEW[:4, :1], steps=2, num_samples=4)
    posterior.quantiles(X_NEW[:4, :1], (0.5,), steps=2, num_samples=4)
    assert calls["encode_context"] == expected


def test_a_regressor_encodes_once_for_the_fit_and_all_that_is_predicted(calls: dict[str, int]) -> None:
    regressor = NDPRegressor(steps=2).fit(X, Y)
    regressor.predict(X_NEW)
    assert calls == {"encode_context": 1, "experts": 1}, "600 rows, which are more than are predicted at a time"
    regressor.predict(X_NEW[:4], return_std=True, return_quantiles=(0.1, 0.9), observation_noise=False)
    regressor.sample_y(X_NEW[:2], 2)
    regressor.log_prob(X_NEW[:2], Y[:2])
    assert calls == {"encode_context": 1, "experts": 1}


def test_a_prior_is_encoded_once_for_a_draw(calls: dict[str, int]) -> None:
    ndp.load("universal").sample(X_NEW[:3], 2, steps=2, generator=torch.Generator().manual_seed(0))
    assert calls["encode_context"] == 1
