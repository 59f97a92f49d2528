"""`python -m benchmarks ...`: the paper's figures and tables. Experiments are imported when their command runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks.console import present, present_each
from benchmarks.options import RESULTS, Device, NeuralProcess, Out, Quick, Threads, app
from ndp.apps.cli.common import read_dims, read_whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.report import Outcome, Progress


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
    out: Annotated[Path, typer.Option(help="Folder to write into.")] = RESULTS,
) -> None:
    """Score every model of the paper's log-likelihood table on the same test functions.

    It takes about an hour with a GPU, most of it for RePaint. Earlier scores stay in the table, so it can be made in pieces.
    """

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import regression_table
        from benchmarks.regression import Settings

        settings = Settings(
            draws=read_whole_numbers("--draws", draws, "128 or 128,1024"),
            density_tasks=density_tasks,
            draw_tasks=draw_tasks,
            repaint_tasks=repaint_tasks,
            device=device,
        )
        selection = regression_table.Selection.of(kernel, read_dims(dim), rows)
        return regression_table.reproduce(
            selection, settings, quick=quick, models=models, shift=shift, out=out, progress=progress
        )

    present(out, run)


@app.command()
def step(
    model: Annotated[str, typer.Option(help="Name or folder of a model of steps.")] = "step",
    paper: Annotated[str, typer.Option(help="Another for RePaint, trained as in the paper. Default: the same.")] = "",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Compare draws of a step at an unknown place with the exact posterior."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import step_report

        return step_report.reproduce(model, quick=quick, paper=paper, device=device, progress=progress)

    present(out, run)


@app.command()
def marginalisation(
    model: Annotated[str, typer.Option(help="Name or folder of a model of that prior.")] = "matern32-marginal",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Compare draws under an unknown lengthscale with the exact posterior."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import marginalisation_report

        return marginalisation_report.reproduce(model, quick=quick, device=device, progress=progress)

    present(out, run)


@app.command()
def consistency(
    model: Annotated[str, typer.Option(help="Name or folder of a regression model.")] = "se",
    neural_process: NeuralProcess = "",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Measure whether a value depends on the other targets, and whether two values obey Bayes' rule."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import consistency_report

        return consistency_report.reproduce(
            model, neural_process=neural_process, quick=quick, device=device, progress=progress
        )

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
    out: Out = RESULTS,
) -> None:
    """Check the calibration of the regression models by simulation: ranks, coverage and scores."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import calibration_report

        dims = read_dims(dim) or (1,)
        return calibration_report.reproduce(model, dims=dims, quick=quick, device=device, progress=progress)

    present(out, run)


@app.command()
def illustration(
    model: Annotated[str, typer.Option(help="Name or folder of a model of squared exponential functions.")] = "se",
    neural_process: NeuralProcess = "",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Draw the posterior of one function with more and more observations, by a GP, a neural process and an NDP."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import illustration

        return illustration.reproduce(
            model, neural_process=neural_process, quick=quick, device=device, progress=progress
        )

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
    out: Out = RESULTS,
) -> None:
    """Complete pictures from some of their pixels, and measure errors and likelihood."""

    def run(progress: "Progress") -> "Iterable[Outcome]":
        from benchmarks import images_report

        return images_report.reproduce_each(
            image_set, data_dir=data_dir, model=model, paper=paper, quick=quick, device=device, progress=progress
        )

    present_each(out, run)


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
    out: Out = RESULTS,
) -> None:
    """Measure the regret of Thompson sampling with NDPs, refitted GPs and neural processes, and of random search.

    Finished runs are kept in bayesopt.jsonl beside the figure: an interrupted command continues where it stopped.
    """

    def run(progress: "Progress") -> "Outcome":
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
            progress=progress,
        )

    present(out, run)


@app.command("global-optimisation")
def global_optimisation(
    model: Annotated[str, typer.Option(help="Name or folder of a joint model of one input.")] = "joint",
    paper: Annotated[str, typer.Option(help="Folder of another, trained as in the paper, for RePaint.")] = "",
    functions: Annotated[
        int | None, typer.Option(min=0, help="Functions to search in; 0: no searches. Default: 50, --quick 8.")
    ] = None,
    quick: Quick = False,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Find minima by drawing where they are, p(x* | y*), and count the evaluations that it takes."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import global_optimisation_report

        return global_optimisation_report.reproduce(
            model, paper=paper, quick=quick, device=device, progress=progress, functions=functions
        )

    present(out, run)


@app.command()
def universal(
    model: Annotated[str, typer.Option(help="Name or folder of a universal model.")] = "universal",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Compare the universal model with fitted GPs and a random forest on real tables, held-out functions and time."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import universal_report

        return universal_report.reproduce(model, quick=quick, device=device, progress=progress)

    present(out, run)


@app.command()
def simulators(
    model: Annotated[str, typer.Option(help="Name or folder of a universal model.")] = "universal",
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these, one an option: NDP, SingleTaskGP, scikit-learn, grid experts, adaptive experts."
        ),
    ] = None,
    quick: Quick = False,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Compare the universal model with fitted GPs on noise-free simulators of one to ten inputs."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import simulators_report

        return simulators_report.reproduce(model, quick=quick, methods=method or (), device=device, progress=progress)

    present(out, run)


@app.command("learning-curves")
def learning_curves(
    model: Annotated[str, typer.Option(help="Name or folder of a universal model.")] = "universal",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Score the regressor against rows and irrelevant inputs, and on 2,000 rows of GP data (half an hour on 2 cores)."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import learning_curves

        return learning_curves.reproduce(model, quick=quick, device=device, progress=progress)

    present(out, run)


@app.command("joint-draws")
def joint_draws(
    model: Annotated[str, typer.Option(help="Name or folder of a universal model.")] = "universal",
    quick: Quick = False,
    threads: Threads = 2,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Compare joint draws by GP experts with many network calls, exact posteriors, and the seconds of a GP."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import joint_draws

        return joint_draws.reproduce(model, quick=quick, device=device, threads=threads, progress=progress)

    present(out, run)


@app.command()
def facts(
    model: Annotated[str, typer.Option(help="Name or folder of a universal model.")] = "universal",
    quick: Quick = False,
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Measure answers given facts (bounds, orders, counts) against exact ones, their calibration and their seconds."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import facts_report

        return facts_report.reproduce(model, quick=quick, device=device, progress=progress)

    present(out, run)


@app.command("facts-pictures")
def facts_pictures(
    model: Annotated[str, typer.Option(help="Name or folder of a universal model.")] = "universal",
    device: Device = "auto",
    out: Out = RESULTS,
) -> None:
    """Draw the pictures of the page on facts."""

    def run(progress: "Progress") -> "Outcome":
        from benchmarks import facts_pictures

        return facts_pictures.reproduce(model, device=device, out=out, progress=progress)

    present(out, run)
