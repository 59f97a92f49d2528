"""`python -m benchmarks ...`: the paper's figures. Each command measures, writes a picture and numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks.commands import app
from ndp.apps.cli.common import read_dims, told_plainly

if TYPE_CHECKING:
    from benchmarks.drawing import Tell
    from benchmarks.report import Report

Quick = Annotated[bool, typer.Option(help="Fewer draws and tasks: under three minutes on two cores.")]
Out = Annotated[Path, typer.Option(help="Folder for the picture and the numbers.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: the GPU if there is one.")]
NeuralProcess = Annotated[
    str, typer.Option(help="Name or folder of a neural process to show beside it. Default: the shipped one, if any.")
]


def present(out: Path, run: "Callable[[Tell], Report]") -> None:
    """Run an experiment, write what it hands over, and print its tables and what is seen."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    with told_plainly():
        with console.status("Importing torch") as status:
            report = run(status.update)
            written = report.write(out)
        for one in report.tables:
            table = Table(box=None, header_style="bold", title=one.title, title_justify="left", padding=(0, 2, 0, 0))
            for index, heading in enumerate(one.headings):
                table.add_column(heading, justify="right" if index else "left")
            for row in one.rows:
                table.add_row(*row)
            console.print(table, "")
    console.print(report.seen, "")
    for kind, path in zip(("Picture", "Numbers"), written, strict=True):
        console.print(f"{kind}: [bold]{escape(str(path))}[/]", soft_wrap=True)


@app.command()
def step(
    model: Annotated[str, typer.Option(help="Name or folder of a model of steps.")] = "step",
    paper: Annotated[str, typer.Option(help="Another for RePaint, trained as in the paper. Default: the same.")] = "",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = Path("results"),
) -> None:
    """Steps at an unknown place: draws, jump positions and the bimodal marginal against the exact posterior."""

    def run(tell: "Tell") -> "Report":
        from benchmarks import step_report

        return step_report.reproduce(model, quick=quick, paper=paper, device=device, tell=tell)

    present(out, run)


@app.command()
def marginalisation(
    model: Annotated[str, typer.Option(help="Name or folder of a model of that prior.")] = "matern32-marginal",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = Path("results"),
) -> None:
    """Unknown lengthscales: draws coloured by their most likely one, and histograms, against the exact posterior."""

    def run(tell: "Tell") -> "Report":
        from benchmarks import marginalisation_report

        return marginalisation_report.reproduce(model, quick=quick, device=device, tell=tell)

    present(out, run)


@app.command()
def consistency(
    model: Annotated[str, typer.Option(help="Name or folder of a regression model.")] = "se",
    neural_process: NeuralProcess = "",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = Path("results"),
) -> None:
    """Whether a value depends on what else is asked for, and whether two values obey Bayes' rule."""

    def run(tell: "Tell") -> "Report":
        from benchmarks import consistency_report

        return consistency_report.reproduce(model, neural_process=neural_process, quick=quick, device=device, tell=tell)

    present(out, run)


@app.command()
def calibration(
    model: Annotated[list[str], typer.Option(help="Name or folder of a regression model; may be given again.")] = [  # noqa: B006
        "se",
        "matern52",
    ],
    dim: Annotated[str, typer.Option(help="Input dimensions.")] = "1",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = Path("results"),
) -> None:
    """Simulation-based calibration of the regression models: ranks, coverage, scores."""

    def run(tell: "Tell") -> "Report":
        from benchmarks import calibration_report

        return calibration_report.reproduce(model, dims=read_dims(dim) or (1,), quick=quick, device=device, tell=tell)

    present(out, run)


@app.command()
def illustration(
    model: Annotated[str, typer.Option(help="Name or folder of a model of squared exponential functions.")] = "se",
    neural_process: NeuralProcess = "",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = Path("results"),
) -> None:
    """One function, more and more of it observed: posterior draws of a Gaussian process, a neural process and the NDP."""

    def run(tell: "Tell") -> "Report":
        from benchmarks import illustration

        return illustration.reproduce(model, neural_process=neural_process, quick=quick, device=device, tell=tell)

    present(out, run)


@app.command()
def images(
    image_set: Annotated[str, typer.Option("--set", help="Sets of pictures, with commas.")] = "mnist,celeba32",
    data_dir: Annotated[
        str, typer.Option(help="Folder of the pictures, or of folders named mnist and celeba32; see ndp train.")
    ] = "",
    model: Annotated[str, typer.Option(help="Name or folder of a model of one set. Default: the shipped ones.")] = "",
    paper: Annotated[str, typer.Option(help="Folder of a model trained by the paper's recipe, for its row.")] = "",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = Path("results"),
) -> None:
    """Pictures completed from some of their pixels: draws, errors against the share that is known, likelihood."""
    chosen = image_set.split(",")
    with told_plainly():
        from benchmarks import images_report
        from ndp.priors.image import IMAGE_SETS

        for name in chosen:
            if name not in IMAGE_SETS:
                raise ValueError(f"there is no set of pictures named {name!r}; there are: {', '.join(IMAGE_SETS)}")
        if len(chosen) > 1 and (model or paper):
            raise ValueError("--model and --paper are of one set of pictures: name it with --set")
    for name in chosen:

        def run(tell: "Tell", name: str = name) -> "Report":
            return images_report.reproduce(
                name, data_dir=data_dir, model=model, paper=paper, quick=quick, device=device, tell=tell
            )

        present(out, run)


