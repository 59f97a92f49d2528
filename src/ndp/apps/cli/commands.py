"""The command `ndp`. Commands read, call the library and write; what takes long to import is imported where it is used."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ndp.apps.cli.common import read_dims, told_plainly

app = typer.Typer(
    help="Neural Diffusion Processes: distributions over functions, conditioned on what you observed.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.command()
def demo(
    context: Annotated[
        Path | None, typer.Option(help="CSV with two columns, an input and a target. Default: the Nile, 1871 to 1970.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("demo.png"),
    draws: Annotated[int, typer.Option(min=1, help="Functions to draw.")] = 24,
    steps: Annotated[int, typer.Option(min=1, help="Network calls a draw.")] = 20,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the draws.")] = 0,
) -> None:
    """Give the pretrained model a table and see the functions behind it, beside a Gaussian process that was fitted to it."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    with told_plainly(), console.status("Importing torch") as status:
        from ndp.apps.demo import run, shipped_table

        source = context or shipped_table()
        console.print(f"Table: [bold]{escape(source.name)}[/]", soft_wrap=True)
        status.update("Drawing functions")
        rows = run(source, out, draws=draws, steps=steps, seed=seed)
    console.print("Each fifth of the rows, predicted from the others; seconds are the picture's:", soft_wrap=True)
    table = Table("", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("log-density", "in 90 % intervals", "seconds"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(row.name, f"{row.log_prob:.3f}", f"{row.coverage:.0%}", f"{row.seconds:.1f}")
    console.print(table)
    console.print(f"Picture: [bold]{escape(str(out))}[/]", soft_wrap=True)


@app.command()
def sample(
    model: Annotated[str, typer.Option(help="Name of a model; [bold]ndp models[/] lists them.")],
    at: Annotated[Path, typer.Option(help="CSV with the inputs to draw at: columns x1 to xD.")],
    context: Annotated[
        Path | None, typer.Option(help="CSV with observations: x1 to xD, y, and noise if known. Default: the prior.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Functions to draw.")] = 64,
    out: Annotated[Path, typer.Option(help="CSV to write: inputs, mean, std, one column a draw.")] = Path("draws.csv"),
    plot: Annotated[Path | None, typer.Option(help="Picture to write, for one input dimension.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the draws.")] = 0,
) -> None:
    """Draw functions from a model, given observations."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    with told_plainly(), console.status("Importing torch") as status:
        from ndp.apps.sampling import draw_to_files

        status.update(f"Drawing {draws} functions")
        count = draw_to_files(model, context=context, at=at, draws=draws, out=out, plot=plot, seed=seed)
    console.print(f"{draws} draws at {count} inputs: [bold]{escape(str(out))}[/]", soft_wrap=True)
    if plot:
        console.print(f"Picture: [bold]{escape(str(plot))}[/]", soft_wrap=True)


@app.command()
def complete(
    image: Annotated[Path, typer.Argument(help="A picture. Its middle square is taken, at the size of the model.")],
    mask: Annotated[
        str,
        typer.Option(help="What is known: upper, lower, left, right, random:0.1, or a picture that is white there."),
    ] = "upper",
    model: Annotated[str, typer.Option(help="Name or folder of a model of images. Default: by the colours.")] = "",
    draws: Annotated[int, typer.Option(min=1, help="Completions to draw.")] = 6,
    steps: Annotated[int, typer.Option(min=1, help="Network calls a draw.")] = 20,
    size: Annotated[
        int, typer.Option(min=0, help="Pixels of a side. Default: those that the model was trained on.")
    ] = 0,
    out: Annotated[Path, typer.Option(help="Picture to write: what is known, and the completions.")] = Path("out.png"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the draws.")] = 0,
) -> None:
    """Complete a picture of your own from some of its pixels."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    with told_plainly(), console.status("Importing torch") as status:
        from ndp.apps.completing import complete_to_file

        status.update(f"Drawing {draws} completions")
        complete_to_file(image, mask, out, model=model, draws=draws, steps=steps, size=size or None, seed=seed)
    console.print(f"Picture: [bold]{escape(str(out))}[/]", soft_wrap=True)


@app.command()
def train(
    prior: Annotated[
        str,
        typer.Option(
            help="Prior to learn: se, matern52, matern32-marginal, step, minima, sawtooth, mixture, universal; or mnist, "
            "celeba32."
        ),
    ] = "",
    model: Annotated[
        str,
        typer.Option(
            help="What to train: ndp, or joint for inputs too; or to compare with them ndp-paper, joint-paper, gnp, "
            "convcnp, convnp, anp, np."
        ),
    ] = "",
    data: Annotated[
        Path | None,
        typer.Option(help="Table of your own functions instead: CSV, Parquet or NPZ with task, x1 to xD, y."),
    ] = None,
    data_dir: Annotated[
        str,
        typer.Option(help="Pictures of mnist or celeba32: a folder, an NPZ file, or a name for Hugging Face datasets."),
    ] = "",
    start: Annotated[
        str, typer.Option(help="Trained model to start from, a name or a folder. Default: random weights.")
    ] = "",
    dim: Annotated[str, typer.Option(help="Input dimensions to train at, such as 2 or 1,2,3.")] = "",
    config: Annotated[Path | None, typer.Option(help="TOML file with settings of a recipe; options here win.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Folder of a run to go on with.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the run that is in the folder.")] = False,
    expected: Annotated[
        bool | None,
        typer.Option(
            "--expected",
            help="Learn expected functions in place of drawn ones: the same in the end, and sooner. For GPs, step, universal.",
        ),
    ] = None,
    trust_only: Annotated[
        bool | None,
        typer.Option(
            "--trust-only",
            help="Learn only when to trust a bank of Gaussian processes; the network of --start stays as it is. For universal.",
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Optimiser steps.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Functions a step.")] = None,
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
) -> None:
    """Train a model on a prior, or on your own functions.

    Ctrl-C saves the state; [bold]ndp train --resume FOLDER[/] goes on exactly where it was.
    """
    from rich.console import Console

    console = Console()
    with told_plainly():
        with console.status("Importing torch"):
            from ndp.training.run import prepare, train

        given = {
            "model": model or None,
            "prior": prior or None,
            "data": str(data) if data else None,
            "data_dir": data_dir or None,
            "start": start or None,
            "dims": read_dims(dim),
            "expected": expected,
            "trust_only": trust_only,
            "steps": steps,
            "batch": batch,
            "learning_rate": learning_rate,
            "seed": seed,
        }
        folder, recipe, fabric = prepare(
            {name: value for name, value in given.items() if value is not None},
            config=config,
            out=out,
            resume=resume,
            overwrite=overwrite,
            device=device,
            devices=devices,
            precision=precision,
        )
        limit = 60 * time_limit if time_limit else float("inf")
        try:
            _, speed = train(
                recipe,
                folder,
                fabric=fabric,
                console=console,
                save_every=save_every,
                time_limit=limit,
                precision=precision,
            )
        except KeyboardInterrupt:
            console.print(f"Stopped and saved. Go on with: [bold]ndp train --resume {folder.path}[/]", soft_wrap=True)
            raise typer.Exit(code=130) from None
    console.print(
        f"{speed.step:.2f} ms a step ({speed.drawing:.2f} drawing functions, {speed.network:.2f} network), "
        f"{speed.functions_per_second:,.0f} functions a second"
    )
    console.print(f"Model: [bold]{folder.path}[/]", soft_wrap=True)


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(help="Name or folder of a model trained on a prior with an exact posterior.")],
    tasks: Annotated[int, typer.Option(min=2, help="Test functions.")] = 512,
    draws: Annotated[int, typer.Option(min=64, help="Draws a task.")] = 1024,
    steps: Annotated[int, typer.Option(min=1, help="Network calls a draw.")] = 20,
    dim: Annotated[str, typer.Option(help="Input dimensions; default: all that the model supports.")] = "",
    shift: Annotated[float, typer.Option(help="Move all inputs by this much, out of the training range.")] = 0.0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    record: Annotated[bool, typer.Option(help="Write the scores into the model's folder as well.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of tasks and draws.")] = 1234,
) -> None:
    """Score a model against the exact process on the same tasks."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    with told_plainly(), console.status("Importing torch") as status:
        from ndp.models.evaluation import evaluate_named

        if record and not Path(model).is_dir():
            raise ValueError(f"--record writes into a model's folder, and {model} is not one")
        results = []
        for result in evaluate_named(
            model, read_dims(dim), tasks=tasks, draws=draws, steps=steps, shift=shift, device=device, seed=seed
        ):
            status.update(f"D = {result.dim} done in {result.seconds:.0f} s")
            results.append(result)
        if record:
            from ndp.models.checkpoint import record_scores

            record_scores(Path(model), [result.as_dict() for result in results])
    if as_json:
        typer.echo(json.dumps([result.as_dict() for result in results], indent=1))
        return
    table = Table("nats a point", box=None, header_style="bold")
    for result in results:
        table.add_column(f"D = {result.dim}", justify="right")
    rows = {
        "exact process": "exact",
        "exact, Gaussian fitted to draws": "exact_fitted",
        "model, Gaussian fitted to draws": "model_fitted",
        "net gap of the model": "net_gap",
        "gap of the model's own log-density": "ode_gap",
    }
    for title, name in rows.items():
        table.add_row(title, *(str(getattr(result, name)) for result in results))
    table.add_row("error of the posterior mean", *(f"{result.mean_error:.4f}" for result in results))
    for level in results[0].coverage:
        title = f"coverage of {float(level):.0%} intervals"
        table.add_row(title, *(f"{result.coverage[level]:.1%}" for result in results))
    console.print(table)


@app.command()
def export(
    model: Annotated[str, typer.Argument(help="Name or folder of a model, such as the folder of a run.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write weights and configuration to, and nothing else.")],
    half: Annotated[bool, typer.Option(help="Store the weights in 16 bits: half the size.")] = False,
) -> None:
    """Copy a model out of its run: what ndp.load needs, without the state of the training."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    with told_plainly(), console.status("Importing torch"):
        from ndp.models.registry import export

        size = export(model, folder, half=half)
    console.print(f"Model, {size / 1e6:.2f} MB: [bold]{escape(str(folder))}[/]", soft_wrap=True)


@app.command()
def models() -> None:
    """List the models that there are."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    with told_plainly(), console.status("Importing torch"):
        from ndp.models.registry import names, shipped

        known = shipped()
    table = Table("name", "model", "trained on", "D", "nats lost", box=None, header_style="bold")
    table.add_column("size", justify="right")
    for model in known:
        scores = model.about.get("scores", {})
        drawn = [one["net_gap"]["mean"] for one in scores.get("evaluations", []) if one["steps"] == 20]
        in_training = [scores[name] for dim in model.input_dims if (name := f"nats lost, D = {dim}") in scores]
        quality = ", ".join(f"{lost:.3f}" for lost in drawn or in_training) or "-"
        dims = ", ".join(map(str, model.input_dims))
        table.add_row(
            model.name, model.architecture, model.about["trained_on"], dims, quality, f"{model.size / 1e6:.2f} MB"
        )
    if known:
        console.print(table)
        console.print(
            "nats lost: a point, at each D, to the exact process; by draws in 20 network calls, or else as validated while "
            "training\n"
        )
    without_weights = [name for name in names() if name not in {model.name for model in known}]
    console.print(f"Without weights (exact, or driven by the exact denoiser): {', '.join(without_weights)}")
