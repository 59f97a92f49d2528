"""The attempts on the command line hold, and would not without limits."""

from pathlib import Path

import pytest

from benchmarks.reliability.attempts import FULL, Sizes
from benchmarks.reliability.commands import attempts


def test_hostile_command_lines_are_refused_in_one_line(tmp_path: Path) -> None:
    tried = list(attempts(Sizes(share=0.07), tmp_path))
    here = [one for one in tried if one.name.startswith("ndp ")]
    assert len(here) >= 15
    elsewhere = [one for one in attempts(FULL, tmp_path) if "full disk after 100 bytes: sample" in one.name][:1]
    assert {one.name: found for one in (*here, *elsewhere) if (found := one.run())} == {}


def test_a_command_that_answers_or_leaves_a_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.reliability.commands.ODD_NUMBERS", ["3"])
    monkeypatch.setattr(
        "benchmarks.reliability.commands._wrong_names", lambda: ["models", "predict nowhere --target y"]
    )
    found = {
        one.name: one.run() for one in attempts(FULL, tmp_path) if "ndp sample " in one.name or "models" in one.name
    }
    assert found["ndp models"] == "ends with status 0: ''"
    sampled = found["ndp sample --model gp-se --at {in}/at.csv --out {out}/draws.csv --draws '3'"]
    assert sampled == "ends with status 0: ''"
