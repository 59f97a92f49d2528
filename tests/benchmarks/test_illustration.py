"""The illustration: the exact process has no error, the oracle nearly none, at whatever lengthscale is shown."""

import pytest
import torch

from benchmarks.illustration import (
    OBSERVATIONS,
    Shown,
    at_shown_lengthscale,
    draw_truth,
    panel,
    report,
    reproduce,
    squared_exponential,
)
from ndp.core.plotting import BLUE
from ndp.models.registry import load_ndp


def test_a_model_of_one_lengthscale_has_another_in_other_units() -> None:
    exact = squared_exponential()
    truth = draw_truth(exact)
    x, y = truth.x[:4], truth.y[:4]
    oracle = load_ndp("oracle-se", "cpu")
    right = panel("oracle", at_shown_lengthscale(oracle).condition(x, y), exact.condition(x, y), truth, 4, 3)
    wrong = panel("as it is", oracle.condition(x, y), exact.condition(x, y), truth, 4, 3)
    assert right.score.mean_error < 0.01
    assert right.score.std_error < 0.01
    assert wrong.score.std_error > 0.05
    held_out = truth.x_held_out, truth.y_held_out
    own = torch.as_tensor(exact.condition(x, y).log_prob(*held_out, observation_noise=True)).item()
    assert right.score.log_prob == pytest.approx(own / 20, abs=0.002)
    with pytest.raises(ValueError, match="step was not trained on squared exponentials"):
        reproduce("step", neural_process="", quick=True, device="cpu", progress=print)


def test_every_process_of_the_list_gets_a_row() -> None:
    exact = squared_exponential()
    stages: list[str] = []
    shown = [Shown(name, BLUE, exact) for name in ("one", "two", "three")]
    found = report(shown, exact, draws=2, note="A fourth is left out.", progress=stages.append)
    assert stages == ["one: draws", "two: draws", "three: draws"]
    assert len(found.figure.axes) == 3 * len(OBSERVATIONS)
    assert {row[2] for row in found.tables[0].rows} == {"0.0000"}
    assert "two: the mean is off the exact one by at most 0.000" in found.findings
    assert found.findings.endswith("A fourth is left out.")
