"""`python -m benchmarks ...`: the figures and tables, one command each."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ndp.apps.cli.common import read_dims, read_whole_numbers, told_plainly

app = typer.Typer(help="Figures and tables, one command each.", no_args_is_help=True)


@app.command()
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

    from ndp.core.io.files import atomic_write

    console = Console()
    table = Table("D", "choice", box=None, header_style="bold", title=f"{kernel}, {steps} steps", title_justify="left")
    for heading in ("net gap, nats a point", "error of mean", "ms a step"):
        table.add_column(heading, justify="right")
    rows = []
    with told_plainly(), console.status("Importing torch") as status:
        from benchmarks.choices import measure, selected

        for choice, dimension in selected(read_dims(dim) or (1, 2), only):
            status.update(f"D = {dimension}: {choice}")
            one = measure(choice, kernel, dimension, steps, batch, tasks, draws)
            rows.append(asdict(one))
            gap, error, speed = str(one.net_gap), f"{one.mean_error:.4f}", f"{one.milliseconds:.2f}"
            table.add_row(str(dimension), choice, gap, error, speed)
        with atomic_write(out) as temporary:
            temporary.write_text(json.dumps(rows, indent=1) + "\n")
    console.print(table)


@app.command()
def regression(
    models: Annotated[
        Path, typer.Option(help="Folder of trained models, named like gnp-se-1; the NDPs that ship need none.")
    ] = Path("runs/regression"),
    kernel: Annotated[
        str, typer.Option(help="se, matern52, sawtooth, mixture, or several with commas; the last two at D = 1.")
    ] = "se,matern52,sawtooth,mixture",
    dim: Annotated[str, typer.Option(help="Input dimensions.")] = "1,2,3",
    rows: Annotated[str, typer.Option(help="Only rows whose name holds one of these texts (commas between).")] = "",
    shift: Annotated[float, typer.Option(help="Move all inputs: 4 tests on [2, 6] instead of [-2, 2].")] = 0.0,
    draws: Annotated[str, typer.Option(help="Draws that a Gaussian is fitted to; empty: none.")] = "128,1024",
    density_tasks: Annotated[int, typer.Option(min=0, help="Test functions for densities (0: no densities).")] = 128,
    draw_tasks: Annotated[int, typer.Option(min=2, help="Test functions for estimates by draws.")] = 128,
    repaint_tasks: Annotated[int, typer.Option(min=2, help="Test functions for RePaint, which is slow.")] = 128,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    quick: Annotated[
        bool, typer.Option(help="Few tasks and a short RePaint: minutes on 2 cores, kept apart as regression-quick.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("results"),
) -> None:
    """The paper's log-likelihood table, all rows on the same functions (about an hour with a GPU for RePaint's sake).

    What was measured before stays in the table, so that it can be made in pieces.
    """
    from rich.console import Console
    from rich.table import Table

    from ndp.core.io.files import atomic_write

    console = Console()
    with told_plainly(), console.status("Importing torch") as status:
        from benchmarks.regression import KERNELS, OTHERS, ROWS, Settings, measure
        from benchmarks.regression_report import as_markdown, picture, read_scores, with_newer, write_scores

        settings = Settings(
            draws=read_whole_numbers("--draws", draws, "128 or 128,1024"),
            density_tasks=density_tasks,
            draw_tasks=draw_tasks,
            repaint_tasks=repaint_tasks,
            device=device,
        )
        name = "regression"
        if quick:
            settings = Settings(
                tasks=16,
                draws=(128,),
                draw_tasks=6,
                steps=10,
                density_tasks=6,
                repaint_levels=20,
                repaint_tasks=2,
                device=device,
            )
            name = "regression-quick"
        for one_kernel in kernel.split(","):
            if one_kernel not in (*KERNELS, *OTHERS):
                raise ValueError(
                    f"there is no kernel named {one_kernel!r}; there are: {', '.join((*KERNELS, *OTHERS))}"
                )
        for text in rows.split(","):
            if not any(text in row for row in ROWS):
                raise ValueError(f"no row's name holds {text!r}; there are: {', '.join(ROWS)}")
        chosen = [row for row in ROWS if any(text in row for text in rows.split(","))]
        before = read_scores(out / f"{name}.json")
        scores, missing = [], []
        for one_kernel in kernel.split(","):
            for one_dim in read_dims(dim) or (1, 2, 3):
                if one_kernel in OTHERS and one_dim != 1:
                    continue
                for row in chosen:
                    status.update(f"{one_kernel}, D = {one_dim}: {row}")
                    found = list(measure(row, one_kernel, one_dim, settings, models=models, shift=shift))
                    scores += found
                    if not found:
                        missing.append(f"{row} for {one_kernel} at D = {one_dim}")
                    write_scores(out / f"{name}.json", with_newer(before, scores))
            if one_kernel not in OTHERS:
                status.update(f"{one_kernel}: drawing the figure")
                picture(out / f"regression-{one_kernel}.png", one_kernel, models=models)
        with atomic_write(out / f"{name}.md") as temporary:
            temporary.write_text(as_markdown(with_newer(before, scores)))
    table = Table("kernel", "D", "row", "by", box=None, header_style="bold")
    for heading in ("nats a point", "gap to the exact GP", "calls", "ms a draw"):
        table.add_column(heading, justify="right")
    for s in scores:
        speed = "" if s.seconds_per_draw is None else f"{1e3 * s.seconds_per_draw:.3g}"
        cells = (s.kernel, str(s.dim), s.row, s.estimator, str(s.log_prob), str(s.gap or ""), str(s.calls or ""), speed)
        table.add_row(*cells)
    console.print(table)
    if missing:
        console.print(f"No model in {models}, so left out: {'; '.join(missing)}. [bold]ndp train --help[/] says how.")
    console.print(f"Numbers, table and figures: [bold]{out}/{name}*[/]")


@app.command()
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

    from ndp.core.io.files import atomic_write

    console = Console()
    table = Table("64 draws of 100 points", box=None, header_style="bold")
    for heading in ("calls", "seconds", "RePaint takes"):
        table.add_column(heading, justify="right")
    with told_plainly():
        with console.status("Importing torch") as status:
            from benchmarks.timing import measure

            timings = []
            for one in measure(model, threads=threads, repaint_levels=repaint_levels):
                timings.append(one)
                status.update(f"{one.method}: {one.seconds:.2f} s; RePaint takes minutes")
        for one in timings:
            table.add_row(
                one.method, str(one.calls), f"{one.seconds:.3f}", f"{timings[-1].seconds / one.seconds:,.0f} x"
            )
        with atomic_write(out) as temporary:
            temporary.write_text(json.dumps([asdict(one) for one in timings], indent=1) + "\n")
    console.print(table)


@app.command("bayesopt-speed")
def bayesopt_speed(
    model: Annotated[str, typer.Option(help="Name or folder of a model of functions of six inputs.")] = "bo-marginal",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: the GPU if there is one.")] = "auto",
    out: Annotated[Path, typer.Option(help="Where to write the numbers.")] = Path("results/bayesopt-speed.json"),
) -> None:
    """Seconds a step of an optimisation with 100 observations in D = 6: an NDP, and a GP that is refitted."""
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from ndp.core.io.files import atomic_write

    console = Console()
    table = Table("surrogate", "device", box=None, header_style="bold")
    for heading in ("candidates", "seconds a step"):
        table.add_column(heading, justify="right")
    with told_plainly():
        with console.status("Importing torch") as status:
            from benchmarks.bayesopt_speed import measure

            timings = []
            for one in measure(model, device=device, threads=threads):
                timings.append(one)
                status.update(f"{one.surrogate}: {one.seconds:.3f} s")
        for one in timings:
            table.add_row(one.surrogate, one.device, str(one.candidates), f"{one.seconds:.4f}")
        with atomic_write(out) as temporary:
            temporary.write_text(json.dumps([asdict(one) for one in timings], indent=1) + "\n")
    console.print(table)


@app.command("closed-form")
def closed_form(
    tasks: Annotated[int, typer.Option(min=2, help="Tasks a kernel.")] = 256,
    quick: Annotated[bool, typer.Option(help="Fewer tasks and settings for what is slow: seconds.")] = False,
    out: Annotated[Path, typer.Option(help="Where to write the numbers.")] = Path("results/closed-form.json"),
) -> None:
    """What each solver, RePaint and the likelihood lose with a perfect denoiser (about 10 minutes on 2 cores)."""
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from ndp.core.io.files import atomic_write

    console = Console()
    results = {}
    with told_plainly():
        for kernel in ("se", "matern52"):
            with console.status(f"{kernel}: importing torch and measuring"):
                from benchmarks.closed_form import measure

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
        with atomic_write(out) as temporary:
            temporary.write_text(json.dumps(results, indent=1) + "\n")
    console.print(f"Numbers: [bold]{out}[/]")
