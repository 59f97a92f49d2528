"""The attempts on model folders: all hold, and a library that does not hold is found out."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from safetensors import SafetensorError

from benchmarks.reliability import checkpoints
from benchmarks.reliability.attempts import FULL, QUICK
from benchmarks.reliability.checkpoints import Child, _flip, _not_finite, attempts, small_model, two_models
from benchmarks.reliability.hostile import configurations
from ndp.models.registry import write_model
from ndp.processes.ndp import NDP


def test_all_hold(tmp_path: Path) -> None:
    tried = list(attempts(QUICK, tmp_path))
    assert len(tried) > 40
    assert {one.name: found for one in tried if (found := one.run())} == {}


def test_there_are_as_many_as_promised(tmp_path: Path) -> None:
    names = [one.name for one in attempts(FULL, tmp_path)]
    assert len(names) >= 700
    assert sum(name.startswith("bit ") for name in names) == 260
    assert sum(name.startswith("configuration: ") for name in names) >= 124


def test_every_configuration_is_another_one(tmp_path: Path) -> None:
    write_model(small_model("bidimensional"), tmp_path)
    texts = [text for _, text in configurations("bidimensional", json.loads((tmp_path / "config.json").read_text()))]
    assert len(texts) == len(set(texts)) >= 124


def trusting(folder: Path) -> Any:
    """A model of whatever is in a folder: no checksum, and no look at the numbers."""
    config = json.loads((folder / "config.json").read_text())
    found = small_model("bidimensional")
    assert isinstance(found, NDP)
    try:
        weights = safetensors.torch.load((folder / "model.safetensors").read_bytes())
    except SafetensorError as error:
        raise ValueError("the weights cannot be read") from error
    found.network.load_state_dict(weights)  # type: ignore[union-attr]
    found.noise_floor = config["noise_floor"]
    return found


def test_a_library_without_checks_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "load", trusting)
    good = tmp_path / "good"
    write_model(small_model("bidimensional"), good)
    found = [_flip(good, tmp_path / "copy", "model.safetensors", 0.5 + share / 40) for share in range(19)]
    assert "loads another model without a word" in found
    assert "where it should refuse" in str(_not_finite(good, tmp_path / "copy", float("nan"), 0.5))
    write_model(two_models()[0], tmp_path / "mixed")
    other = tmp_path / "other"
    write_model(two_models()[1], other)
    (other / "config.json").replace(tmp_path / "mixed" / "config.json")
    assert not any(checkpoints._same(trusting(tmp_path / "mixed"), model) for model in two_models())


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (["ValueError", "width must be less", 0.1, 10**6], None),
        (["ValueError", "width must be less", 1.5, 0], "1.5 s"),
        (["ValueError", "width must be less", 0.1, 3 * 10**8], "300 MB"),
        (["ValueError", "width\nmust be less", 0.1, 0], "not one short line"),
        (["TypeError", "unsupported operand", 0.1, 0], "TypeError"),
        (["loaded", "", 0.1, 0], "loaded"),
        (None, "did not survive"),
    ],
)
def test_what_a_hostile_configuration_did_is_judged(answer: list[Any] | None, word: str | None, tmp_path: Path) -> None:
    held = Child(tmp_path, [], [] if answer is None else [answer]).held(0)
    assert held is None if word is None else word in str(held)
