"""The command `ndp`. Commands read, call the library and write; what takes long to import is imported where it is used."""

import json
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
    table = Table("posterior", box=None, header_style="bold")
    for heading in ("calls a draw", "error of mean", "error of std", "log-density a point"):
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
def models() -> None:
    """List the models that there are."""
    from ndp.models import names

    for name in names():
        typer.echo(name)


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

    from ndp.tables import whole_file

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
        yield
    except (ValueError, OSError) as error:
        typer.secho(f"Error: {error}", fg=typer.colors.RED, err=True)
        raise typer.Exit(code=2) from None
