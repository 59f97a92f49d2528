"""`python -m benchmarks ...`: experiments without a figure."""

from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks.console import present
from benchmarks.options import RESULTS, Device, Out, Threads, app
from ndp.apps.cli.common import read_dims

if TYPE_CHECKING:
    from benchmarks.report import Outcome, Progress


@app.command("closed-form")
def closed_form(
    tasks: Annotated[int, typer.Option(min=2, help="Tasks a kernel.")] = 256,
    quick: Annotated[bool, typer.Option(help="Fewer tasks and settings for what is slow: seconds.")] = False,
    out: Out = RESULTS,
) -> None:
    """Measure what each solver, RePaint and the likelihood lose with a perfect denoiser (10 minutes on 2 cores)."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import closed_form

        return closed_form.reproduce(tasks=tasks, quick=quick, progress=progress)

    present(out, run)


@app.command()
def choices(
    kernel: Annotated[str, typer.Option(help="se or matern52.")] = "se",
    dim: Annotated[str, typer.Option(help="Input dimensions.")] = "1,2",
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each choice.")] = 4000,
    batch: Annotated[int, typer.Option(min=1, help="Functions a step.")] = 256,
    tasks: Annotated[int, typer.Option(min=2, help="Test functions.")] = 256,
    draws: Annotated[int, typer.Option(min=64, help="Draws a test function.")] = 1024,
    only: Annotated[str, typer.Option(help="Only choices whose name holds this text.")] = "",
    out: Out = RESULTS,
) -> None:
    """Compare the library's choices of attention, inputs and objective with alternatives (minutes on a GPU)."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import choices

        budget = choices.Budget(steps, batch, tasks, draws)
        return choices.reproduce(kernel, dims=read_dims(dim) or (1, 2), budget=budget, only=only, progress=progress)

    present(out, run)


@app.command()
def timing(
    model: Annotated[
        str, typer.Option(help="Name or folder of a trained model of functions of one input.")
    ] = "matern52",
    threads: Threads = 2,
    repaint_levels: Annotated[int, typer.Option(min=2, help="Levels T of RePaint; the paper's are 500.")] = 500,
    out: Out = RESULTS,
) -> None:
    """Time 64 draws of 100 points after 8 observations, by our solver and by RePaint, which takes minutes."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import timing

        return timing.reproduce(model, threads=threads, repaint_levels=repaint_levels, progress=progress)

    present(out, run)


@app.command()
def predictions(
    threads: Threads = 2,
    quick: Annotated[bool, typer.Option(help="1,000 rows: under a minute.")] = False,
    out: Out = RESULTS,
) -> None:
    """Time 100,000 predictions of ten inputs from 256 observations, and measure their memory (about ten minutes)."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import predictions

        return predictions.reproduce(threads=threads, quick=quick, progress=progress)

    present(out, run)


@app.command()
def tables(
    model: Annotated[str, typer.Option(help="Name or folder of a universal model.")] = "universal",
    group: Annotated[
        list[str] | None, typer.Option(help="Only this group: numeric, text or gaps, long; may be given again.")
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Only this table; may be given again.")] = None,
    quick: Annotated[bool, typer.Option(help="Two tables of each group: a minute or two.")] = False,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Compare the regressor with CatBoost, forests and GPs on tables of Python packages, with text, gaps and many rows.

    Scores are kept in tables.jsonl beside the numbers: an interrupted command continues where it stopped.
    """

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import tables

        return tables.reproduce(
            model,
            quick=quick,
            groups=group or (),
            only=table or (),
            runs=out / "tables.jsonl",
            device=device,
            progress=progress,
        )

    present(out, run)


@app.command()
def dask(
    quick: Annotated[bool, typer.Option(help="3,000 rows: under a minute.")] = False,
    out: Out = RESULTS,
) -> None:
    """Predict 100,000 rows on a local Dask cluster of two workers, and compare with one process (minutes)."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import dask_predictions

        return dask_predictions.reproduce(quick=quick, progress=progress)

    present(out, run)


@app.command("bayesopt-speed")
def bayesopt_speed(
    model: Annotated[str, typer.Option(help="Name or folder of a model of functions of six inputs.")] = "bo-marginal",
    threads: Threads = 2,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Time a step of an optimisation with 100 observations in D = 6, by an NDP and by a refitted GP."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import bayesopt_speed

        return bayesopt_speed.reproduce(model, device=device, threads=threads, progress=progress)

    present(out, run)


@app.command("image-scaling")
def image_scaling(
    quick: Annotated[bool, typer.Option(help="Up to 4,096 points only.")] = False,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Measure time and memory of the image network from 256 to 16,384 points, and its training speed."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import image_scaling

        return image_scaling.reproduce(quick=quick, device=device, progress=progress)

    present(out, run)


@app.command("playground-speed")
def playground_speed(
    clicks: Annotated[int, typer.Option(min=1, help="How often to click.")] = 40,
    draws: Annotated[int, typer.Option(min=1, max=64, help="Functions to draw.")] = 32,
    calls: Annotated[int, typer.Option(min=2, max=30, help="Solver calls a draw.")] = 7,
    out: Out = RESULTS,
) -> None:
    """Time the playground from a click in a real browser to the new functions (needs Chromium and playwright)."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import playground

        return playground.reproduce_speed(clicks=clicks, draws=draws, calls=calls, progress=progress)

    present(out, run)


@app.command("playground-load")
def playground_load(
    clients: Annotated[int, typer.Option(min=1, help="Clients at once.")] = 50,
    seconds: Annotated[float, typer.Option(min=1.0, help="For how long.")] = 60.0,
    out: Out = RESULTS,
) -> None:
    """Measure the playground under many clients: errors, seconds an answer, and memory of the server."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import playground

        return playground.reproduce_load(clients=clients, seconds=seconds, progress=progress)

    present(out, run)


@app.command()
def reliability(
    family: Annotated[
        list[str] | None, typer.Option(help="Only this family, such as tables; may be given again.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="One attempt in twenty: a minute or two.")] = False,
    out: Out = RESULTS,
) -> None:
    """Try to break the library in 2,000 ways, and count how often it held: damaged files, odd input, kills, load."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks.reliability import report

        return report.reproduce(family or (), quick=quick, progress=progress)

    present(out, run)
