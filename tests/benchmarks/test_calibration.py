"""Calibration: the exact process passes, one that is too sure of itself does not."""

import pytest
import torch

from benchmarks.calibration import PROBABILITIES, RANKED, Sizes, measure, score
from benchmarks.calibration_report import describe, picture, reproduce, table
from ndp.gp.named import regression_gp

SIZES = Sizes(tasks=400, draws=31, targets=6, bins=8)


def test_the_exact_process_is_calibrated_and_another_kernel_is_not() -> None:
    gp = regression_gp("se")
    stages: list[str] = []
    right = measure("gp", gp, gp, 1, SIZES, stages.append)
    assert len(stages) == 8
    assert right.least_p_value > 0.01
    assert abs(right.coverage["0.5"].mean - 0.5) < 4.5 * right.coverage["0.5"].standard_error + 0.02
    assert (right.curve - torch.tensor(PROBABILITIES)).abs().max() < 0.06
    assert {name: int(count.sum()) for name, count in right.counts.items()} == dict.fromkeys(RANKED, 400)
    wrong = measure("other", regression_gp("matern52"), gp, 1, SIZES, stages.append)
    assert wrong.crps.mean > right.crps.mean
    assert wrong.energy.mean > right.energy.mean


def test_draws_that_are_too_narrow_or_too_independent_are_found() -> None:
    generator = torch.Generator().manual_seed(0)
    common = torch.randn(400, 1, 1, generator=generator, dtype=torch.float64)
    y = common + 0.1 * torch.randn(400, 5, 1, generator=generator, dtype=torch.float64)
    independent = (1.01**0.5) * torch.randn(31, 400, 5, 1, generator=generator, dtype=torch.float64)
    found = score("independent", 1, independent, y, bins=8)
    assert found.p_values["one value"] > 0.01, "the distribution of every single value is right"
    assert found.p_values["mean of the function"] < 1e-6
    assert found.p_values["largest value"] < 1e-6
    assert score("narrow", 1, 0.5 * independent, y, bins=8).p_values["one value"] < 1e-6


def test_the_report_says_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Sizes(tasks=24, draws=7, targets=3, bins=4)
    monkeypatch.setattr("benchmarks.calibration_report.QUICK", tiny)
    report = reproduce(["oracle-se"], dims=(1, 2), quick=True, device="cpu", progress=lambda status: None)
    assert [row[:2] for row in report.tables[0].rows] == [
        (name, dim) for dim in ("1", "2") for name in ("exact process of oracle-se", "oracle-se")
    ]
    assert len(report.figure.axes) == 8
    assert len(report.numbers["calibration"]) == 4
    gp = regression_gp("se")
    wrong = score("narrow", 1, torch.zeros(7, 24, 3, 1), torch.ones(24, 3, 1), bins=4)
    right = measure("right", gp, gp, 1, tiny, lambda status: None)
    assert "fails for narrow at D = 1" in describe([right, wrong], 24)
    assert len(picture([wrong]).axes) == 4
    assert table([wrong]).rows[0][0] == "narrow"
