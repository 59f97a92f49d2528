"""The outcome of an experiment is written by atomic writes, and printed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from matplotlib.figure import Figure
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.console import present
from benchmarks.report import Report, Table

ROOT = Path(__file__).parents[2]


def made() -> Report:
    figure = Figure()
    figure.subplots().plot([0, 1])
    return Report(
        "trial", [Table("A table", ("name", "number"), [("one", "1.0")])], "It is seen.", {"one": 1.0}, figure
    )


def test_a_report_is_a_picture_and_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[str] = []

    def run(progress: object) -> Report:
        calls.append("ran")
        return made()

    present(tmp_path / "new", run)
    assert calls == ["ran"]
    assert (tmp_path / "new" / "trial.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "new" / "trial.json").read_text()) == {"one": 1.0, "findings": "It is seen."}
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["trial.json", "trial.png"]
    shown = capsys.readouterr().out
    assert all(words in shown for words in ("A table", "one", "It is seen.", "trial.png", "trial.json"))


def test_without_a_figure_there_are_numbers_and_a_failure_is_an_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failure = Report("one", [], "3 errors [sic].", {"errors": 3}, failed=True)
    with pytest.raises(typer.Exit) as exit_status:
        present(tmp_path, lambda progress: failure)
    assert exit_status.value.exit_code == 1
    assert json.loads((tmp_path / "one.json").read_text()) == {"errors": 3, "findings": "3 errors [sic]."}
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]
    assert "3 errors [sic]." in capsys.readouterr().out


def test_a_file_in_the_place_of_the_folder_is_told_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.json").touch()
    ran: list[object] = []
    with pytest.raises(typer.Exit) as exit_status:
        present(tmp_path / "one.json", ran.append)
    assert exit_status.value.exit_code == 2
    assert "one.json is a file; name a folder" in capsys.readouterr().err
    assert ran == []


def test_every_command_is_listed_with_a_sentence_and_nothing_heavy_is_imported() -> None:
    code = "import sys; from benchmarks.__main__ import app; app(['--help'], standalone_mode=False)"
    heavy = "print([name for name in ('torch', 'numpy', 'scipy', 'matplotlib') if name in sys.modules])"
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    listed = subprocess.run(
        [sys.executable, "-c", f"{code}; {heavy}"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=ROOT,
    ).stdout
    assert listed.rstrip().endswith("[]")
    commands = re.findall(r"^│ ([a-z-]+) +([A-Z].*[.)]) *│$", listed, re.MULTILINE)
    assert len(commands) == len(app.registered_commands) == 26
    assert not [words for _, words in commands if len(words.split()) > 25]


@pytest.mark.parametrize("command", ["step", "marginalisation", "consistency", "calibration", "illustration"])
def test_every_figure_is_a_command_that_names_mistakes_in_one_line(command: str, tmp_path: Path) -> None:
    runner = CliRunner()
    help_text = runner.invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert [word for word in ("--quick", "--model", "--out", "--device") if word not in help_text.stdout] == []
    wrong = runner.invoke(app, [command, "--quick", "--model", "nobody", "--out", str(tmp_path)])
    assert wrong.exit_code == 2
    assert "there is no model and no folder named 'nobody'" in wrong.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_command_from_end_to_end(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["illustration", "--quick", "--model", "oracle-se", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    numbers = json.loads((tmp_path / "illustration.json").read_text())
    names = "Gaussian process", "Neural diffusion process", "Attentive neural process"
    exact, ours, shipped = (
        max(panel["mean_error"] for panel in numbers["panels"] if panel["process"] == name) for name in names
    )
    assert exact < 1e-6
    assert ours < 0.01
    assert 0.05 < shipped < 0.5, "it is there to be compared with"
    assert "band closes around the function" in result.stdout
