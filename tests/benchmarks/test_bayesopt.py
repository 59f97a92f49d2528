"""The optimisation experiment: fair, resumable, and honest about its bars. Models are exact, or not trained at all."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from benchmarks import bayesopt_speed
from benchmarks.__main__ import app
from benchmarks.bayesopt import (
    Objective,
    Row,
    all_at_once,
    median_interval,
    objectives,
    one_by_one,
    optimise,
    optimise_missing,
    read_runs,
    regret,
)
from benchmarks.bayesopt_report import Curves, verdicts
from benchmarks.bayesopt_rows import GPR, NDP_DEFAULT, NDP_MARGINAL, RANDOM, chosen_rows, make_row
from ndp.gp.named import optimisation_gp
from ndp.gp.oracle import GPOracle
from ndp.models.registry import write_model
from ndp.optimise.thompson import PAPER_RULE, Rule, Thompson, minimise
from ndp.processes.ndp import NDP
from ndp.training.build import make_model
from ndp.training.config import Recipe

BOX = [[-1.0, 1.0]]


def silent(status: str) -> None:
    pass


def hartmann() -> Objective:
    return objectives()[0]


def oracle() -> NDP:
    gp = optimisation_gp()
    return NDP(GPOracle(gp), noise_floor=gp.noise)


def test_objectives_are_on_the_box_and_have_their_minima() -> None:
    assert [(one.name, one.dim) for one in objectives()] == [
        ("hartmann3", 3),
        ("rastrigin4", 4),
        ("ackley5", 5),
        ("hartmann6", 6),
    ]
    _, rastrigin, ackley, _ = objectives()
    assert rastrigin.function(np.zeros(4)) == pytest.approx(rastrigin.minimum, abs=1e-9)
    assert ackley.function(np.zeros(5)) == pytest.approx(ackley.minimum, abs=1e-9)
    at = 2 * np.array([0.114614, 0.555649, 0.852547]) - 1
    assert hartmann().function(at) == pytest.approx(hartmann().minimum, abs=1e-4)


def test_seeds_drawn_in_one_batch_are_the_searches_of_the_library() -> None:
    row = Row("NDP", all_at_once(oracle()), PAPER_RULE, batched=True)
    for run in optimise(hartmann(), row, [0, 3], 9, silent):
        single = minimise(
            hartmann().function, BOX * 3, oracle(), rule=PAPER_RULE, evaluations=9, seed=run.seed, progress=False
        )
        np.testing.assert_allclose(run.values, single.y, rtol=1e-9)


def test_all_rows_begin_at_the_same_points() -> None:
    rows = [Row("random", None), Row("gp", one_by_one(optimisation_gp()), Rule(8, 8))]
    one, other = (optimise(hartmann(), row, [2], 8, silent)[0].values for row in rows)
    assert one[:5] == other[:5]
    assert one[5:] != other[5:]


def test_runs_are_kept_and_only_the_missing_ones_are_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "runs.jsonl"
    row = Row("random", None)
    optimise_missing(hartmann(), row, range(2), 8, path, silent)
    optimise_missing(hartmann(), row, range(3), 8, path, silent)
    assert [json.loads(line)["seed"] for line in path.read_text().splitlines()] == [0, 1, 2]
    first, *_ = read_runs(path, hartmann(), row.name, 6, version=row.version)
    assert first.values == read_runs(path, hartmann(), row.name, 8)[0].values[:6], "a long run holds the shorter one"
    assert read_runs(path, hartmann(), row.name, 9) == []
    assert read_runs(path, hartmann(), row.name, 8, version=replace(row, weights="others").version) == []
    found = regret(hartmann(), read_runs(path, hartmann(), row.name, 8))
    assert found.shape == (3, 8)
    assert (np.diff(found, axis=1) <= 0).all()
    path.write_text("nonsense\n")
    with pytest.raises(ValueError, match=r"line 1 of .* is not a run"):
        read_runs(path, hartmann(), row.name, 8)


def test_the_interval_of_a_median_holds_it() -> None:
    values = np.random.default_rng(1).normal(size=(20, 3))
    low, high = median_interval(values)
    assert ((low < np.median(values, axis=0)) & (np.median(values, axis=0) < high)).all()
    assert (high - low < 2).all()
    np.testing.assert_array_equal(median_interval(values[:1]), [values[0], values[0]])


def test_rows_of_an_exact_process_draw_observations_as_networks_do(tmp_path: Path) -> None:
    row = make_row("exact Fixed", 1, models=tmp_path, device=torch.device("cpu"))
    assert isinstance(row, Row)
    assert row.draw is not None
    at = torch.zeros(400, 1, dtype=torch.float64)  # the same point: only the noise differs
    search = Thompson(BOX, None, initial=1)
    search.tell([0.0], 0.0)
    inquiry = replace(search.inquiry(), candidates=at)
    drawn = row.draw([inquiry])
    assert drawn.std().item() == pytest.approx(0.01, rel=0.15)


def test_bars_are_said_to_be_met_or_not() -> None:
    def curves(row: str, final: float) -> Curves:
        return Curves(hartmann(), row, np.full((4, 2), final), 0.1)

    finals = {NDP_MARGINAL: 1.05, GPR: 1.0, RANDOM: 0.9, NDP_DEFAULT: 0.5}
    said = verdicts([hartmann()], {("hartmann3", row): curves(row, final) for row, final in finals.items()})
    assert said == [
        "Hartmann, D = 3: NDP Marginalised at 1.05 against 1.1 times GPR at 1.1: met.",
        "Hartmann, D = 3: NDP Marginalised at 1.05 against Random at 0.9: NOT met. (GPR, at 1, does not beat it either)",
        "Hartmann, D = 3: NDP Marginalised (default rule) at 0.5 against NDP Marginalised at 1.05: met.",
    ]


def test_rows_come_from_folders_and_missing_ones_are_named(tmp_path: Path) -> None:
    small = {"width": 16, "heads": 2, "blocks": 1}
    for recipe, name in (
        (Recipe(prior="bo-marginal", dims=(3, 4), network=small), "ndp-bo-marginal"),
        (Recipe.from_dict({"model": "anp", "prior": "bo-marginal", "dims": [3]}), "anp-bo-marginal-3"),
    ):
        write_model(make_model(recipe), tmp_path / name)
    cpu = torch.device("cpu")
    for name in ("NDP Marginalised", "ANP"):
        row = make_row(name, 3, models=tmp_path, device=cpu)
        assert isinstance(row, Row)
        assert len(optimise(hartmann(), row, [0, 1], 7, silent)) == 2
    assert make_row("NP", 3, models=tmp_path, device=cpu) == (
        f"NP is left out: there is no model in {tmp_path / 'np-bo-marginal-3'}."
    )
    wrong = make_row("NDP Marginalised", 5, models=tmp_path, device=cpu)
    assert isinstance(wrong, str)
    assert "is for 3, 4 inputs" in wrong
    with pytest.raises(ValueError, match="there is no row 'nobody'; there are: NDP Fixed"):
        chosen_rows("gpr, nobody")


def test_the_command_from_end_to_end(tmp_path: Path) -> None:
    command = ["bayesopt", "--out", str(tmp_path), "--models", str(tmp_path), "--device", "cpu"]
    asked = ["--seeds", "2", "--evaluations", "8", "--objective", "hartmann3"]
    result = CliRunner().invoke(app, [*command, *asked, "--rows", "exact Fixed, Random, GPR"])
    assert result.exit_code == 0, result.output
    numbers = json.loads((tmp_path / "bayesopt.json").read_text())
    assert [row["row"] for row in numbers["rows"]] == ["GPR", "Random", "exact Fixed"]
    assert all(row["seeds"] == 2 and len(row["median"]) == 8 for row in numbers["rows"])
    assert "ANP is left out" in numbers["findings"]
    assert (tmp_path / "bayesopt.png").read_bytes().startswith(b"\x89PNG")
    wrong = CliRunner().invoke(app, [*command, "--objective", "nowhere"])
    assert wrong.exit_code == 2
    assert "there is no objective 'nowhere'" in wrong.stderr


def test_a_step_is_timed_for_both_surrogates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"width": 16, "heads": 2, "blocks": 1}
    write_model(make_model(Recipe(prior="bo-marginal", dims=(6,), network=small)), tmp_path / "model")
    for name, value in (("OBSERVATIONS", 8), ("STEPS", 1), ("REPEATS", 1)):
        monkeypatch.setattr(bayesopt_speed, name, value)
    timings = list(bayesopt_speed.measure(str(tmp_path / "model"), device="cpu", threads=1))
    assert [(one.surrogate.split(",")[0], one.candidates) for one in timings] == [
        ("NDP", 128),
        ("SingleTaskGP", 128),
        ("NDP", 256),
        ("SingleTaskGP", 256),
    ]
    assert all(one.seconds > 0 for one in timings)