@app.command("image-scaling")
def image_scaling(
    quick: Annotated[bool, typer.Option(help="Up to 4,096 points only.")] = False,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="Where to write the numbers.")] = Path("results/image-scaling.json"),
) -> None:
    """Time and memory of the image network from 256 to 16,384 points, and images a second in training."""
    import json
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from ndp.core.io.files import atomic_write

    console = Console()
    table = Table("points", box=None, header_style="bold")
    for heading in ("seconds, forward and backward", "megabytes"):
        table.add_column(heading, justify="right")
    with told_plainly():
        with console.status("Importing torch") as status:
            from benchmarks import image_scaling as scaling
            from ndp.core.devices import read_device

            on_gpu = read_device(device).type == "cuda"
            costs = []
            for cost in scaling.measure(device, scaling.POINTS[:3] if quick else scaling.POINTS):
                costs.append(cost)
                table.add_row(f"{cost.points:,}", f"{cost.seconds:.4f}", f"{cost.megabytes:.1f}")
                status.update(f"{cost.points:,} points: {cost.seconds:.2f} s")
            status.update("Training steps")
            speed = scaling.images_a_second(device, batch=256 if on_gpu else 2)
        power = scaling.growth(costs)
        with atomic_write(out) as temporary:
            numbers = {"costs": [asdict(cost) for cost in costs], "growth": power, "images_a_second": speed}
            temporary.write_text(json.dumps(numbers, indent=1) + "\n")
    console.print(table)
    linear = "met" if power <= scaling.GROWTH else "NOT met"
    fast = ("met" if speed >= scaling.IMAGES_A_SECOND else "NOT met") if on_gpu else "asked of a GPU"
    console.print(f"Memory grows with power {power:.2f} of the points (at most {scaling.GROWTH}): {linear}")
    console.print(
        f"{speed:,.0f} images of 784 points a second in training (at least {scaling.IMAGES_A_SECOND:,}): {fast}"
    )
    console.print(f"Numbers: [bold]{out}[/]")


@app.command()
def bayesopt(
    models: Annotated[
        Path, typer.Option(help="Folder of trained models, named like anp-bo-marginal-3; the NDPs that ship need none.")
    ] = Path("runs/bayesopt"),
    objective: Annotated[str, typer.Option(help="Only these, with commas: hartmann3, rastrigin4, ackley5, ...")] = "",
    rows: Annotated[str, typer.Option(help="Only these rows, with commas, such as 'GPR, Random'.")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each row.")] = 20,
    evaluations: Annotated[int, typer.Option(min=0, help="Evaluations a run. Default: 25 an input, at most 100.")] = 0,
    quick: Quick = False,
    device: Device = "auto",
    out: Out = Path("results"),
) -> None:
    """Bayesian optimisation: regret of Thompson sampling with NDPs, refitted GPs, neural processes, and at random.

    Finished runs are kept in bayesopt.jsonl beside the picture: a command that was cut goes on where it was.
    """

    def run(tell: "Tell") -> "Report":
        from benchmarks import bayesopt_report

        return bayesopt_report.reproduce(
            quick=quick,
            seeds=seeds,
            evaluations=evaluations,
            objective=objective,
            rows=rows,
            models=models,
            runs=out / "bayesopt.jsonl",
            device=device,
            tell=tell,
        )

    present(out, run)


@app.command("global-optimisation")
def global_optimisation(
    model: Annotated[str, typer.Option(help="Name or folder of a joint model of one input.")] = "joint",
    paper: Annotated[str, typer.Option(help="Folder of another, trained as in the paper, for RePaint.")] = "",
    functions: Annotated[
        int | None, typer.Option(min=0, help="Functions to search in; 0: none, laws only. Default: 50, --quick 8.")
    ] = None,
    quick: Quick = False,
    device: Device = "auto",
    out: Out = Path("results"),
) -> None:
    """Minima by asking where they are: the law of x* given y*, and how many evaluations a search takes."""

    def run(tell: "Tell") -> "Report":
        from benchmarks import global_optimisation_report

        return global_optimisation_report.reproduce(
            model, paper=paper, quick=quick, device=device, tell=tell, functions=functions
        )

    present(out, run)


@app.command()
def universal(
    model: Annotated[str, typer.Option(help="Name or folder of a universal model.")] = "universal",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = Path("results"),
) -> None:
    """The universal model against fitted GPs and a random forest, on real tables, held-out functions and the clock."""

    def run(tell: "Tell") -> "Report":
        from benchmarks import universal_report

        return universal_report.reproduce(model, quick=quick, device=device, tell=tell)

    present(out, run)
