"""`ndp reproduce ...`: the figures and tables, one command each."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ndp.cli.common import read_dims, told_plainly

reproduce = typer.Typer(help="Figures and tables, one command each.", no_args_is_help=True)


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
    with told_plainly(), console.status("Importing torch") as status:
        from ndp.experiments.choices import measure, selected

        for choice, dimension in selected(read_dims(dim) or (1, 2), only):
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
    with told_plainly():
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
    with told_plainly():
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
