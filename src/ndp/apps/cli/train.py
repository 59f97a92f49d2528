"""`ndp train`: a model of a prior, or of a user's own functions."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ndp.apps.cli.commands import app
from ndp.apps.cli.common import read_dims, user_errors

Flag = bool | None
MOST_A_STEP = 65_536


@app.command()
def train(
    prior: Annotated[
        str | None,
        typer.Option(
            help="Prior to learn: se, matern52, matern32-marginal, step, minima, sawtooth, mixture, universal; or mnist, "
            "celeba32.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="What to train: ndp, or joint for inputs too; to compare with them: ndp-paper, joint-paper, gnp, convcnp, "
            "convnp, anp, np. Default: ndp."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Table of your own functions instead: CSV, Parquet or NPZ with task, x1 to xD, y."),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option(help="Pictures of mnist or celeba32: a folder, an NPZ file, or a name for Hugging Face datasets."),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Trained model to start from, a name or a folder. Default: random weights.")
    ] = None,
    dim: Annotated[str, typer.Option(help="Numbers of input dimensions to train at, such as 2 or 1,2,3.")] = "",
    config: Annotated[Path | None, typer.Option(help="TOML file with settings of a recipe; options here win.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Folder of a run to go on with.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the run that is in the folder.")] = False,
    posterior_mean: Annotated[
        Flag,
        typer.Option(
            "--posterior-mean",
            help="Regress on the posterior mean in place of drawn functions: the same minimiser, reached sooner. For GPs, "
            "step and universal.",
        ),
    ] = None,
    gate_only: Annotated[
        Flag,
        typer.Option(
            "--gate-only",
            help="Train only the gate of the GP experts; the network of --start stays as it is. For universal.",
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, max=10**9, help="Optimiser steps.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, max=MOST_A_STEP, help="Functions a step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Seed of weights and functions.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    devices: Annotated[int, typer.Option(min=1, help="Devices of one machine; torchrun sets it by itself.")] = 1,
    precision: Annotated[
        str,
        typer.Option(
            help="32-true; 16-attention (attention in float16); 16-mixed (all layers in float16); or bf16-mixed, for images."
        ),
    ] = "32-true",
    save_every: Annotated[int, typer.Option(min=1, help="Steps between saved states.")] = 2000,
    time_limit: Annotated[float, typer.Option(min=0.0, help="Minutes after which the run ends early (0: none).")] = 0.0,
    expected: Annotated[Flag, typer.Option("--expected", hidden=True)] = None,
    trust_only: Annotated[Flag, typer.Option("--trust-only", hidden=True)] = None,
) -> None:
    """Train a model on a prior, or on your own functions.

    Ctrl-C saves the state; [bold]ndp train --resume FOLDER[/] goes on exactly where it was.
    """
    settings: dict[str, Any] = {
        "model": model,
        "prior": prior,
        "data": data,
        "data_dir": data_dir,
        "start": start,
        "posterior_mean": _renamed("--expected", expected, "--posterior-mean", posterior_mean),
        "gate_only": _renamed("--trust-only", trust_only, "--gate-only", gate_only),
        "steps": steps,
        "batch": batch,
        "learning_rate": learning_rate,
        "seed": seed,
    }
    with user_errors():
        settings["dims"] = read_dims(dim)
        _train(
            {name: value for name, value in settings.items() if value is not None},
            limit=60 * time_limit if time_limit else float("inf"),
            save_every=save_every,
            config=config,
            out=out,
            resume=resume,
            overwrite=overwrite,
            device=device,
            devices=devices,
            precision=precision,
        )


def _train(settings: dict[str, Any], *, limit: float, save_every: int, **options: Any) -> None:
    """Prepare a run, train it, and print how long its steps took."""
    from rich.console import Console

    console = Console()
    with console.status("Importing torch"):
        from ndp.core.devices import check_devices
        from ndp.training import run as runs

    check_devices(options["devices"], options["device"])
    run = runs.prepare(settings, **options)
    try:
        speed = runs.train(run, console=console, save_every=save_every, time_limit=limit)
    except KeyboardInterrupt:
        console.print(f"Stopped and saved. Go on with: [bold]ndp train --resume {run.folder.path}[/]", soft_wrap=True)
        raise typer.Exit(code=130) from None
    console.print(
        f"{speed.step:.2f} ms a step ({speed.drawing:.2f} drawing functions, {speed.network:.2f} network), "
        f"{speed.functions_per_second:,.0f} functions a second"
    )
    console.print(f"Model: [bold]{run.folder.path}[/]", soft_wrap=True)


def _renamed(old: str, old_value: Flag, new: str, value: Flag) -> Flag:
    """The value of an option that had another name in the first release."""
    if old_value is None:
        return value
    typer.secho(f"Note: {old} is deprecated: use {new}", fg=typer.colors.YELLOW, err=True)
    return old_value
