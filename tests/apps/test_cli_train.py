"""The commands `ndp train` and `ndp evaluate` as a user meets them, and the experiments."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import ndp
from benchmarks.__main__ import app as benchmarks_app
from command_line import call, read, sample


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--prior se", "a run needs a folder: --out FOLDER"),
        ("--out run", "either a prior or a table"),
        ("--out run --prior nothing", "no prior named 'nothing'"),
        ("--out run --prior se --dim two", "--dim takes whole numbers"),
        ("--out run --prior se --device cuda", "there is no CUDA device here"),
        ("--out run --data nowhere.csv", "there is no file nowhere.csv"),
        ("--out run --config nowhere.toml", "there is no file nowhere.toml"),
        ("--out used --prior se", "used is not empty"),
        ("--out used --prior se --overwrite", "used is not the folder of a run"),
        ("--resume used", "it has no recipe.json"),
        ("--resume used --prior se", "leave the other settings out"),
    ],
)
def test_a_mistake_in_training_is_one_line_and_makes_no_folder(folder: Path, arguments: str, message: str) -> None:
    (folder / "used").mkdir()
    (folder / "used" / "notes.txt").write_text("mine")
    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    result = call("train", *arguments.split())
    assert result.exit_code == 2
    assert re.fullmatch(rf"Error: .*{re.escape(message)}.*\n", result.stderr), result.stderr
    assert not (folder / "run").exists()
    assert [path.name for path in (folder / "used").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("evaluate step", "step was not trained on a Gaussian process with an exact posterior"),
        ("evaluate gp-se", "gp-se is an exact Gaussian process; name a diffusion model"),
        ("evaluate se --device cuda", "there is no CUDA device here; use --device cpu"),
        ("evaluate se --device tpu", "a device is auto, cpu or cuda, not 'tpu'"),
        (
            "train --prior se --model gpt --out run",
            "there are: ndp-paper, joint-paper, ndp, joint, gnp, convcnp",
        ),
    ],
)
def test_a_mistake_in_scoring_is_one_line(folder: Path, arguments: str, message: str) -> None:
    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    result = call(*arguments.split())
    assert result.exit_code == 2
    assert re.fullmatch(rf"Error: .*{re.escape(message)}.*\n", result.stderr), result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "regression --kernel rbf --rows truth",
            "there is no kernel named 'rbf'; there are: se, matern52, sawtooth, mixture",
        ),
        ("regression --device cuda --rows ours", "there is no CUDA device here; use --device cpu"),
        ("global-optimisation --model se", "se is not a joint model; train one with ndp train --model joint"),
        ("calibration --device cuda", "there is no CUDA device here; use --device cpu"),
    ],
)
def test_a_mistake_in_an_experiment_is_one_line(folder: Path, arguments: str, message: str) -> None:
    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    result = call(*arguments.split(), app=benchmarks_app)
    assert result.exit_code == 2
    assert re.fullmatch(rf"Error: .*{re.escape(message)}.*\n", result.stderr), result.stderr
    assert not (folder / "results").exists()


def test_a_model_is_trained_sampled_and_scored(folder: Path) -> None:
    config = 'prior = "se"\nsteps = 3\nbatch = 2\n[network]\nwidth = 16\nheads = 2\nblocks = 1\nlevel_width = 8\n'
    (folder / "run.toml").write_text(config)
    trained = call("train", "--config", "run.toml", "--out", "runs/small", "--device", "cpu", "--seed", "5")
    assert trained.exit_code == 0, trained.output
    assert "functions a second" in trained.stdout
    assert ndp.load("runs/small").about["recipe"]["seed"] == 5  # type: ignore[union-attr]
    assert sample("--out", "drawn.csv", model="runs/small").exit_code == 0
    assert np.isfinite(read(folder / "drawn.csv")["mean"]).all()
    scored = call(
        "evaluate", "runs/small", "--tasks", "3", "--draws", "64", "--steps", "2", "--json", "--device", "cpu"
    )
    assert scored.exit_code == 0, scored.output
    (result,) = json.loads(scored.stdout)
    assert result["net_gap"]["mean"] > 0.1, "it knows nothing yet"
    exported = call("export", "runs/small", "shared/small", "--half")
    assert exported.exit_code == 0, exported.output
    assert re.search(r"Model, 0.\d\d MB: shared/small", exported.stdout)
    assert {path.name for path in (folder / "shared" / "small").iterdir()} == {"config.json", "model.safetensors"}
    assert sample("--out", "half.csv", model="shared/small").exit_code == 0
    np.testing.assert_allclose(read(folder / "half.csv")["mean"], read(folder / "drawn.csv")["mean"], atol=0.02)
    for arguments, message in (
        (("runs/small", "shared/small"), "shared/small is not empty"),
        (("gp-se", "new"), "gp-se is exact: it has no weights to export"),
    ):
        assert message in call("export", *arguments).stderr
    few = ("--tasks", "2", "--draws", "64", "--steps", "3", "--device", "cpu", "--record")
    assert call("evaluate", "runs/small", *few).exit_code == 0
    (recorded,) = ndp.load("runs/small").about["scores"]["evaluations"]  # type: ignore[union-attr]
    assert (recorded["dim"], recorded["steps"]) == (1, 3)
    timed = call(
        "timing",
        "--model",
        "runs/small",
        "--repaint-levels",
        "2",
        "--threads",
        "1",
        "--out",
        "timed",
        app=benchmarks_app,
    )
    assert timed.exit_code == 0, timed.output
    timings = json.loads((folder / "timed" / "timing.json").read_text())["timings"]
    assert [one["calls"] for one in timings] == [0, 10, 20, 10]
    assert call("evaluate", "gp-se").exit_code == 2
