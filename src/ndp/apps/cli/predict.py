"""`ndp predict`: predictions for a table, written to another."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndp.apps.cli.commands import app
from ndp.apps.cli.common import user_errors

if TYPE_CHECKING:
    from rich.console import Console


@app.command()
def predict(
    train: Annotated[
        Path, typer.Argument(help="CSV with the target and the inputs, under any names: numbers, text, gaps.")
    ],
    target: Annotated[str, typer.Option(help="Column to predict. All others are inputs.")],
    at: Annotated[
        Path | None, typer.Option(help="CSV with the inputs to predict at. Default: the rows without a target.")
    ] = None,
    out: Annotated[Path, typer.Option(help="CSV to write: inputs, mean, standard deviation, quantiles.")] = Path(
        "predictions.csv"
    ),
    plot: Annotated[bool, typer.Option("--plot", help="Also write a picture, under the same name.")] = False,
    model: Annotated[str, typer.Option(help="Name or folder of a model that standardises the data.")] = "universal",
    category: Annotated[
        list[str] | None, typer.Option(help="Column whose numbers are codes of categories; may be given again.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Also print which columns mattered.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed of the subsampling of rows, and of draws in the picture.")
    ] = 0,
) -> None:
    """Predict a column of a table from the others, with uncertainty and without training."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    picture = out.with_suffix(".png") if plot else None
    with user_errors():
        with console.status("Importing torch"):
            from ndp.apps.predicting import predict_to_files
        with rows_bar(console) as report:
            found = predict_to_files(
                train,
                target=target,
                at=at,
                out=out,
                plot=picture,
                model=model,
                seed=seed,
                categories=category or (),
                explain=explain,
                report=report,
            )

    console.print(f"From {found.rows} rows of:", markup=False)
    for line in found.columns:
        console.print(f"  {line}", markup=False, soft_wrap=True)
    console.print(f"{found.predicted} predictions: [bold]{escape(str(out))}[/]", soft_wrap=True)
    if found.importances:
        console.print("Which columns mattered (what R2 loses when a column is shuffled):", markup=False)
        longest = max(len(one.name) for one in found.importances)
        for one in found.importances:
            console.print(f"  {one.name:<{longest}}  {one.mean:6.3f} +- {one.std:.3f}", markup=False, soft_wrap=True)
    if picture:
        console.print(f"Picture: [bold]{escape(str(picture))}[/]", soft_wrap=True)


@contextmanager
def rows_bar(console: "Console") -> "Iterator[Callable[[int, int], None]]":
    """A progress bar of rows on a terminal, and nothing elsewhere."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Predicting", total=None)
        yield lambda done, rows: bar.update(task, completed=done, total=rows)
