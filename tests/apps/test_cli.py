"""The command `ndp` as a user meets it."""

import math
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

import ndp
from benchmarks.__main__ import app as benchmarks_app
from command_line import call, is_a_picture, read, sample
from ndp.apps.cli import app
from ndp.apps.demo import read_data

# demo


def test_the_demo_draws_a_picture_and_compares(folder: Path) -> None:
    result = call("demo", "--draws", "2", "--steps", "7", "--out", "pictures/demo.png")
    assert result.exit_code == 0, result.output
    assert "Table: nile.csv" in result.stdout
    assert is_a_picture(folder / "pictures" / "demo.png")
    assert "Picture: pictures/demo.png" in result.stdout
    rows: dict[str, Any] = {}
    for line in result.stdout.splitlines():
        if found := re.fullmatch(r" *(.+?)  +(\S+) +(\d+)% +(\S+) *", line):
            rows[found[1]] = tuple(map(float, found.groups()[1:]))
    ours, fitted = rows["Neural diffusion process"], rows["Gaussian process"]
    # The normal law of all observations has -1.42 nats; much of what is left is noise, which nobody predicts.
    for log_prob, coverage, _ in (ours, fitted):
        assert -1.35 < log_prob < -1.1
        assert 82 <= coverage <= 97


def test_the_demo_takes_a_table_of_ones_own(folder: Path) -> None:
    rows = "".join(f"{hour},{20 + 5 * math.sin(hour / 3):.3f}\n" for hour in range(24))
    (folder / "own.csv").write_text(f"hour,degrees\n{rows}")
    result = call("demo", "--context", "own.csv", "--draws", "2", "--steps", "7", "--out", "own.png")
    assert result.exit_code == 0, result.output
    assert is_a_picture(folder / "own.png")


