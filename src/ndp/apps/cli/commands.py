"""The commands `demo`, `sample`, `complete`, `evaluate`, `export` and `models`. Commands import what is slow when they run."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ndp.apps.cli.common import read_dims, user_errors

# Beyond these an answer takes days or more memory than a machine has; draws times points have a limit of their own.
MOST_DRAWS, MOST_CALLS, MOST_PIXELS = 100_000, 10_000, 256

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
    draws: Annotated[int, typer.Option(min=1, max=MOST_DRAWS, help="Functions to draw.")] = 24,
    steps: Annotated[int, typer.Option(min=1, max=MOST_CALLS, help="Network calls for all draws together.")] = 20,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the draws.")] = 0,
) -> None:
    """Draw the functions behind a table with the pretrained model, beside a Gaussian process that is fitted to the table."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    with user_errors(), console.status("Importing torch") as status:
        from ndp.apps.demo import run, shipped_table

        source = context or shipped_table()
        console.print(f"Table: [bold]{escape(source.name)}[/]", soft_wrap=True)
        status.update("Drawing functions")
        rows = run(source, out, draws=draws, steps=steps, seed=seed)
    console.print(
        "Each fifth of the rows is predicted from the others; seconds are those of the picture:", soft_wrap=True
    )
    table = Table("", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("log-density", "in 90 % intervals", "seconds"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(row.name, f"{row.log_prob:.3f}", f"{row.coverage:.0%}", f"{row.seconds:.1f}")
    console.print(table)
    console.print(f"Picture: [bold]{escape(str(out))}[/]", soft_wrap=True)


@app.command()
def sample(
    model: Annotated[str, typer.Option(help="Name or folder of a model; [bold]ndp models[/] lists the names.")],
    at: Annotated[Path, typer.Option(help="CSV with the inputs to draw at: columns x1 to xD.")],
    context: Annotated[
        Path | None, typer.Option(help="CSV with observations: x1 to xD, y, and noise if known. Default: the prior.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, max=MOST_DRAWS, help="Functions to draw.")] = 64,
    out: Annotated[Path, typer.Option(help="CSV to write: inputs, mean, std, one column a draw.")] = Path("draws.csv"),
    plot: Annotated[Path | None, typer.Option(help="Picture to write, for one input dimension.")] = None,
    observation_noise: Annotated[
        bool | None,
        typer.Option(
            "--observation-noise/--function",
            help="Draw new observations, or values of the function. Default: the function where the model can separate it from "
            "its noise.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the draws.")] = 0,
) -> None:
    """Draw functions from a model, given observations; or from its prior, without them."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    with user_errors(), console.status("Importing torch") as status:
        from ndp.apps.sampling import draw_to_files

        status.update(f"Drawing {draws} functions")
        count = draw_to_files(
            model,
            context=context,
            at=at,
            draws=draws,
            out=out,
            plot=plot,
            seed=seed,
            observation_noise=observation_noise,
        )
    console.print(f"{draws} draws at {count} inputs: [bold]{escape(str(out))}[/]", soft_wrap=True)
    if plot:
        console.print(f"Picture: [bold]{escape(str(plot))}[/]", soft_wrap=True)


@app.command()
def complete(
    image: Annotated[Path, typer.Argument(help="A picture. Its central square is used, at the size of the model.")],
    mask: Annotated[
        str,
        typer.Option(
            help="Known pixels: upper, lower, left, right, random:0.1, or a picture that is white where they are."
        ),
    ] = "upper",
    model: Annotated[
        str,
        typer.Option(help="Name or folder of a model of images. Default: mnist, for grey pictures."),
    ] = "",
    draws: Annotated[int, typer.Option(min=1, max=100, help="Completions to draw.")] = 6,
    steps: Annotated[int, typer.Option(min=1, max=MOST_CALLS, help="Network calls for each draw.")] = 20,
    size: Annotated[
        int,
        typer.Option(
            min=0, max=MOST_PIXELS, help="Pixels of a side. Default (0): the size that the model was trained on."
        ),
    ] = 0,
    out: Annotated[Path, typer.Option(help="Picture to write: the known pixels, and the completions.")] = Path(
        "out.png"
    ),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the draws.")] = 0,
) -> None:
    """Complete a picture of your own from some of its pixels."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    with user_errors(), console.status("Importing torch") as status:
        from ndp.apps.completing import complete_to_file

        status.update(f"Drawing {draws} completions")
        complete_to_file(image, mask, out, model=model, draws=draws, steps=steps, size=size or None, seed=seed)
    console.print(f"Picture: [bold]{escape(str(out))}[/]", soft_wrap=True)


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(help="Name or folder of a model trained on a prior with an exact posterior.")],
    tasks: Annotated[int, typer.Option(min=2, max=100_000, help="Test functions.")] = 512,
    draws: Annotated[int, typer.Option(min=64, max=MOST_DRAWS, help="Draws for each test function.")] = 1024,
    steps: Annotated[int, typer.Option(min=1, max=MOST_CALLS, help="Network calls for each draw.")] = 20,
    dim: Annotated[
        str, typer.Option(help="Numbers of input dimensions, such as 2 or 1,2,3. Default: all that the model supports.")
    ] = "",
    shift: Annotated[float, typer.Option(help="Shift all inputs by this much, out of the range of training.")] = 0.0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    record: Annotated[bool, typer.Option(help="Also write the scores into the folder of the model.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of test functions and draws.")] = 1234,
) -> None:
    """Score a model against the exact posterior on the same test functions."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    with user_errors(), console.status("Importing torch") as status:
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
            from ndp.core.io.checkpoint import record_scores

            record_scores(Path(model), [result.as_dict() for result in results])
    if as_json:
        typer.echo(json.dumps([result.as_dict() for result in results], indent=1))
        return
    table = Table("nats a point", box=None, header_style="bold")
    for result in results:
        table.add_column(f"D = {result.dim}", justify="right")
    rows = {
        "exact posterior": "exact",
        "exact posterior, Gaussian fitted to draws": "exact_fitted",
        "model, Gaussian fitted to draws": "model_fitted",
        "nats lost by the model's draws": "net_gap",
        "nats lost by the model's log-density": "ode_gap",
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
    half: Annotated[bool, typer.Option(help="Store the weights in 16 bits, at half the size.")] = False,
) -> None:
    """Copy the weights and the configuration of a model out of its run, for ndp.load."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    with user_errors(), console.status("Importing torch"):
        from ndp.models.registry import export

        size = export(model, folder, half=half)
    console.print(f"Model, {size / 1e6:.2f} MB: [bold]{escape(str(folder))}[/]", soft_wrap=True)


@app.command()
def models() -> None:
    """List the models that come with the package."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    with user_errors(), console.status("Importing torch"):
        from ndp.models.registry import names, shipped

        known = shipped()
    table = Table(box=None, header_style="bold")
    table.add_column("name", no_wrap=True)
    for heading in ("model", "trained on"):
        table.add_column(heading)
    table.add_column("D", no_wrap=True)
    table.add_column("nats lost")
    table.add_column("size", justify="right", no_wrap=True)
    for model in known:
        scores = model.about.get("scores", {})
        drawn = [one["net_gap"]["mean"] for one in scores.get("evaluations", []) if one["steps"] == 20]
        in_training = [scores[name] for dim in model.input_dims if (name := f"nats lost, D = {dim}") in scores]
        quality = ", ".join(f"{lost:.3f}" for lost in drawn or in_training) or "-"
        kind, dims = model.architecture.replace("neural diffusion process", "NDP"), _ranges(model.input_dims)
        table.add_row(model.name, kind, model.about["trained_on"], dims, quality, f"{model.size / 1e6:.2f} MB")
    if known:
        console.print(table)
        console.print(
            "D: numbers of input dimensions. nats lost: for each point and D, against the exact posterior; by draws in 20 "
            "network calls, or as validated in training\n"
        )
    without_weights = [name for name in names() if name not in {model.name for model in known}]
    console.print(
        f"Without weights (exact processes, and NDPs with their exact denoisers): {', '.join(without_weights)}"
    )


def _ranges(dims: tuple[int, ...]) -> str:
    """Numbers of input dimensions in few characters."""
    if len(dims) > 1 and dims == tuple(range(dims[0], dims[-1] + 1)):
        return f"{dims[0]}-{dims[-1]}"
    return ", ".join(map(str, dims)) or "any"


@app.command(hidden=True, context_settings={"ignore_unknown_options": True, "help_option_names": []})
def reproduce(arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Say where the experiments are, which were commands of the first release."""
    with user_errors():
        command = " ".join(["python -m benchmarks", *(arguments or [])])
        raise ValueError(f"the experiments have left the package; in a checkout of its repository, run: {command}")
