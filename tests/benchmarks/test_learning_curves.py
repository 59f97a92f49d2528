"""`python -m benchmarks learning-curves`: paired curves, and verdicts that are right."""

import pytest

from benchmarks import learning_curves
from benchmarks.learning_curves import Point, Sizes


def test_both_curves_and_the_gp_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning_curves, "QUICK", Sizes((20, 60), 16, 1, (5, 6)))
    seen: list[str] = []
    report = learning_curves.reproduce("universal", quick=True, device="cpu", progress=seen.append)
    rows, inputs = report.tables
    assert [row[0] for row in rows.rows] == ["20", "60"]
    assert [row[0] for row in inputs.rows] == ["5", "6"]
    smooth = report.numbers["rows"]["Friedman"]
    assert sum(smooth[1]["nll"]) < sum(smooth[0]["nll"])
    assert len(smooth[0]["nll"]) == 16
    assert report.figure is not None
    assert "nats lost to SingleTaskGP" in report.findings
    assert seen


def test_a_curve_rises_where_its_change_is_beyond_its_error() -> None:
    flat, higher = Point(1, [0.0, 1.0, 2.0], 0.0), Point(2, [1.0, 2.1, 3.0], 0.0)
    assert learning_curves._rises([flat, higher])
    assert not learning_curves._rises([higher, flat])
    assert not learning_curves._rises([flat, Point(2, [2.0, 0.0, 1.5], 0.0)])
