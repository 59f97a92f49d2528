"""`python -m benchmarks universal`: calibrated baselines, and scores and ranks that are right."""

import numpy as np
import pytest

from benchmarks import regressors
from benchmarks.datasets import datasets
from benchmarks.universal import Score, mean_ranks, pooled_coverage, score


def test_there_are_enough_tables_and_all_are_numbers() -> None:
    sets, missing = datasets()
    assert missing or len(sets) >= 8
    for one in sets:
        assert np.isfinite(one.x).all()
        assert np.isfinite(one.y).all()
        assert 1 <= one.x.shape[1] <= 10
        assert len(one.x) == len(one.y) > 15
        assert one.y.std() > 0


@pytest.mark.parametrize(
    "baseline", [regressors.single_task_gp, regressors.gaussian_process_regressor, regressors.random_forest]
)
def test_baselines_are_calibrated_on_an_easy_table(baseline: regressors.Regressor) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(160, 1))
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=160)
    predicted = baseline(x[:80], y[:80], x[80:], y[80:])
    nll, ranked, inside = score(predicted, y[80:], 1.0)
    assert 0.1 < nll < 0.7  # 0.21 for who knows it all
    assert 0.15 < ranked < 0.3
    assert inside > 0.75
    assert (np.diff(predicted.quantiles[2:], axis=0) >= 0).all()


def test_scores_of_a_known_distribution() -> None:
    y = np.random.default_rng(0).normal(size=4000)
    predicted = regressors._gaussian(np.zeros(4000), np.ones(4000), y, 0.0)
    nll, ranked, inside = score(predicted, y, 1.0)
    assert nll == pytest.approx(1.419, abs=0.04)
    assert ranked == pytest.approx(0.564, abs=0.02)
    assert inside == pytest.approx(0.9, abs=0.02)


def test_ranks_and_coverage_are_pooled_over_places() -> None:
    def one(method: str, where: str, nll: float, tested: int) -> Score:
        return Score(method, where, nll, 0.0, 1.0 if where == "a" else 0.5, 0.0, tested)

    scores = [one("x", "a", 1.0, 10), one("y", "a", 2.0, 10), one("x", "b", 3.0, 30), one("y", "b", 2.0, 30)]
    assert mean_ranks(scores) == {"x": 1.5, "y": 1.5}
    assert pooled_coverage(scores, "x") == pytest.approx(0.625)
