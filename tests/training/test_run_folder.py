"""The folder of a run: its state, log and recipe, whole, unfinished or damaged."""

import csv
import subprocess
from pathlib import Path

import pytest
import safetensors.torch
import torch

from ndp.training.loop import Progress
from ndp.training.run_folder import RunFolder
from small_runs import CPU, SMALL, command, one_thread, recipe, weights_after


def test_a_step_that_fails_is_not_saved_half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = recipe()
    folder = RunFolder.create(tmp_path / "run", plan)
    plain = torch.optim.AdamW.step

    def fails(self: torch.optim.AdamW, *arguments: object) -> object:
        plain(self, *arguments)
        raise MemoryError

    weights_after(recipe(steps=1))
    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", fails)
        with pytest.raises(MemoryError):
            weights_after(plan, folder)
    assert folder.load_state(CPU) is None


@pytest.mark.parametrize("damage", ["step", "number", "name", "shape", "cut"])
def test_a_changed_state_is_refused(damage: str, tmp_path: Path) -> None:
    plan = recipe(steps=3)
    folder = RunFolder.create(tmp_path / "run", plan)
    weights_after(plan, folder)
    path = folder.path / "state.safetensors"
    with safetensors.safe_open(path, framework="pt") as file:
        about, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    first = next(iter(tensors))
    match damage:
        case "step":
            about["step"] = "99999"
        case "number":
            tensors[first].view(torch.int32).flatten()[0] ^= 1
        case "name":
            tensors["another"] = tensors.pop(first)
        case "shape":
            tensors[first] = tensors[first][None]
    safetensors.torch.save_file(tensors, path, metadata=about)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match="cannot be resumed"):
        folder.load_state(CPU)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": SMALL | {"width": 32}}, r"weight/embed.weight is torch.float32 of shape \[16, 1\], and not"),
        ({"network": SMALL | {"blocks": 2}}, "it lacks 'weight/blocks.1"),
        ({"network": SMALL | {"local_density": False}}, "it has an unknown '.*/blocks.0.density.weight'"),
        ({"optimiser": "adamw"}, "it lacks 'second/"),
    ],
)
def test_a_state_of_another_recipe_is_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", recipe(steps=3))
    weights_after(recipe(steps=3), folder)
    before = (folder.path / "state.safetensors").read_bytes()
    with pytest.raises(ValueError, match=f"the state is of another network or optimiser: {message}"):
        weights_after(recipe(steps=6, **changes), folder)
    assert (folder.path / "state.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    "rows",
    ["\n\nnot a step,1\n999,1,1,1,\n", "9" * 5000 + ",1,1,1,\n", '"' + "x" * 200_000, "\0\0\n", "2,1\n", "²,1,1,1,\n"],
)
def test_a_damaged_log_does_not_stop_a_run(rows: str, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", recipe(steps=8))

    def report(progress: Progress) -> None:
        folder.log(progress.step, progress.loss, progress.learning_rate, progress.seconds)

    weights_after(recipe(steps=4), folder, report=report, report_every=1)
    with (folder.path / "log.csv").open("a") as file:
        file.write(rows)
    weights_after(recipe(steps=8), folder, report=report, report_every=1)
    with (folder.path / "log.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file)] == [str(step) for step in range(1, 9)]


def test_a_run_that_was_killed_before_its_first_state_starts_its_log_anew(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", recipe(steps=2))
    folder.log(1, 0.5, 0.1, 1.0)
    weights_after(recipe(steps=2), folder)
    assert (folder.path / "log.csv").read_text().split() == ["step,loss,learning_rate,seconds,validation"]


def test_files_that_a_killed_run_did_not_finish_are_removed(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", recipe(steps=2))
    for name in (".state-abc.safetensors", ".log-abc.csv", ".model-x.safetensors"):
        (folder.path / name).write_text("unfinished")
    (folder.path / ".notes-of-mine.csv").write_text("precious")
    weights_after(recipe(steps=2), folder)
    assert sorted(path.name for path in folder.path.glob(".*")) == [".notes-of-mine.csv"]


@pytest.mark.parametrize(
    ("text", "message"), [("[" * 10**5, "is not JSON"), ("9" * 5000, "is not JSON"), ("[]", "no settings")]
)
def test_a_damaged_recipe_is_told(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        RunFolder(tmp_path).recipe()
    (tmp_path / "recipe.json").write_text('{"prior": "se", "steps": "many"}')
    with pytest.raises(ValueError, match=r"recipe\.json: steps must be a whole number, not 'many'"):
        RunFolder(tmp_path).recipe()


def test_a_failed_start_leaves_no_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = ["--prior", "se", "--learning-rate", "1e30", "--steps", "60", "--batch", "2", "--device", "cpu"]
    config = tmp_path / "small.toml"
    config.write_text("warmup = 0\nclip = 1e30\n[network]\n" + "".join(f"{n} = {v}\n" for n, v in SMALL.items()))
    found = subprocess.run(
        command(*settings, "--config", str(config), "--out", str(out)), env=one_thread(), capture_output=True, text=True
    )
    assert found.returncode == 2
    assert "start again with a lower learning rate" in found.stderr.replace("\n", " ")
    assert not out.exists()


def test_a_used_folder_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    RunFolder.create(folder, recipe())
    with pytest.raises(ValueError, match="is not empty"):
        RunFolder.create(folder, recipe())
    RunFolder.create(folder, recipe(steps=7), overwrite=True)
    assert RunFolder(folder).recipe().steps == 7
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    with pytest.raises(ValueError, match="is not overwritten"):
        RunFolder.create(other, recipe(), overwrite=True)
    assert (other / "thesis.txt").read_text() == "precious"


def test_a_damaged_state_is_reported(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", recipe())
    (folder.path / "state.safetensors").write_bytes(b"not a state")
    with pytest.raises(ValueError, match="is damaged and cannot be resumed"):
        folder.load_state(CPU)
