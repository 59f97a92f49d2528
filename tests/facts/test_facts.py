"""What each fact says of values: against formulas, and in a sentence where it is wrong."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import ndp
from ndp import facts
from ndp.facts.base import Gaussian, Hard, Smooth, Surroundings, distinct
from ndp.facts.joined import JoinedFacts

X = torch.tensor([[0.0], [0.5], [1.0]], dtype=torch.float64)
NOTHING = X[:0]
VALUES = torch.tensor([[0.3, -0.2, 0.8], [1.0, 1.5, 2.5]], dtype=torch.float64)


def joined(*some: facts.Fact, observed: Tensor = NOTHING, asked: Tensor = NOTHING) -> JoinedFacts:
    return JoinedFacts.of(some, Surroundings(observed, asked))


def log_likelihood(fact: facts.Fact) -> np.ndarray:
    return joined(fact).log_smooth(VALUES).numpy()


def holds(fact: facts.Fact) -> list[bool]:
    return (joined(fact).margins(VALUES) >= 0).all(1).tolist()


def test_likelihoods_are_those_of_the_distributions() -> None:
    values, counts = VALUES.numpy(), np.array([1.0, 0.0, 3.0])
    found = log_likelihood(facts.Counts(X, counts, exposure=2.0))
    np.testing.assert_allclose(found, stats.poisson.logpmf(counts, 2 * np.exp(values)).sum(1), rtol=1e-12)
    rate = log_likelihood(facts.Counts(X, counts, link="identity"))
    assert rate[0] == -math.inf
    np.testing.assert_allclose(rate[1], stats.poisson.logpmf(counts, values[1]).sum(), rtol=1e-12)
    classes = np.array([1.0, 0.0, 1.0])
    np.testing.assert_allclose(
        log_likelihood(facts.Classes(X, classes)),
        stats.bernoulli.logpmf(classes, 1 / (1 + np.exp(-values))).sum(1),
        rtol=1e-12,
    )
    noisy = facts.Interval(X, -0.1, 0.5, noise=0.2)
    inside = stats.norm.cdf((0.5 - values) / 0.2) - stats.norm.cdf((-0.1 - values) / 0.2)
    np.testing.assert_allclose(log_likelihood(noisy), np.log(inside).sum(1), rtol=1e-9)
    censored = stats.norm.logsf((0.4 - values) / 0.3).sum(1)
    np.testing.assert_allclose(log_likelihood(facts.Censored(X, 0.4, noise=0.3)), censored, rtol=1e-12)
    quantile = facts.Quantile(X, 0.2, probability=0.3, scale=0.5)
    asymmetric = stats.laplace_asymmetric(kappa=math.sqrt(0.3 / 0.7), loc=values, scale=0.5 / math.sqrt(0.3 * 0.7))
    np.testing.assert_allclose(log_likelihood(quantile), asymmetric.logpdf(0.2).sum(1), rtol=1e-9)
    preference = facts.Preference(X[1:], X[:2], noise=0.5)
    better = stats.norm.logcdf(np.diff(values, axis=1) / (0.5 * math.sqrt(2))).sum(1)
    np.testing.assert_allclose(log_likelihood(preference), better, rtol=1e-12)


def test_ordinal_classes_have_probabilities_that_sum_to_one() -> None:
    each = [facts.Classes(X, np.full(3, kind), cutpoints=(-1.0, 0.5, 2.0)) for kind in range(4)]
    one = [JoinedFacts.of([fact], Surroundings(NOTHING, NOTHING)).likelihoods[0][1] for fact in each]
    total = sum(likelihood(VALUES[:, :1].expand(-1, 3)).div(3).exp() for likelihood in one)
    torch.testing.assert_close(total, torch.ones(2, dtype=torch.float64))


def test_linear_facts_weigh_values() -> None:
    values = VALUES.numpy()
    total = log_likelihood(facts.Sum(X, 1.0, noise=0.1, weights=np.array([1.0, 2.0, 3.0])))
    np.testing.assert_allclose(total, stats.norm.logpdf(1.0, values @ [1, 2, 3], 0.1), rtol=1e-12)
    np.testing.assert_allclose(
        log_likelihood(facts.Mean(X, 1.0, noise=0.1)), stats.norm.logpdf(1.0, values.mean(1), 0.1), rtol=1e-12
    )
    slope = facts.Derivative(np.array([[0.5]]), 2.0, noise=0.3, step=1.0)
    np.testing.assert_allclose(
        joined(slope).log_smooth(VALUES[:, [0, 2]]).numpy(),
        stats.norm.logpdf(2.0, values[:, 2] - values[:, 0], 0.3),
        rtol=1e-12,
    )
    area = joined(facts.Integral(-1.0, 2.0, 0.0, noise=1.0))
    assert (area.weights @ (area.places[:, 0] ** 4)).item() == pytest.approx(33 / 5)
    difference = facts.Difference(X[1:], X[:2], np.array([0.1, 0.2]), noise=0.5)
    off = np.diff(values, axis=1) - [0.1, 0.2]
    np.testing.assert_allclose(log_likelihood(difference), stats.norm.logpdf(off / 0.5).sum(1) - 2 * np.log(0.5))


def test_shapes_hold_or_do_not() -> None:
    assert holds(facts.Bounds(-0.5, 1.0, x=X)) == [True, False]
    assert holds(facts.Monotone(x=X)) == [False, True]
    assert holds(facts.Monotone("decreasing", x=X)) == [False, False]
    assert holds(facts.Convex(x=X)) == [True, True]
    assert holds(facts.Convex(concave=True, x=X)) == [False, False]
    assert holds(facts.Preference(X[1:], X[:2])) == [False, True]
    assert holds(facts.Censored(X, 0.9, side="below")) == [True, False]


def test_monotone_compares_places_on_one_line_and_adds_partners() -> None:
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.3, 2.0]], dtype=torch.float64)
    said = facts.Monotone(dimension=0, x=x).statements(Surroundings(x, x[:0]))[0]
    assert isinstance(said, Hard)
    assert said.places.shape == (4, 2)
    torch.testing.assert_close(said.places[3], torch.tensor([0.31, 2.0], dtype=torch.float64))
    assert said.weights.tolist() == [[-1, 1, 0, 0], [0, 0, -1, 1]]


def test_default_places_are_those_asked_for_and_a_grid() -> None:
    observed = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
    few = Surroundings(observed, X).default_places()
    assert len(few) == 22  # 0 and 1 are shared by none but 0
    many = Surroundings(observed, torch.linspace(-1, 1, 200, dtype=torch.float64)[:, None]).default_places()
    assert (len(many), many.min().item(), many.max().item()) == (20, -1.0, 1.0)


def test_distinct_places_keep_their_order() -> None:
    places, index = distinct(torch.tensor([[2.0], [1.0], [2.0], [0.0]]))
    assert places[:, 0].tolist() == [2, 1, 0]
    assert index.tolist() == [0, 1, 0, 2]


def test_facts_become_three_kinds_of_statements() -> None:
    around = Surroundings(X, NOTHING)
    kinds = [type(fact.statements(around)[0]) for fact in (facts.Bounds(0), facts.Mean(X, 0, 1), facts.Counts(X, 0))]
    assert kinds == [Hard, Gaussian, Smooth]


NAN = facts.Likelihood(X, lambda values: values.sum(1) * math.nan)
WIDE = np.zeros((2, 3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: facts.Bounds(1, 0), "low < high"),
        (lambda: facts.Bounds(), "must have a bound"),
        (lambda: facts.Monotone("up"), "increasing"),
        (lambda: joined(facts.Monotone(dimension=1, x=X)), "from 0 to 0"),
        (lambda: joined(facts.Sum(X, 1.0, noise=0.0)), "must be positive: an exact value has probability zero"),
        (lambda: joined(facts.Counts(X, np.array([0.5, 1, 2]))), "whole numbers"),
        (lambda: joined(facts.Counts(X, np.array([1, 2]))), "one number or hold 3"),
        (lambda: joined(facts.Classes(X, 2)), "from 0 to 1"),
        (lambda: joined(facts.Interval(WIDE, 0, 1)), "3 input dimension"),
        (lambda: joined(facts.Mean(X, math.nan, 1.0)), "NaN"),
        (lambda: joined(facts.Bounds(0, 1, x=X), facts.Bounds(2, 3, x=X)).check_consistent(), "contradict each other"),
        (lambda: joined(facts.Monotone(x=X), facts.Censored(X[:1], 1.0), facts.Bounds(high=0.5, x=X)).check_consistent(),
         "contradict"),
        (lambda: log_likelihood(NAN), "returns nan"),
        (lambda: log_likelihood(facts.Likelihood(X, lambda values: values)), r"its shape is \[2, 3\]"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_a_sentence(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_likelihood_of_one_draw_at_a_time() -> None:
    one = facts.Likelihood(X, lambda values: float(-values.square().sum()), vectorised=False)
    np.testing.assert_allclose(log_likelihood(one), -(VALUES.numpy() ** 2).sum(1))


def test_facts_are_at_the_top_of_the_package() -> None:
    assert ndp.facts is facts
