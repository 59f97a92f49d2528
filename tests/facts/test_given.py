"""Posteriors given facts: against closed forms and exact truncated normals, and what every process must keep."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

import ndp
from benchmarks.facts_exact import GAUSSIAN, intervals, models, moments, monotone
from benchmarks.facts_references import elliptical_slice, truncated
from ndp import facts
from ndp.facts.posterior import LittleEvidenceWarning, weighted_quantiles

X = np.array([[-0.8], [0.0], [0.7]])
Y = np.array([-0.5, 0.2, 0.4])
AT = np.array([[-0.6], [-0.2], [0.3], [0.9]])
EXACT, ORACLE = models()


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("model", [EXACT, ORACLE], ids=["gp", "oracle"])
@pytest.mark.parametrize("problem", [GAUSSIAN, intervals(1), intervals(5), monotone(5), monotone(8)], ids=str)
def test_moments_and_evidence_are_exact(model: Any, problem: Any) -> None:
    """Five standard errors, and 2 % of the spread for what the solver loses."""
    found = moments(model, problem, 1024, 50_000)
    assert found.effective > 700
    assert found.in_stds <= 5 * math.sqrt(1 / found.effective) + 0.02
    assert found.evidence == pytest.approx(found.exact_evidence, abs=0.6)


def test_a_gaussian_fact_about_a_gp_is_told_in_closed_form() -> None:
    gp = ndp.load("gp-matern52")
    told = gp.condition(X, Y).given(facts.Sum(AT[:1], 0.7, noise=0.1), num_particles=4096)
    again = gp.condition(np.concatenate([X, AT[:1]]), np.append(Y, 0.7), noise=np.array([0, 0, 0, 0.1]))
    assert told.effective_sample_size() == 4096
    assert told.log_prob(AT[1:], Y, observation_noise=True) == pytest.approx(
        float(gp.condition(X, Y).given(facts.Sum(AT[:1], 0.7, noise=0.1)).log_prob(AT[1:], Y, observation_noise=True))
    )
    plain = ndp.GP(gp.kernel, noise=0.0)  # whose observation at the place is the function's
    exact = plain.condition(np.concatenate([X, AT[:1]]), np.append(Y, 0.7), noise=np.array([0.05] * 3 + [0.1]))
    assert again is not exact
    np.testing.assert_allclose(told.mean(AT), exact.mean(AT), atol=5 * float(np.max(exact.std(AT))) / 64)
    joint = told.log_prob(AT[1:], Y, observation_noise=True)
    assert float(joint) == pytest.approx(float(exact.log_prob(AT[1:], Y, noise=0.05)), abs=1e-3)


@pytest.mark.parametrize("fact", [facts.Bounds(0, 1), facts.Monotone("decreasing")], ids=str)
def test_shapes_hold_at_all_of_many_places(fact: facts.Fact) -> None:
    at = np.linspace(-1, 1, 30)[:, None]
    told = ndp.load("gp-matern52").condition(X[:1], np.array([0.5])).given(fact, num_particles=32)
    draws = told.sample(at, 4, generator=seeded(0))
    if isinstance(fact, facts.Bounds):
        assert draws.min() >= 0
        assert draws.max() <= 1
    else:
        sign = 1 if fact.direction == "increasing" else -1
        assert (sign * np.diff(draws)).min() >= 0
    places = at[np.linspace(0, 29, 20).round().astype(int)]
    few = told.moments(places).mean
    assert np.abs(told.mean(at)[np.linspace(0, 29, 20).round().astype(int)] - few).max() < 0.2


def test_the_evidence_of_a_bound_is_a_probability() -> None:
    gp = ndp.load("gp-se")
    mean, covariance = gp.condition(X, Y).gaussian(torch.from_numpy(AT)[None], observation_noise=False)
    exact = multivariate_normal(-mean[0, :, 0].numpy(), covariance[0].numpy()).logcdf(np.zeros(4))
    told = gp.condition(X, Y).given(facts.Bounds(0, x=AT), num_particles=4096)
    assert told.log_evidence() == pytest.approx(float(exact), abs=0.15)


def test_the_evidence_has_no_bias() -> None:
    told = EXACT.told(monotone(4).facts, 128)
    mean, covariance = EXACT.gaussian(monotone(4).x)
    problem = monotone(4)
    exact = truncated(mean, covariance, problem.weights, problem.low, problem.high, 50_000)
    ratio = np.exp([told.log_evidence(generator=seeded(i)) - exact.log_probability for i in range(40)])
    assert abs(ratio.mean() - 1) <= 4 * ratio.std(ddof=1) / math.sqrt(40)


def test_classes_agree_with_elliptical_slice_sampling() -> None:
    x = torch.linspace(-1, 1, 8, dtype=torch.float64)[:, None]
    classes = torch.tensor([0.0, 0, 1, 0, 1, 1, 1, 0], dtype=torch.float64)
    mean, covariance = EXACT.gaussian(x)

    def likelihood(values: torch.Tensor) -> torch.Tensor:
        return torch.distributions.Bernoulli(logits=values).log_prob(classes).sum(-1)

    draws = elliptical_slice(mean, covariance + 1e-8 * torch.eye(8), likelihood, chains=2000, steps=4, burn_in=60)
    told = EXACT.told((facts.Classes(x, classes),), 2048)
    np.testing.assert_allclose(told.mean(x), draws.mean(0), atol=0.08)
    np.testing.assert_allclose(told.std(x), draws.std(0), rtol=0.12)


def processes() -> dict[str, Any]:
    mixture = ndp.GPMixture([ndp.load("gp-se"), ndp.load("gp-matern52")], torch.tensor([0.3, 0.7]))
    return {
        "gp": ndp.load("gp-matern52"),
        "mixture": mixture,
        "oracle": ndp.load("oracle-matern52"),
        "experts": ndp.load("universal"),
        "network": ndp.load("se"),
    }


PROCESSES = processes()
every_process = pytest.mark.parametrize("process", PROCESSES.values(), ids=list(PROCESSES))


@every_process
def test_hard_facts_hold_exactly_in_every_draw(process: Any) -> None:
    posterior = process.condition(X, Y)
    told = posterior.given(facts.Bounds(-0.3, 0.9, x=AT), facts.Monotone(x=AT[:3]), num_particles=64)
    draws = told.sample(AT, 20, generator=seeded(0))
    assert isinstance(draws, np.ndarray)
    assert draws.shape == (20, 4)
    assert draws.min() >= -0.3
    assert draws.max() <= 0.9
    assert np.diff(draws[:, :3], axis=1).min() >= 0
    np.testing.assert_array_equal(draws, told.sample(AT, 20, generator=seeded(0)))
    assert told.sample(torch.from_numpy(AT), 3, joint=False, generator=seeded(1)).shape == (3, 4)
    (mean, std), (low, high) = told.summary(AT, [0.1, 0.9])
    assert ((low >= -0.3) & (low <= mean) & (mean <= high) & (high <= 0.9) & (std > 0)).all()
    np.testing.assert_array_equal(mean, told.mean(AT))
    assert told.log_evidence() < 0
    assert 16 < told.effective_sample_size() <= 64


@every_process
def test_a_model_is_told_facts_without_observations(process: Any) -> None:
    told = process.given(facts.Bounds(0, x=AT), num_particles=32)
    assert told.sample(AT, generator=seeded(0)).min() >= 0
    with_units = told.given(facts.Bounds(high=2.0, x=AT))
    assert with_units.sample(AT, generator=seeded(0)).max() <= 2


def test_units_are_the_users() -> None:
    """A table and the same table in other units, mirrored."""
    universal = PROCESSES["experts"]
    at = np.linspace(-1, 1, 5)[:, None]
    here = universal.condition(X, Y).given(facts.Bounds(0, 0.5, x=at), num_particles=256)
    there = universal.condition(3 * X + 7, 100 - 10 * Y).given(facts.Bounds(95, 100, x=3 * at + 7), num_particles=256)
    np.testing.assert_allclose(there.mean(3 * at + 7), 100 - 10 * here.mean(at), atol=0.5)
    assert there.log_evidence() == pytest.approx(here.log_evidence(), abs=0.4)


def test_new_observations_are_wider_than_the_function() -> None:
    for process in (PROCESSES["gp"], PROCESSES["mixture"], PROCESSES["experts"]):
        told = process.condition(X, Y).given(facts.Bounds(-1, 1, x=AT))
        assert (told.std(AT, observation_noise=True) > told.std(AT) - 1e-3).mean() > 0.7
        each = told.log_prob(AT, np.full(4, 0.2), joint=False, observation_noise=True)
        assert each.shape == (4,)
        assert np.isfinite(each).all()


def test_facts_without_any_say_what_the_posterior_says() -> None:
    posterior = PROCESSES["experts"].condition(X, Y)
    told = posterior.given(num_particles=2048)
    assert told.log_evidence() == 0
    np.testing.assert_allclose(told.mean(AT), posterior.mean(AT), atol=0.06)
    each = told.log_prob(AT, np.full(4, 0.2), joint=False, observation_noise=True)
    np.testing.assert_allclose(
        each, posterior.log_prob(AT, np.full(4, 0.2), joint=False, observation_noise=True), atol=0.35
    )


def test_what_cannot_be_told_says_so() -> None:
    gp = ndp.load("gp-se")
    posterior = gp.condition(X, Y)
    with pytest.raises(ValueError, match="at least 16"):
        posterior.given(facts.Bounds(0), num_particles=4)
    with pytest.raises(ValueError, match="contradict each other"):
        posterior.given(facts.Bounds(0, 1, x=AT), facts.Bounds(2, 3, x=AT))
    with pytest.raises(ValueError, match="about one function"):
        gp.condition(np.stack([X, X]), np.stack([Y, Y])).given(facts.Bounds(0))
    with pytest.raises(ValueError, match="2 input dimension"):
        posterior.given(facts.Bounds(0, x=np.zeros((1, 2))))
    with pytest.raises(ValueError, match="no particle of 64"):
        posterior.given(facts.Likelihood(AT, lambda f: torch.full((len(f),), -math.inf)), num_particles=64).mean(AT)
    with pytest.raises(ValueError, match="no density given facts"):
        ndp.load("oracle-se").condition(X, Y).given(facts.Bounds(0, x=AT)).log_prob(AT, np.ones(4))


def test_few_effective_particles_are_warned_about() -> None:
    steps = ndp.load("step").condition(np.array([[-0.9], [0.9]]), np.array([0.0, 1.0]))
    at = np.linspace(-0.6, 0.6, 5)[:, None]
    told = steps.given(facts.Sum(at, 2.0, noise=0.002))  # only whole numbers are likely, and no line tells them
    with pytest.warns(LittleEvidenceWarning, match="Raise num_particles"):
        told.mean(at)


def test_quantiles_of_weighted_draws() -> None:
    values = torch.tensor([[3.0], [1.0], [2.0]], dtype=torch.float64)
    weight = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    asked = torch.tensor([0.125, 0.375, 0.75, 1.0], dtype=torch.float64)
    assert weighted_quantiles(values, weight, asked)[:, 0].tolist() == [1, 2, 3, 3]
