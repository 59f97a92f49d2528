"""The count of attempts is right, and an attempt that the library does not hold against is told."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.reliability import report
from benchmarks.reliability.attempts import QUICK, Attempt, Sizes, is_refused
from benchmarks.reliability.families import FAMILIES, family


def seven(sizes: Sizes, folder: Path) -> Iterator[Attempt]:
    """One of seven goes wrong."""
    assert folder.is_dir()
    assert not any(folder.iterdir())
    (folder / "left over").touch()
    for index in range(7):
        yield Attempt(f"number {index}", lambda index=index: "it broke" if index == 3 else None)


def test_attempts_are_counted_and_a_failure_is_told() -> None:
    shown: list[str] = []
    counted = report.count("seven", seven, QUICK, shown.append)
    assert (counted.tried, counted.held) == (7, 6)
    assert counted.failures == (report.Failure("seven: number 3", "it broke"),)
    assert len(shown) == 7


def test_the_command_ends_with_an_error_where_the_library_did_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "family", lambda name: seven)
    result = CliRunner().invoke(app, ["reliability", "--quick", "--family", "tables", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "7 attempts, 6 held." in result.stdout
    assert "tables: number 3: it broke" in result.stdout
    numbers = json.loads((tmp_path / "reliability.json").read_text())
    assert numbers["families"][0]["held"] == 6


def test_an_unknown_family_is_told() -> None:
    result = CliRunner().invoke(app, ["reliability", "--family", "nobody"])
    assert result.exit_code == 2
    assert "there is no family named 'nobody'; the families are: arrays" in result.stderr


def test_every_family_is_there() -> None:
    for name in FAMILIES:
        assert callable(family(name))


def test_a_refusal_is_one_short_line_of_the_right_kind() -> None:
    def fail(error: Exception) -> object:
        raise error

    assert is_refused(lambda: fail(ValueError("x holds NaN")), "nan") is None
    for error, told in (
        (ValueError("x\nholds NaN"), "not one short line"),
        (ValueError("oh"), "does not name"),
        (KeyError("x holds nan"), "raises KeyError"),
    ):
        assert told in str(is_refused(lambda error=error: fail(error), "nan"))
    assert "answers" in str(is_refused(lambda: 3))
