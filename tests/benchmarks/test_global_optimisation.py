"""The experiment on minima: its functions, its counts, its verdicts, and that it runs."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import global_optimisation_report as report
from benchmarks.global_optimisation import (
    GPR,
    JOINT,
    RANDOM,
    Effort,
    classical_functions,
    evaluations_to_find,
    random_functions,
)
from benchmarks.inputs_given_values import InputDistances, Questions, compare, exact_draws
from ndp.gp.named import minima_gp
from ndp.models.evaluation import Number
from ndp.models.registry import write_model
from ndp.networks.joint import JointAttention
from ndp.optimise.thompson import Thompson
from ndp.processes.ndp import NDP

TINY = report.Settings(
    tasks=3,
    draws=50,
    gap_tasks=2,
    gap_targets=2,
    functions=2,
    limit=5,
    repaint_steps=4,
    repaint_tasks=2,
    repaint_draws=10,
)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "QUICK", TINY)
    monkeypatch.setattr(report, "SHOWN_STEPS", (0, 1))
    monkeypatch.setattr(report, "PICTURE_DRAWS", 20)
    monkeypatch.setattr(report, "classical_functions", lambda: classical_functions()[:1])


def test_minima_of_the_literature_are_found_where_they_are_said_to_be() -> None:
    known = {"Forrester": -6.020740, "Gramacy and Lee": -0.869011, "Rastrigin": 0.0}
    for one in classical_functions():
        assert one.minimum == pytest.approx(known[one.title], abs=1e-4)
        assert one.function(np.array([0.3])) > one.minimum


def test_random_functions_are_draws_of_the_process_without_noise() -> None:
    functions = random_functions(minima_gp(), 40, nodes=101)
    values = np.array([[one.function(np.array([place])) for place in np.linspace(-1, 1, 41)] for one in functions])
    assert 0.8 < values.std() < 1.2
    assert np.abs(np.diff(values)).mean() < 0.4
    assert (values.min(1) >= [one.minimum for one in functions]).all()


def test_evaluations_are_counted_until_the_minimum_is_near() -> None:
    one = classical_functions()[0]
    count = evaluations_to_find(Thompson([[-1.0, 1.0]], None, seed=3), one, 500)
    again = Thompson([[-1.0, 1.0]], None, seed=3)
    values = []
    for _ in range(count):
        (point,) = again.ask()
        values.append(one.function(point))
        again.tell(point, values[-1])
    assert values[-1] <= one.minimum + 0.05 < min(values[:-1])
    assert evaluations_to_find(Thompson([[-1.0, 1.0]], None), one, 2) == 2


def test_exact_draws_are_off_by_chance_alone() -> None:
    gp = minima_gp()
    found = [compare("", gp, Questions.of(gp, 10), exact_draws(gp, draws)) for draws in (100, 10_000)]
    assert found[1].any_value.mean < 0.2 * found[0].any_value.mean
    assert found[1].below_best.mean < 0.05


def test_verdicts_compare_numbers_with_their_bars() -> None:
    distances = [InputDistances(report.OURS, Number(0.12, 0.01), Number(0.2, 0.01))]
    efforts = [Effort(name, (count,), 100, 0.1) for name, count in ((JOINT, 10), (GPR, 9), (RANDOM, 45))]
    lines = report.verdicts(distances, Number(0.03, 0.001), efforts)
    assert [line.rpartition(": ")[2] for line in lines] == ["met.", "NOT met.", "met.", "NOT met.", "met."]
    assert len(report.verdicts(distances, Number(0.03, 0.001), efforts[1:])) == 3


def test_a_model_is_measured_beside_one_of_the_papers_recipe(tiny, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = JointAttention(width=16, heads=2, blocks=1, level_width=8, anchor_points=4)
    write_model(NDP(network.requires_grad_(False), noise_floor=0.05, input_dims=[1]), tmp_path / "model")
    folder = str(tmp_path / "model")
    made = report.reproduce(folder, paper=folder, quick=True, device="cpu", progress=lambda text: None)
    assert [row[0] for row in made.tables[0].rows] == [
        report.EXACT,
        report.UNIFORM,
        report.OURS,
        f"{report.PAPER}, 2 tasks",
    ]
    assert made.findings.count("met.") == 7
    no_searches = report.reproduce(folder, paper="", quick=True, device="cpu", progress=lambda text: None, functions=0)
    assert [table.title.split(":")[0] for table in no_searches.tables] == [
        table.title.split(":")[0] for table in made.tables[:2]
    ]
    assert no_searches.numbers["efforts"] == []
    written = made.write(tmp_path / "out")
    assert list(written) == ["Picture", "Numbers"]
    assert all(path.exists() for path in written.values())
    with pytest.raises(ValueError, match="se is not a joint model"):
        report.reproduce("se", paper="", quick=True, device="cpu", progress=lambda text: None)
