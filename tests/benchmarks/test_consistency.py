"""Consistency: a Gaussian process is at its own sampling noise and obeys Bayes' rule; values that depend on others do not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from benchmarks.consistency import (
    Sizes,
    bayes_gap,
    contexts,
    exact_statistics,
    ratio,
    spread,
    statistics_at_zero,
)
from benchmarks.consistency_report import ratios, report
from ndp.core.statistics import HasMoments
from ndp.core.typing import Array, Moments
from ndp.gp.exact import GPPosterior
from ndp.gp.named import regression_gp
from ndp.models.evaluation import Number
from ndp.models.registry import exact_process_of, load, load_ndp

SIZES = Sizes(contexts=3, draws=50, others=6, pairs=64, exact_rounds=3)
GP = regression_gp("se")


@dataclass(frozen=True)
class Inconsistent(HasMoments):
    """A GP whose values move with the mean of the inputs asked for: its marginals depend on the other targets."""

    posterior: GPPosterior

    def sample(self, x: Array, num_samples: int | None = None, **options: Any) -> Array:
        x = torch.as_tensor(x)
        return torch.as_tensor(self.posterior.sample(x, num_samples, **options)) + x.mean(1, keepdim=True)

    def moments(self, x: Array, **options: Any) -> Moments:
        return self.posterior.moments(x, **options)

    def quantiles(self, x: Array, probabilities: Sequence[float], **options: Any) -> Array:
        return self.posterior.quantiles(x, probabilities, **options)

    def summary(self, x: Array, probabilities: Sequence[float], **options: Any) -> tuple[Moments, Array]:
        return self.posterior.summary(x, probabilities, **options)

    def log_prob(self, x: Array, y: Array, **options: Any) -> Array:
        return self.posterior.log_prob(x, y, **options)


class InconsistentProcess:
    def sample(self, x: Array, num_samples: int | None = None, **options: Any) -> Array:
        return GP.sample(x, num_samples, **options)

    def condition(self, x: Array, y: Array, *, noise: object = None, mask: object = None) -> Inconsistent:
        return Inconsistent(GP.condition(x, y))


def test_statistics_are_those_of_the_exact_marginal() -> None:
    found = statistics_at_zero(GP, GP, SIZES, torch.Generator().manual_seed(0))
    assert found.shape == (5, 3, 5, 20)
    first = found[:, 0].flatten(1)
    error = first.std(1) / first.shape[1] ** 0.5
    bias = torch.tensor([0, 0, 0, 0.03, 0.03])  # of quantiles of 50 draws
    assert ((first.mean(1) - exact_statistics(GP, SIZES)).abs() < 4.5 * error + bias).all()
    x, y = contexts(GP, 3)
    assert (x[0] != x[1]).all()
    assert y.shape == (3, 5, 1)


def test_a_gaussian_process_is_at_its_sampling_noise_and_an_inconsistent_one_is_not() -> None:
    generator = torch.Generator().manual_seed(1)
    exact = spread("GP", [statistics_at_zero(GP, GP, SIZES, generator) for _ in range(10)])
    for name, again in ratios(exact, spread("again", [statistics_at_zero(GP, GP, SIZES, generator)])).items():
        assert abs(again.mean - 1) < 4.5 * again.standard_error, name
    inconsistent = ratios(
        exact, spread("inconsistent", [statistics_at_zero(InconsistentProcess(), GP, SIZES, generator)])
    )
    assert inconsistent["mean"].mean > 5
    assert inconsistent["variance"].mean < 2


def test_beyond_its_noise_a_gaussian_process_varies_by_nothing_and_an_inconsistent_one_by_a_known_amount() -> None:
    """However few the draws."""
    generator = torch.Generator().manual_seed(3)
    exact = spread("GP", [statistics_at_zero(GP, GP, SIZES, generator) for _ in range(10)]).beyond["mean"]
    assert exact.mean < 3 * exact.standard_error
    few = replace(SIZES, contexts=40, draws=10)
    found = spread("inconsistent", [statistics_at_zero(InconsistentProcess(), GP, few, generator)]).beyond["mean"]
    expected = (SIZES.others / 3) ** 0.5 / (SIZES.others + 1)  # of the mean of uniform inputs in [-1, 1] and a zero
    assert abs(found.mean - expected) < 4.5 * found.standard_error


def test_the_noise_of_the_mean_is_known() -> None:
    generator = torch.Generator().manual_seed(2)
    exact = spread("GP", [statistics_at_zero(GP, GP, SIZES, generator) for _ in range(20)])
    _, std = GP.condition(*contexts(GP, 3)).moments(torch.zeros(1, 1, 1), observation_noise=True)
    expected = (torch.as_tensor(std).square().mean() / (20 * SIZES.draws)).sqrt().item()
    assert abs(exact.spreads["mean"].mean - expected) < 4.5 * exact.spreads["mean"].standard_error


def test_a_ratio_carries_the_errors_of_both() -> None:
    found = ratio(Number(3.0, 0.3), Number(1.5, 0.2))
    assert found.mean == 2.0
    assert found.standard_error == pytest.approx(2 * (0.1**2 + (0.2 / 1.5) ** 2) ** 0.5)


def test_bayes_rule_holds_for_a_gaussian_process_and_nearly_so_for_the_oracle() -> None:
    exact = bayes_gap("GP", GP, GP, 64)
    assert exact.gaps.abs().max() < 1e-9
    oracle = load("oracle-se")
    found = bayes_gap("oracle", oracle, GP, 64)
    assert found.size.mean < 0.01
    assert found.joint_error.mean < 0.01
    wrong = bayes_gap("matern", regression_gp("matern52"), GP, 64)
    assert wrong.gaps.abs().max() < 1e-9, "consistent, and wrong"
    assert wrong.joint_error.mean > 0.05


def test_the_report_says_what_was_measured() -> None:
    oracle = load_ndp("oracle-se", "cpu")
    exact = exact_process_of(oracle, "oracle-se")
    stages: list[str] = []
    tiny = Sizes(contexts=1, draws=10, others=2, pairs=8, exact_rounds=2)
    found = report(
        [("GP", exact), ("oracle-se", oracle)], exact, tiny, note="A third is left out.", progress=stages.append
    )
    assert stages == [f"{p}: {w}" for p in ("GP", "oracle-se") for w in ("the marginal at x = 0", "Bayes' rule")]
    assert [row[0] for row in found.tables[0].rows][:3] == ["GP", "oracle-se", "oracle-se / GP"]
    assert set(found.numbers) == {"spreads", "ratios", "bayes"}
    assert len(found.figure.axes) == 6
    assert found.findings.endswith("A third is left out.")
    with pytest.raises(ValueError, match="exact posterior"):
        exact_process_of(load_ndp("step", "cpu"), "step")
    with pytest.raises(ValueError, match="is an exact Gaussian process"):
        load_ndp("gp-se", "cpu")