def test_the_demo_says_so_where_a_table_is_longer_than_the_model_knows(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text("x,y\n" + "".join(f"{row},{row % 7}\n" for row in range(300)))
    with pytest.warns(UserWarning, match="300 observations are more than the 256 .* a random 256 of them are used"):
        assert len(read_data(tmp_path / "long.csv").y) == 256


# sample


@pytest.mark.parametrize("model", ["gp-se", "oracle-matern52"])
def test_samples_are_those_of_the_library(folder: Path, model: str) -> None:
    result = sample(
        "--context", "context.csv", "--out", "new/draws.csv", "--plot", "new/plot.png", "--seed", "3", model=model
    )
    assert result.exit_code == 0, result.output
    assert "4 draws at 3 inputs: new/draws.csv" in result.stdout
    assert "Picture: new/plot.png" in result.stdout
    assert is_a_picture(folder / "new" / "plot.png")
    assert sorted(path.name for path in (folder / "new").iterdir()) == ["draws.csv", "plot.png"]

    x, y, noise = np.loadtxt(folder / "context.csv", delimiter=",", skiprows=1).T
    posterior = ndp.load(model).condition(x, y, noise=noise)
    x_new = np.array([-0.5, 0.9, 0.1])
    mean, std = posterior.moments(x_new)
    draws = posterior.sample(x_new, 4, generator=torch.Generator().manual_seed(3))
    table = read(folder / "new" / "draws.csv")
    assert list(table) == ["x1", "mean", "std", "draw1", "draw2", "draw3", "draw4"]
    expected = [x_new, mean, std, *np.asarray(draws)]
    np.testing.assert_allclose(list(table.values()), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("noise", [[], ["--function"], ["--observation-noise"]])
@pytest.mark.parametrize("context", [[], ["--context", "nothing.csv"]])
def test_without_observations_samples_are_of_the_prior(folder: Path, context: list[str], noise: list[str]) -> None:
    result = sample(*context, *noise, "--plot", "plot.png")
    assert result.exit_code == 0, result.output
    table = read(folder / "draws.csv")
    noisy = noise == ["--observation-noise"]
    np.testing.assert_array_equal(table["mean"], 0)
    np.testing.assert_allclose(table["std"], np.sqrt(1 + noisy * 0.05**2), rtol=1e-6)
    x, generator = np.array([-0.5, 0.9, 0.1]), torch.Generator().manual_seed(0)
    prior = ndp.load("gp-se").sample(x, 4, observation_noise=noisy, generator=generator)
    np.testing.assert_allclose([table[f"draw{i}"] for i in range(1, 5)], prior, rtol=1e-6)
    assert is_a_picture(folder / "plot.png")


def test_samples_in_two_dimensions(folder: Path) -> None:
    result = sample("--context", "context2.csv", "--observation-noise", at="at2.csv")
    assert result.exit_code == 0, result.output
    table = read(folder / "draws.csv")
    gain = 1 / (1 + 0.05**2)
    cross = np.array([1.0, np.exp(-2 / (2 * 2 / 16))])  # at squared distances 0 and 2, with lengthscale sqrt(2) / 4
    np.testing.assert_allclose(table["mean"], 0.5 * gain * cross, rtol=1e-6)
    np.testing.assert_allclose(table["std"], np.sqrt(1 + 0.05**2 - gain * cross**2), rtol=1e-6)


def test_a_model_with_one_kind_of_values_cannot_draw_the_other(folder: Path) -> None:
    assert sample("--observation-noise", model="oracle-se").exit_code == 0
    result = sample("--function", "--out", "none.csv", model="oracle-se")
    assert result.exit_code == 2
    assert "Error: this model has one kind of values" in result.stderr
    assert not (folder / "none.csv").exists()


@pytest.mark.parametrize("model", ["gp-se", "oracle-se"])
def test_a_seed_fixes_every_digit(folder: Path, model: str) -> None:
    written = []
    for seed in ("7", "7", "8"):
        assert sample("--context", "context.csv", "--seed", seed, model=model).exit_code == 0
        written.append((folder / "draws.csv").read_bytes())
    assert written[0] == written[1]
    assert written[0] != written[2]


@pytest.mark.parametrize("ending", ["svg", "pdf", "PNG", "jpg"])
def test_the_ending_of_a_plot_is_its_kind(folder: Path, ending: str) -> None:
    assert sample("--plot", f"plot.{ending}").exit_code == 0
    start = (folder / f"plot.{ending}").read_bytes()[:64]
    assert {"svg": b"<?xml", "pdf": b"%PDF", "PNG": b"\x89PNG", "jpg": b"\xff\xd8\xff"}[ending] in start


@pytest.mark.parametrize("name", ["[bold].csv", "[/].csv", "a" * 150 + ".csv"])
def test_any_name_of_a_file_is_printed_as_it_is(folder: Path, name: str) -> None:
    result = sample("--out", name)
    assert result.exit_code == 0, result.output
    assert f"4 draws at 3 inputs: {name}\n" in result.stdout
    assert (folder / name).is_file()


# serve


def test_a_page_that_cannot_be_served_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = call("serve", "--no-open", "--port", str(port))
    assert result.exit_code == 2
    assert re.search(rf"Error: cannot listen at 127.0.0.1:{port}: .*; try another --port\n", result.stderr)


# models and help


def test_models_are_listed_and_can_be_loaded() -> None:
    result = call("models")
    assert result.exit_code == 0
    listed = re.findall(r"(?:gp|oracle)-\w+", result.stdout)
    assert listed == ["gp-se", "gp-matern52", "oracle-se", "oracle-matern52"]
    for name in ("se", "matern52", "step", "matern32-marginal"):
        assert re.search(rf"^ *{name} .*\d MB *$", result.stdout, re.MULTILINE)
        assert isinstance(ndp.load(name), ndp.NDP)
    posteriors = [ndp.load(name).condition(np.zeros(1), np.ones(1)) for name in listed]
    stds = [np.asarray(posterior.std(np.zeros(1), observation_noise=True)) for posterior in posteriors]
    np.testing.assert_allclose(stds, np.sqrt(1 + 0.05**2 - 1 / (1 + 0.05**2)), rtol=0.02)  # for every kernel alike


def test_names_of_models_are_whole_on_a_narrow_screen() -> None:
    result = CliRunner().invoke(app, ["models"], env={"COLUMNS": "80", "NO_COLOR": "1"})
    lines = result.stdout.splitlines()
    for name in ("matern32-marginal", "universal"):
        assert any(line.split()[:1] == [name] for line in lines), result.stdout


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([], ["demo", "sample", "models", "export", "predict", "complete", "evaluate", "train", "serve"]),
        (["demo"], ["--context", "--out", "--draws", "--steps", "--seed", "Draw the functions behind a table"]),
        (["sample"], ["--model", "--at", "--context", "--draws", "--out", "--plot", "--seed", "Draw functions"]),
        (["sample"], ["--observation-noise", "--function"]),
        (["predict"], ["--target", "--at", "--out", "--plot", "--category", "--explain", "--seed", "Predict a column"]),
        (["complete"], ["--mask", "--model", "--draws", "--steps", "--size", "--out", "--seed", "Complete a picture"]),
        (["evaluate"], ["--tasks", "--draws", "--steps", "--dim", "--shift", "--json", "--record", "Score a model"]),
        (["models"], ["List the models"]),
        (["export"], ["--half", "Copy the weights"]),
    ],
)
def test_help_names_every_option(command: list[str], words: list[str]) -> None:
    result = call(*command, "--help")
    assert result.exit_code == 0
    assert [word for word in words if word not in result.stdout] == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([], ["closed-form", "choices", "timing"]),
        (["closed-form"], ["--tasks", "--quick", "--out", "perfect denoiser"]),
    ],
)
def test_the_help_of_the_experiments_names_every_option(command: list[str], words: list[str]) -> None:
    result = call(*command, "--help", app=benchmarks_app)
    assert result.exit_code == 0
    assert [word for word in words if word not in result.stdout] == []


