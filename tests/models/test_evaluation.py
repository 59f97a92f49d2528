"""Evaluation: a perfect model scores a gap of nothing, a wrong one does not."""

from ndp.gp.named import regression_gp
from ndp.gp.oracle import GPOracle
from ndp.models.evaluation import evaluate
from ndp.processes.ndp import NDP


def test_the_oracle_has_no_gap_and_right_coverage() -> None:
    gp = regression_gp("se")
    result = evaluate(NDP(GPOracle(gp), noise_floor=0.05), gp, dim=2, tasks=48, draws=256, ode_tasks=6)
    assert abs(result.net_gap.mean) < 4.5 * result.net_gap.standard_error
    assert result.net_gap.standard_error < 0.02
    assert result.ode_gap is not None
    assert abs(result.ode_gap.mean) < 0.001
    assert result.gap.mean > 0.03, "what the estimator loses by itself"
    for level, share in result.coverage.items():
        assert abs(share - float(level)) < 0.04
    assert result.mean_error < 0.08


def test_a_wrong_model_has_a_gap() -> None:
    gp, other = regression_gp("se"), regression_gp("matern52")
    result = evaluate(NDP(GPOracle(other), noise_floor=0.05), gp, dim=1, tasks=16, draws=256, ode_tasks=8)
    assert result.net_gap.mean > 3 * result.net_gap.standard_error
    assert result.ode_gap is not None
    assert result.ode_gap.mean > 0.05


def test_a_shift_of_all_inputs_does_not_change_a_stationary_model() -> None:
    gp = regression_gp("se")
    model = NDP(GPOracle(gp), noise_floor=0.05)
    here, there = (evaluate(model, gp, dim=1, tasks=4, draws=128, ode_tasks=2, shift=shift) for shift in (0.0, 4.0))
    assert abs(here.model_fitted.mean - there.model_fitted.mean) < 1e-6
    assert here.exact == there.exact
