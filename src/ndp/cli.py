"""The command `ndp`. Commands read, call the library and write; what takes long to import is imported where it is used."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Neural Diffusion Processes: distributions over functions, conditioned on what you observed.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
reproduce = typer.Typer(help="Figures and tables, one command each.", no_args_is_help=True)
app.add_typer(reproduce, name="reproduce")


@app.command()
def demo(
    context: Annotated[
        Path | None, typer.Option(help="CSV with columns x1 and y, and noise if it is known. Default: a shipped one.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("demo.png"),
    draws: Annotated[int, typer.Option(min=1, help="Functions to draw.")] = 64,
    steps: Annotated[int, typer.Option(min=1, help="Network calls a draw.")] = 20,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the draws.")] = 0,
) -> None:
    """Condition on a few points and see the functions that go through them."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    with _told_plainly(), console.status("Importing torch") as status:
        from ndp.demo import run, shipped_observations

        source = context or shipped_observations()
        console.print(f"Observations: [bold]{escape(source.name)}[/]", soft_wrap=True)
        status.update("Drawing functions")
        rows = run(source, out, draws=draws, steps=steps, seed=seed)
    table = Table("posterior", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("calls a draw", "mean error", "std error", "log-density"):
        table.add_column(heading, justify="right")
    for row in rows:
        calls = str(row.calls) if row.calls else "closed form"
        table.add_row(row.name, calls, f"{row.mean_error:.4f}", f"{row.std_error:.4f}", f"{row.log_prob:.4f}")
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
    with _told_plainly(), console.status("Importing torch") as status:
        from ndp.sampling import draw_to_files

        status.update(f"Drawing {draws} functions")
        count = draw_to_files(model, context=context, at=at, draws=draws, out=out, plot=plot, seed=seed)
    console.print(f"{draws} draws at {count} inputs: [bold]{escape(str(out))}[/]", soft_wrap=True)
    if plot:
        console.print(f"Picture: [bold]{escape(str(plot))}[/]", soft_wrap=True)


@app.command()
def train(
    prior: Annotated[
        str, typer.Option(help="Prior to learn: se, matern52, matern32-marginal, step, sawtooth, mixture.")
    ] = "",
    data: Annotated[
        Path | None,
        typer.Option(help="Table of your own functions instead: CSV, Parquet or NPZ with task, x1 to xD, y."),
    ] = None,
    dim: Annotated[str, typer.Option(help="Input dimensions to train at, such as 2 or 1,2,3.")] = "",
    config: Annotated[Path | None, typer.Option(help="TOML file with settings of a recipe; options here win.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Folder of a run to go on with.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the run that is in the folder.")] = False,
    steps: Annotated[int | None, typer.Option(min=1, help="Optimiser steps.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Functions a step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Seed of weights and functions.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    devices: Annotated[int, typer.Option(min=1, help="Devices of one machine; torchrun sets it by itself.")] = 1,
    precision: Annotated[str, typer.Option(help="32-true or bf16-mixed.")] = "32-true",
    save_every: Annotated[int, typer.Option(min=1, help="Steps between saved states.")] = 2000,
    time_limit: Annotated[float, typer.Option(min=0.0, help="Minutes after which the run ends early (0: none).")] = 0.0,
) -> None:
    """Train a model on a prior, or on your own functions.

    Ctrl-C saves the state; [bold]ndp train --resume FOLDER[/] goes on exactly where it was.
    """
    from rich.console import Console

    console = Console()
    with _told_plainly():
        with console.status("Importing torch"):
            from ndp.runs import prepare, train

        given = {
            "prior": prior or None,
            "data": str(data) if data else None,
            "dims": _dims(dim),
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
            _, speed = train(recipe, folder, fabric=fabric, console=console, save_every=save_every, time_limit=limit)
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
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of tasks and draws.")] = 1234,
) -> None:
    """Score a model against the exact process on the same tasks."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    with _told_plainly(), console.status("Importing torch") as status:
        from ndp.evaluation import evaluate_named

        results = []
        for result in evaluate_named(
            model, _dims(dim), tasks=tasks, draws=draws, steps=steps, shift=shift, device=device, seed=seed
        ):
            status.update(f"D = {result.dim} done in {result.seconds:.0f} s")
            results.append(result)
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


def _dims(text: str) -> tuple[int, ...] | None:
    """Input dimensions from text such as 1,2,3."""
    if not text:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--dim takes whole numbers such as 2 or 1,2,3, not {text!r}") from None


@app.command()
def models() -> None:
    """List the models that there are."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    with _told_plainly(), console.status("Importing torch"):
        from ndp.models import names, shipped

        known = shipped()
    table = Table("name", "trained on", "D", box=None, header_style="bold")
    for heading in ("net gap to the exact process, nats a point", "size"):
        table.add_column(heading, justify="right")
    for model in known:
        gaps = model.about.get("scores", {}).get("net_gap", {})
        quality = ", ".join(f"D = {dim}: {gap}" for dim, gap in gaps.items()) or "-"
        dims = ", ".join(map(str, model.input_dims))
        table.add_row(model.name, model.about["trained_on"], dims, quality, f"{model.size / 1e6:.2f} MB")
    if known:
        console.print(table)
    without_weights = [name for name in names() if name not in {model.name for model in known}]
    console.print(f"Without weights (exact, or driven by the exact denoiser): {', '.join(without_weights)}")


@reproduce.command()
def choices(
    kernel: Annotated[str, typer.Option(help="se or matern52.")] = "se",
    dim: Annotated[str, typer.Option(help="Input dimensions.")] = "1,2",
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each choice.")] = 4000,
    batch: Annotated[int, typer.Option(min=1, help="Functions a step.")] = 256,
    tasks: Annotated[int, typer.Option(min=2, help="Test functions.")] = 256,
    draws: Annotated[int, typer.Option(min=64, help="Draws a test function.")] = 1024,
    only: Annotated[str, typer.Option(help="Only choices whose name holds this text.")] = "",
    out: Annotated[Path, typer.Option(help="Where to write the numbers.")] = Path("results/choices.json"),
) -> None:
    """The library's choices of attention, inputs and objective against their alternatives (minutes on a GPU)."""
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from ndp.files import whole_file

    console = Console()
    table = Table("D", "choice", box=None, header_style="bold", title=f"{kernel}, {steps} steps", title_justify="left")
    for heading in ("net gap, nats a point", "error of mean", "ms a step"):
        table.add_column(heading, justify="right")
    rows = []
    with _told_plainly(), console.status("Importing torch") as status:
        from ndp.experiments.choices import measure, selected

        for choice, dimension in selected(_dims(dim) or (1, 2), only):
            status.update(f"D = {dimension}: {choice}")
            one = measure(choice, kernel, dimension, steps, batch, tasks, draws)
            rows.append(asdict(one))
            gap, error, speed = str(one.net_gap), f"{one.mean_error:.4f}", f"{one.milliseconds:.2f}"
            table.add_row(str(dimension), choice, gap, error, speed)
        with whole_file(out) as temporary:
            temporary.write_text(json.dumps(rows, indent=1) + "\n")
    console.print(table)


@reproduce.command()
def timing(
    model: Annotated[
        str, typer.Option(help="Name or folder of a trained model of functions of one input.")
    ] = "matern52",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    repaint_levels: Annotated[int, typer.Option(min=2, help="Levels T of RePaint; the paper's are 500.")] = 500,
    out: Annotated[Path, typer.Option(help="Where to write the numbers.")] = Path("results/timing.json"),
) -> None:
    """Seconds for 64 draws of 100 points after 8 observations, ours and by RePaint (minutes, for RePaint's sake)."""
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from ndp.files import whole_file

    console = Console()
    table = Table("64 draws of 100 points", box=None, header_style="bold")
    for heading in ("calls", "seconds", "RePaint takes"):
        table.add_column(heading, justify="right")
    with _told_plainly():
        with console.status("Importing torch") as status:
            from ndp.experiments.timing import measure

            timings = []
            for one in measure(model, threads=threads, repaint_levels=repaint_levels):
                timings.append(one)
                status.update(f"{one.method}: {one.seconds:.2f} s; RePaint takes minutes")
        for one in timings:
            table.add_row(
                one.method, str(one.calls), f"{one.seconds:.3f}", f"{timings[-1].seconds / one.seconds:,.0f} x"
            )
        with whole_file(out) as temporary:
            temporary.write_text(json.dumps([asdict(one) for one in timings], indent=1) + "\n")
    console.print(table)


@reproduce.command("closed-form")
def closed_form(
    tasks: Annotated[int, typer.Option(min=2, help="Tasks a kernel.")] = 256,
    quick: Annotated[bool, typer.Option(help="Fewer tasks and settings for what is slow: seconds.")] = False,
    out: Annotated[Path, typer.Option(help="Where to write the numbers.")] = Path("results/closed-form.json"),
) -> None:
    """What each solver, RePaint and the likelihood lose with a perfect denoiser (about 10 minutes on 2 cores)."""
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from ndp.files import whole_file

    console = Console()
    results = {}
    with _told_plainly():
        for kernel in ("se", "matern52"):
            with console.status(f"{kernel}: importing torch and measuring"):
                from ndp.experiments.closed_form import measure

                losses = measure(kernel, num_tasks=tasks, quick=quick)
            results[kernel] = [asdict(loss) for loss in losses]
            table = Table(
                "method", box=None, header_style="bold", title=f"{kernel}, nats a point", title_justify="left"
            )
            table.add_column("calls", justify="right")
            table.add_column("lost", justify="right")
            for loss in losses:
                table.add_row(loss.method, str(loss.calls), f"{loss.nats:.5f} ± {loss.standard_error:.5f}")
            console.print(table)
        with whole_file(out) as temporary:
            temporary.write_text(json.dumps(results, indent=1) + "\n")
    console.print(f"Numbers: [bold]{out}[/]")


@contextmanager
def _told_plainly() -> Iterator[None]:
    """A mistake in what the user gave is one line, not a traceback."""
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("default", UserWarning)
            yield
        for word in told:
            if issubclass(word.category, UserWarning):
                typer.secho(f"Note: {word.message}", fg=typer.colors.YELLOW, err=True)
    except (ValueError, OSError, FloatingPointError) as error:
        typer.secho(f"Error: {error}", fg=typer.colors.RED, err=True)
        raise typer.Exit(code=2) from None
