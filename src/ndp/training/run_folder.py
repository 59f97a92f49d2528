"""The folder of a training run: its recipe, its state, its log, and the model so far.

recipe.json            all that the run depends on
state.safetensors      weights, their average, the optimiser's moments, and the step they belong to
log.csv                step, loss, learning rate, seconds, validation
model.safetensors, config.json      the model, as `ndp.load` reads it
"""

import csv
import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ndp.core.io.files import atomic_write, write_errors
from ndp.core.messages import first_line
from ndp.training.config import Recipe

_NAMES = ("recipe.json", "state.safetensors", "log.csv", "model.safetensors", "config.json")
_COLUMNS = ["step", "loss", "learning_rate", "seconds", "validation"]
LONGEST_STEP = 16  # digits; Python reads no number of thousands


@dataclass(frozen=True)
class TrainingState:
    """All that a run needs in order to go on."""

    step: int
    seconds: float
    tensors: dict[str, Tensor]

    def to(self, device: torch.device) -> "TrainingState":
        """The same on another device."""
        moved = {name: tensor.detach().contiguous().to(device) for name, tensor in self.tensors.items()}
        return TrainingState(self.step, self.seconds, moved)

    def check_finite(self) -> None:
        """Raise a FloatingPointError if a number is NaN or infinite: the run has diverged."""
        bad = [name for name, tensor in self.tensors.items() if not bool(tensor.isfinite().all())]
        if bad:
            raise FloatingPointError(f"{bad[0]} holds NaN or infinity at step {self.step}, which is not saved")

    def digest(self) -> str:
        """A checksum of the step, the seconds and every number; the tensors are on the CPU."""
        found = hashlib.sha256(f"{self.step} {self.seconds!r}".encode())
        for name, tensor in sorted(self.tensors.items()):
            found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
            found.update(tensor.numpy().tobytes())
        return found.hexdigest()


@dataclass(frozen=True)
class RunFolder:
    """A folder that belongs to one run."""

    path: Path

    @staticmethod
    def create(path: Path, recipe: Recipe, *, overwrite: bool = False) -> "RunFolder":
        """A new run. A folder that already holds something is left alone unless `overwrite`."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            if not overwrite:
                raise ValueError(f"{path} is not empty; choose another folder, --resume it, or --overwrite it")
            if not (path / "recipe.json").exists():
                raise ValueError(f"{path} is not the folder of a run, and is not overwritten")
            for name in _NAMES:
                (path / name).unlink(missing_ok=True)
        folder = RunFolder(path)
        folder.write_recipe(recipe)
        return folder

    def write_recipe(self, recipe: Recipe) -> None:
        """Replace the recipe."""
        with atomic_write(self.path / "recipe.json") as temporary:
            temporary.write_text(json.dumps(recipe.as_dict(), indent=1) + "\n")

    def recipe(self) -> Recipe:
        path = self.path / "recipe.json"
        try:
            settings = json.loads(path.read_text())
        except FileNotFoundError:
            raise ValueError(f"{self.path} is not the folder of a run: it has no recipe.json") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is not JSON: {first_line(error)}") from error
        if not isinstance(settings, dict):
            raise ValueError(f"{path} is not a recipe: it holds no settings")
        try:
            return Recipe.from_dict(settings)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def discard_without_state(self) -> None:
        """Remove a run that failed before its first state, so that its folder can be used again."""
        if (self.path / "state.safetensors").exists():
            return
        for name in ("recipe.json", "log.csv"):
            (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):  # it holds something else
            self.path.rmdir()

    def load_state(self, device: torch.device) -> TrainingState | None:
        """The state that was last saved, if any."""
        path = self.path / "state.safetensors"
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            state = TrainingState(int(about["step"]), float(about["seconds"]), tensors)
        except KeyError as error:
            raise ValueError(f"{path} is damaged and cannot be resumed from: it has no {first_line(error)}") from error
        except (SafetensorError, ValueError) as error:
            raise ValueError(f"{path} is damaged and cannot be resumed from: {first_line(error)}") from error
        if about.get("sha256") != state.digest():
            raise ValueError(
                f"{path} is damaged or was changed, and cannot be resumed from: its checksum does not match"
            )
        return state.to(device)

    def saved(self) -> tuple[int, float]:
        """The step of the last saved state, and the seconds that the run had taken by then; zeros where there is none."""
        state = self.load_state(torch.device("cpu"))
        return (0, 0.0) if state is None else (state.step, state.seconds)

    def forget_after(self, step: int) -> None:
        """Remove what a run that was killed left after its last state: rows of the log, and files that were not finished."""
        for name in _NAMES:
            stem, _, ending = name.partition(".")
            for unfinished in self.path.glob(f".{stem}-*.{ending}"):
                unfinished.unlink()
        self._trim_log(step)

    def save_state(self, state: TrainingState) -> None:
        """Replace the last state by one whose numbers are finite; the write is atomic."""
        state = state.to(torch.device("cpu"))
        state.check_finite()
        about = {"step": str(state.step), "seconds": repr(state.seconds), "sha256": state.digest()}
        with atomic_write(self.path / "state.safetensors") as temporary:
            safetensors.torch.save_file(state.tensors, temporary, metadata=about)

    def log(
        self, step: int, loss: float, learning_rate: float, seconds: float, validation: float | None = None
    ) -> None:
        path = self.path / "log.csv"
        new = not path.exists()
        with write_errors(path), path.open("a", newline="") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(_COLUMNS)
            score = "" if validation is None else f"{validation:.6g}"
            writer.writerow([step, f"{loss:.6g}", f"{learning_rate:.6g}", f"{seconds:.1f}", score])

    def _trim_log(self, step: int) -> None:
        """Forget what was logged after the state that a run resumes from."""
        path = self.path / "log.csv"
        if not path.exists():
            return
        rows = [line.split(",") for line in path.read_text(errors="replace").splitlines()]
        kept = [row for row in rows if len(row) == len(_COLUMNS) and _is_step(row[0]) and int(row[0]) <= step]
        with atomic_write(path) as temporary, temporary.open("w", newline="") as file:
            csv.writer(file).writerows([_COLUMNS, *kept])


def _is_step(cell: str) -> bool:
    return cell.isdecimal() and len(cell) < LONGEST_STEP
