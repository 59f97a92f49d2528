"""The attempts on training runs: all hold, and a library that does not hold is found out."""

from pathlib import Path

import pytest
import torch

from benchmarks.reliability import recipes, runs
from benchmarks.reliability.attempts import FULL, QUICK
from benchmarks.reliability.recipes import FAILURES, recipe
from benchmarks.reliability.runs import CPU, Good, attempts
from ndp.training.run_folder import RunFolder, TrainingState
from ndp.training.weights import Weights


def test_all_hold(tmp_path: Path) -> None:
    tried = list(attempts(QUICK, tmp_path))
    assert len(tried) > 20
    assert {one.name: found for one in tried if (found := one.run())} == {}


def test_there_are_as_many_as_promised(tmp_path: Path) -> None:
    assert len(list(attempts(FULL, tmp_path))) >= 250


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Good:
    made = Good(tmp_path_factory.mktemp("runs") / "good")
    made.copy(tmp_path_factory.mktemp("copy"))
    return made


def test_a_state_without_a_checksum_is_found_out(good: Good, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = TrainingState.digest
    monkeypatch.setattr(runs, "_same", lambda first, second: digest(first) == digest(second))
    unchecked = Good(tmp_path / "unchecked")
    good.copy(unchecked.path)
    unchecked._made = True
    state = RunFolder(unchecked.path).load_state(CPU)
    assert state is not None
    monkeypatch.setattr(TrainingState, "digest", lambda state: "always the same")
    RunFolder(unchecked.path).save_state(state)
    found = [runs._flip(unchecked, tmp_path / "copy", 0.5 + share / 20) for share in range(9)]
    assert "resumes from another state without a word" in found


def test_a_state_of_another_network_that_is_taken_is_found_out(
    good: Good, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Weights, "_check", lambda weights, state: None)
    assert "raises KeyError" in str(runs._change(good, tmp_path / "copy", "missing tensor", 0.5))
    assert "where it should refuse" in str(runs._change(good, tmp_path / "copy", "tensor too many", 0.5))


def test_a_run_that_saves_what_diverged_is_found_out(
    good: Good, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TrainingState, "check_finite", lambda state: None)
    assert "does not name 'step 30 is kept'" in str(runs._diverge(good, tmp_path / "run", 60))


def test_a_run_that_resumes_elsewhere_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = runs._left_alone()[0]
    other = {name: weight + 1e-7 for name, weight in expected.items()}
    assert "weights differ" in str(runs._differs(other, expected))
    assert runs._differs(dict(expected), expected) is None
    folder = RunFolder.create(tmp_path / "run", recipe())
    (folder.path / "log.csv").write_text("step\n5\n5\n10\n")
    assert "the log has the steps ['5', '5', '10']" in str(runs._bad_log(folder))


def test_a_failed_start_that_leaves_its_folder_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunFolder, "discard_without_state", lambda folder: None)
    how = next(iter(FAILURES))
    assert recipes._failed_start(tmp_path, how) == "the folder of a failed start is left"


def test_the_state_that_attempts_begin_with_is_finite(good: Good) -> None:
    state = RunFolder(good.path).load_state(CPU)
    assert state is not None
    assert state.step == good.half
    assert all(bool(torch.isfinite(tensor).all()) for tensor in state.tensors.values())
