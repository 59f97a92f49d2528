"""A training run from its recipe to a saved model, with a progress bar: what `ndp train` does."""

import math
import os
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from ndp.core.devices import read_device
from ndp.core.messages import first_line
from ndp.models.registry import TrainedModel, write_model
from ndp.priors.registry import IMAGE_SETS, PRIORS
from ndp.processes.neural_process import HeldOutLikelihood
from ndp.processes.validation import Validation
from ndp.training.build import begin_with, model_of, validation_of
from ndp.training.config import Recipe
from ndp.training.data import TrainingData, read_data
from ndp.training.loop import Half, Progress, fit
from ndp.training.run_folder import RunFolder
from ndp.training.speed import Speed

# What a user may ask for: what that is to Fabric, and what is in float16, whose gradients `Update` scales and not Fabric.
PRECISIONS: dict[str, tuple[str, Half | None]] = {
    "32-true": ("32-true", None),
    **{str(half): ("32-true", half) for half in Half},
    "bf16-mixed": ("bf16-mixed", None),
}


@dataclass(frozen=True)
class Run:
    """A run that is ready to start or to resume: its folder and recipe, its data and model, and where it computes."""

    folder: RunFolder
    new: bool  # whether its folder was made for it
    recipe: Recipe
    data: TrainingData
    model: TrainedModel
    fabric: Fabric
    half: Half | None


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
) -> Run:
    """A run from what a user asked for on the command line. A mistake is reported before the folder is made."""
    if precision not in PRECISIONS:
        raise ValueError(f"--precision is one of {', '.join(PRECISIONS)}, not {precision!r}")
    if resume is not None and (set(settings) - {"learning_rate"} or config or out):
        raise ValueError(
            "--resume goes on with the recipe of its folder; leave the other settings out, but for --learning-rate"
        )
    if resume is None and out is None:
        raise ValueError("a run needs a folder: --out FOLDER (or --resume FOLDER)")
    for_fabric, half = PRECISIONS[precision]
    fabric = _fabric(device, devices, for_fabric)
    if resume is not None:
        folder = RunFolder(resume)
        recipe = folder.recipe()
        if settings:
            recipe = Recipe.from_dict(recipe.as_dict() | settings)
            if fabric.is_global_zero:
                folder.write_recipe(recipe)
    else:
        recipe = Recipe.from_dict((_read_toml(config) if config else {}) | settings)
    fabric.launch()
    data = read_data(recipe, fabric.device)
    model = model_of(recipe, data)
    if resume is None and out is not None:
        if recipe.start:
            begin_with(model, recipe.start)
        if fabric.is_global_zero:
            RunFolder.create(out, recipe, overwrite=overwrite)
        fabric.barrier()
        folder = RunFolder(out)
    elif recipe.start and not folder.saved()[0]:  # nothing was saved yet
        begin_with(model, recipe.start)
    return Run(folder, resume is None, recipe, data, model, fabric, half)


def train(
    run: Run,
    *,
    console: Console,
    save_every: int = 2000,
    validate_every: int = 2000,
    time_limit: float = math.inf,
) -> Speed:
    """Start or resume a run; its model is saved at the end, and its state on the way.

    A new run that fails before its first state leaves no folder.
    """
    try:
        return _train(run, console, save_every, validate_every, time_limit)
    except Exception:
        if run.new and run.fabric.is_global_zero:
            run.folder.discard_without_state()
        raise


def _train(run: Run, console: Console, save_every: int, validate_every: int, time_limit: float) -> Speed:
    model, recipe = run.model, run.recipe
    validation = validation_of(model, recipe, run.data, run.fabric.device)
    scores: dict[str, float] = {}
    with _progress_bar(console, shown=run.fabric.is_global_zero) as bar:
        task = bar.add_task("loss -", total=recipe.steps, rate="", score="")

        def report(progress: Progress) -> None:
            if not run.fabric.is_global_zero:
                return
            rate = f"{progress.step / max(progress.seconds, 1e-9):.0f} steps/s"
            bar.update(task, completed=progress.step, description=f"loss {progress.loss:.4f}", rate=rate)
            if progress.validation is not None:
                bar.update(task, score=f"{validation.unit} {progress.validation:.4f}")
                scores.update(_scores(validation, progress.validation))
                if len(validation.by_dim) > 1:
                    each = ", ".join(f"D = {dim} {value:.4f}" for dim, value in validation.by_dim.items())
                    console.print(f"step {progress.step}, {validation.unit}: {each}")
            run.folder.log(progress.step, progress.loss, progress.learning_rate, progress.seconds, progress.validation)

        speed = fit(
            model,
            list(run.data.sources),
            recipe,
            folder=run.folder,
            fabric=run.fabric,
            save_every=save_every,
            report=report,
            validate=validation,
            validate_every=validate_every,
            time_limit=time_limit,
            half=run.half,
        )
    if run.fabric.is_global_zero:
        minutes = round(run.folder.saved()[1] / 60, 2)
        model.about = _about(recipe) | {
            "minutes": minutes,
            "speed": {name: round(value, 3) for name, value in asdict(speed).items()},
            "scores": scores,
        }
        write_model(model, run.folder.path)
    return speed


def _scores(validation: Validation | HeldOutLikelihood, score: float) -> dict[str, float]:
    """The score and, where there are several numbers of input dimensions, the score at each."""
    each = {f"{validation.unit}, D = {dim}": value for dim, value in validation.by_dim.items()}
    found = {validation.unit: score} | (each if len(each) > 1 else {})
    return {name: round(value, 5) for name, value in found.items()}


def _about(recipe: Recipe) -> dict[str, Any]:
    """What a model is trained on, without where things are on this machine."""
    here = {"data_dir": Path(recipe.data_dir).name, "start": Path(recipe.start).name}
    return {"trained_on": describe(recipe), "recipe": recipe.as_dict() | here}


def _progress_bar(console: Console, *, shown: bool) -> ProgressBar:
    return ProgressBar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[score]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not shown,
    )


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
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML: {first_line(error)}") from error


def describe(recipe: Recipe) -> str:
    """What a model is trained on, in words."""
    if recipe.data:
        return f"functions of {Path(recipe.data).name}"
    if recipe.of_images:
        return f"{IMAGE_SETS[recipe.prior].title}; x in [-2, 2]^2"
    spec = PRIORS[recipe.prior]
    return f"{spec.title}; {spec.domain}"
