"""A training run from its recipe to a saved model, with a progress bar: what `ndp train` does."""

import math
import os
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ndp.core.devices import read_device
from ndp.models.checkpoint import write_model
from ndp.priors.image import IMAGE_SETS
from ndp.priors.registry import PRIORS
from ndp.processes.joint import JointNDP
from ndp.processes.ndp import NDP
from ndp.processes.neural_process import NeuralProcess
from ndp.training import loop
from ndp.training.build import begin_with, make_model, make_sources, make_validation
from ndp.training.config import Recipe
from ndp.training.run_folder import RunFolder
from ndp.training.validation import Validation

# What a user may ask for: what that is to Fabric, and what is in float16, whose gradients `Update` scales and not Fabric.
PRECISIONS: dict[str, tuple[str, loop.Half | None]] = {
    "32-true": ("32-true", None),
    **{str(half): ("32-true", half) for half in loop.Half},
    "bf16-mixed": ("bf16-mixed", None),
}


def train(
    recipe: Recipe,
    folder: RunFolder,
    *,
    fabric: Fabric,
    console: Console,
    save_every: int = 2000,
    validate_every: int = 2000,
    time_limit: float = math.inf,
    precision: str = "32-true",
) -> tuple[NDP | JointNDP | NeuralProcess, loop.Speed]:
    """Start or resume the run of a folder; the model is saved at its end, and its state on the way."""
    fabric.launch()
    model = make_model(recipe)
    if recipe.start and not folder.seconds():
        begin_with(model, recipe.start)
    sources = make_sources(recipe, fabric.device)
    validation = make_validation(recipe, model, fabric.device)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[score]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    scores: dict[str, Any] = {}
    with Progress(*columns, console=console, disable=not fabric.is_global_zero) as bar:
        task = bar.add_task("loss -", total=recipe.steps, rate="", score="")

        def report(progress: loop.Progress) -> None:
            if not fabric.is_global_zero:
                return
            rate = f"{progress.step / max(progress.seconds, 1e-9):.0f} steps/s"
            bar.update(task, completed=progress.step, description=f"loss {progress.loss:.4f}", rate=rate)
            if progress.validation is not None:
                bar.update(task, score=f"{validation.unit} {progress.validation:.4f}")
                scores[validation.unit] = round(progress.validation, 5)
                if isinstance(validation, Validation) and len(recipe.dims) > 1:
                    each = {f"{validation.unit}, D = {dim}": value for dim, value in validation.by_dim.items()}
                    scores.update({name: round(value, 5) for name, value in each.items()})
                    console.print(
                        f"step {progress.step}, {validation.unit}: "
                        + ", ".join(f"D = {dim} {value:.4f}" for dim, value in validation.by_dim.items())
                    )
            folder.log(progress.step, progress.loss, progress.learning_rate, progress.seconds, progress.validation)

        speed = loop.fit(
            model,
            sources,
            recipe,
            folder=folder,
            fabric=fabric,
            save_every=save_every,
            report=report,
            validate=validation,
            validate_every=validate_every,
            time_limit=time_limit,
            half=PRECISIONS[precision][1],
        )
    if fabric.is_global_zero:
        model.about = {
            "trained_on": describe(recipe),
            "recipe": recipe.as_dict()  # without where things were on this machine
            | {"data_dir": Path(recipe.data_dir).name, "start": Path(recipe.start).name},
            "minutes": round(folder.seconds() / 60, 2),
            "speed": {name: round(value, 3) for name, value in asdict(speed).items()},
            "scores": scores,
        }
        write_model(model, folder.path)
    return model, speed


def prepare(
    settings: dict[str, Any],
    *,
    config: Path | None,
    out: Path | None,
    resume: Path | None,
    overwrite: bool,
    device: str,
    devices: int,
    precision: str,
) -> tuple[RunFolder, Recipe, Fabric]:
    """The folder, recipe and machine of a run, from what a user asked for on the command line."""
    if precision not in PRECISIONS:
        raise ValueError(f"--precision is one of {', '.join(PRECISIONS)}, not {precision!r}")
    fabric = _fabric(device, devices, PRECISIONS[precision][0])
    if resume is not None:
        if settings or config or out:
            raise ValueError("--resume goes on with the recipe of its folder; leave the other settings out")
        folder = RunFolder(resume)
        return folder, folder.recipe(), fabric
    if out is None:
        raise ValueError("a run needs a folder: --out FOLDER (or --resume FOLDER)")
    recipe = Recipe.from_dict((_read_toml(config) if config else {}) | settings)
    model = make_model(recipe)  # what is wrong with a recipe is said before its folder is made
    if recipe.start:
        begin_with(model, recipe.start)
    if fabric.global_rank == 0:
        return RunFolder.create(out, recipe, overwrite=overwrite), recipe, fabric
    return RunFolder(out), recipe, fabric


def _fabric(device: str, devices: int, precision: str) -> Fabric:
    device = read_device(device).type
    nodes = 1
    if "LOCAL_WORLD_SIZE" in os.environ:  # started by torchrun, which knows how many there are
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    return Fabric(accelerator=device, devices=devices, num_nodes=nodes, precision=precision)  # type: ignore[arg-type]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from error


def describe(recipe: Recipe) -> str:
    """What a model was trained on, in words."""
    if recipe.data:
        return f"functions of {Path(recipe.data).name}"
    if recipe.of_images:
        return f"{IMAGE_SETS[recipe.prior].title}; x in [-2, 2]^2"
    spec = PRIORS[recipe.prior]
    return f"{spec.title}; {spec.domain}"