def test_the_old_command_for_experiments_says_where_they_are() -> None:
    result = call("reproduce", "regression", "--quick")
    assert result.exit_code == 2
    assert re.fullmatch(r"Error: .* python -m benchmarks regression --quick\n", result.stderr)
    assert "reproduce" not in call("--help").stdout


def test_help_does_not_wait_for_torch() -> None:
    code = """
import sys
from ndp.apps.cli import app
try:
    app(["sample", "--help"])
except SystemExit:
    print("loaded:", [name for name in ("torch", "gpytorch", "numpy", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "loaded: []"


# What is wrong


def assert_told_in_one_line(result: Result, message: str, folder: Path, before: list[str]) -> None:
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert re.search(message, result.stderr), result.stderr
    assert "Traceback" not in result.output
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--model gp --at at.csv",
            "no model and no folder named 'gp'; the models are: .*gp-se, gp-matern52, oracle-se, oracle-matern52$",
        ),
        ("--model gp-se --at none.csv", "there is no file none.csv$"),
        ("--model gp-se --at at.csv --context none.csv", "there is no file none.csv$"),
        ("--model gp-se --at .", "is a folder, not a CSV file$"),
        ("--model gp-se --at at.csv --context text.csv", "text.csv, row 3, column y: a number .* there is 'many'$"),
        ("--model gp-se --at at.csv --context no-y.csv", "no-y.csv has no column y; its columns are: x1$"),
        ("--model gp-se --at picture.csv", "picture.csv is not a CSV file"),
        ("--model gp-se --at nothing.csv", "nothing.csv holds no rows"),
        ("--model gp-se --at at.csv --context context2.csv", "context2.csv has 2 input dimensions and at.csv has 1$"),
        ("--model gp-se --at at2.csv --context context.csv", "context.csv has 1 input dimensions and at2.csv has 2$"),
        ("--model gp-se --at at2.csv --plot plot.png", "a plot needs one input dimension; at2.csv has 2$"),
        (
            "--model gp-se --at at.csv --plot plot.bmp",
            r"cannot draw plot.bmp as .bmp; use one of .png, .svg, .pdf, .jpg$",
        ),
        ("--model gp-se --at at.csv --plot plot", "cannot draw plot without an ending; use one of .png"),
        ("--model gp-se --at at.csv --out .", "cannot write .: it is a folder$"),
        ("--model gp-se --at at.csv --out at.csv/draws.csv", "cannot write at.csv/draws.csv: at.csv is not a folder$"),
        # Where one of the two files cannot be written, the other is not either.
        ("--model gp-se --at at.csv --plot plot.png --out .", "cannot write .: it is a folder$"),
        ("--model gp-se --at at.csv --plot at.csv/plot.png", "cannot write at.csv/plot.png: at.csv is not a folder$"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_file(folder: Path, arguments: str, message: str) -> None:
    before = sorted(path.name for path in folder.iterdir())
    result = call("sample", "--draws", "2", *arguments.split())
    assert_told_in_one_line(result, message, folder, before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--context none.csv", "there is no file none.csv$"),
        ("--context text.csv", "text.csv, row 3, column y"),
        ("--context context2.csv", "the demo draws functions of one input, from two columns; context2.csv has 3"),
        (
            "--context at2.csv",
            "the demo needs at least 10 rows, and columns that are not constant; at2.csv falls short$",
        ),
        ("--out demo.bmp", "cannot draw demo.bmp as .bmp; use one of .png"),
    ],
)
def test_a_mistake_in_the_demo_is_one_line(folder: Path, arguments: str, message: str) -> None:
    before = sorted(path.name for path in folder.iterdir())
    assert_told_in_one_line(call("demo", *arguments.split()), message, folder, before)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("demo --draws 0", "--draws"),
        ("demo --steps 0", "--steps"),
        ("demo --seed -1", "--seed"),
        ("sample --model gp-se --at at.csv --draws few", "--draws"),
        ("sample --model gp-se --at at.csv --seed 1180591620717411303424", "--seed"),
        ("sample --at at.csv", "--model"),
        ("sample --model gp-se", "--at"),
        ("draw", "draw"),
    ],
)
def test_a_wrong_option_is_named(folder: Path, arguments: str, named: str) -> None:
    before = sorted(path.name for path in folder.iterdir())
    result = call(*arguments.split())
    assert result.exit_code == 2
    assert named in result.stderr
    assert "Traceback" not in result.output
    assert sorted(path.name for path in folder.iterdir()) == before
