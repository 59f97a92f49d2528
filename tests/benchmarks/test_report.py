"""What an experiment hands over is written whole, and shown."""

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from benchmarks.figures import present
from benchmarks.report import Report, Table
from ndp.apps.cli import app


def made() -> Report:
    figure = Figure()
    figure.subplots().plot([0, 1])
    return Report(
        "trial", [Table("A table", ("name", "number"), [("one", "1.0")])], "It is seen.", {"one": 1.0}, figure
    )


def test_a_report_is_a_picture_and_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []

    def run(tell: object) -> Report:
        told.append("ran")
        return made()

    present(tmp_path / "new", run)
    assert told == ["ran"]
    assert (tmp_path / "new" / "trial.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "new" / "trial.json").read_text()) == {"one": 1.0, "seen": "It is seen."}
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["trial.json", "trial.png"]
    shown = capsys.readouterr().out
    assert all(words in shown for words in ("A table", "one", "It is seen.", "trial.png", "trial.json"))


@pytest.mark.parametrize("command", ["step", "marginalisation", "consistency", "calibration", "illustration"])
def test_every_figure_is_a_command_that_tells_mistakes_plainly(command: str, tmp_path: Path) -> None:
    runner = CliRunner()
    told = runner.invoke(app, ["reproduce", command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert [word for word in ("--quick", "--model", "--out", "--device") if word not in told.stdout] == []
    wrong = runner.invoke(app, ["reproduce", command, "--quick", "--model", "nobody", "--out", str(tmp_path)])
    assert wrong.exit_code == 2
    assert "there is no model and no folder named 'nobody'" in wrong.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_command_from_end_to_end(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["reproduce", "illustration", "--quick", "--model", "oracle-se", "--out", str(tmp_path)]
    )
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
