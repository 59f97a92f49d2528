"""The table: rows are scored on the same functions, gaps are to the exact process, and what is not there is left out."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.regression import DIAGONAL, OURS, PAPER, TRUTH, Settings, held_out_functions, measure
from benchmarks.regression_report import as_markdown
from ndp.gp.named import regression_gp
from ndp.models.evaluation import given
from ndp.models.registry import write_model
from ndp.processes.neural_process import NeuralProcess
from ndp.training.build import make_ndp
from ndp.training.config import Recipe

FEW = Settings(tasks=6, draws=(64,), steps=5, density_tasks=2, repaint_levels=3)


def test_the_exact_process_has_no_gap_but_its_draws_have() -> None:
    density, drawn = measure(TRUTH, "se", 1, FEW, models=Path("nowhere"))
    assert (density.estimator, drawn.estimator) == ("density", "64 draws")
    assert density.gap.mean == 0
    assert drawn.gap.mean > 0.2, "a Gaussian over 50 points fitted to 64 draws is a poor one"


def test_the_diagonal_row_is_the_product_of_exact_marginals() -> None:
    (score,) = measure(DIAGONAL, "matern52", 2, FEW, models=Path("nowhere"))
    batch = held_out_functions("matern52", 2, FEW.tasks)
    x, y = batch.targets
    mean, covariance = given(regression_gp("matern52"), batch).gaussian(x, observation_noise=True)
    std = covariance.diagonal(dim1=-2, dim2=-1).sqrt()[..., None]
    expected = torch.distributions.Normal(mean, std).log_prob(y).mean().item()
    assert score.log_prob.mean == pytest.approx(expected, abs=1e-9)
    assert score.gap.mean > 0


def test_a_shift_moves_the_inputs_and_not_the_functions() -> None:
    (here,) = measure(DIAGONAL, "se", 1, FEW, models=Path("nowhere"))
    (there,) = measure(DIAGONAL, "se", 1, FEW, models=Path("nowhere"), shift=4.0)
    assert there.log_prob.mean == pytest.approx(here.log_prob.mean, abs=1e-6)
    assert there.shift == 4.0


def test_the_shipped_ndp_is_close_to_the_exact_process() -> None:
    density, drawn = measure(OURS, "matern52", 1, FEW, models=Path("nowhere"))
    assert abs(density.gap.mean) < 0.05
    assert drawn.calls == 5
    assert drawn.seconds_per_draw is not None


def test_rows_without_a_model_are_left_out_and_with_one_are_scored(tmp_path: Path) -> None:
    assert list(measure("GNP", "se", 2, FEW, models=tmp_path)) == []
    assert list(measure(PAPER, "sawtooth", 1, FEW, models=tmp_path)) == []
    shipped, _ = measure("GNP", "se", 1, FEW, models=tmp_path)
    assert shipped.gap.mean < 0.3
    small = {"width": 16, "dim_embedding": 16, "num_dec_layers": 2, "num_basis_functions": 8}
    write_model(NeuralProcess("gnp", 1, options=small), tmp_path / "gnp-se-1")
    density, _ = measure("GNP", "se", 1, FEW, models=tmp_path)
    assert density.gap.mean > 0.3, "it knows nothing yet"
    recipe = Recipe.from_dict({"model": "ndp-paper", "prior": "se"})
    assert not recipe.use_context
    write_model(make_ndp(recipe), tmp_path / "ndp-paper-se-1")
    (repainted,) = measure(PAPER, "se", 1, FEW, models=tmp_path)
    assert repainted.calls == 15


def test_the_command_writes_numbers_a_table_and_a_figure(tmp_path: Path) -> None:
    arguments = ["--quick", "--kernel", "se", "--dim", "1", "--rows", "GP", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["regression", *arguments])
    assert result.exit_code == 0, result.output
    scores = json.loads((tmp_path / "regression-quick.json").read_text())
    assert [one["row"] for one in scores] == [TRUTH, TRUTH, DIAGONAL]
    assert "| GP (truth) | *the paper's number* | 0.67 |" in (tmp_path / "regression-quick.md").read_text()
    assert (tmp_path / "regression-se.png").read_bytes().startswith(b"\x89PNG")


def test_a_table_of_nothing_is_only_the_papers() -> None:
    assert as_markdown([]).count("\n") > 5


def test_unknown_rows_are_named_before_anything_is_written(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["regression", "--rows", "GNP,nobody", "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "no row's name holds 'nobody'; there are: GP (truth)" in " ".join(result.stderr.split())
    assert not (tmp_path / "out").exists()
