"""`ndp predict`: a table in, predictions out."""

from pathlib import Path
from typing import Annotated

import typer

from ndp.apps.cli.commands import app
from ndp.apps.cli.common import told_plainly


@app.command()
def predict(
    train: Annotated[Path, typer.Argument(help="CSV with the target and the inputs, any names, all of them numbers.")],
    target: Annotated[str, typer.Option(help="Column to predict; all others are inputs.")],
    at: Annotated[
        Path | None, typer.Option(help="CSV with the inputs to predict at. Default: the rows that lack the target.")
    ] = None,
    out: Annotated[Path, typer.Option(help="CSV to write: inputs, mean, std, quantiles.")] = Path("predictions.csv"),
    plot: Annotated[bool, typer.Option("--plot", help="Write a picture beside it.")] = False,
    model: Annotated[str, typer.Option(help="Name or folder of a model whose context sets its units.")] = "universal",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of draws, and of subsampling.")] = 0,
) -> None:
    """Predict a column of a table from the others, with uncertainty and without training."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    picture = out.with_suffix(".png") if plot else None
    with told_plainly(), console.status("Importing torch") as status:
        from ndp.apps.predicting import predict_to_files

        status.update("Predicting")
        found = predict_to_files(train, target=target, at=at, out=out, plot=picture, model=model, seed=seed)

    def but_for(rows: int) -> str:
        return f" ({rows} {'row' if rows == 1 else 'rows'} with missing values left out)" if rows else ""

    known = f"From {found.rows} rows of {', '.join(found.inputs)}{but_for(found.left_out)}"
    console.print(known, markup=False, soft_wrap=True)
    predicted = f"{found.predicted} predictions{but_for(found.not_predicted)}"
    console.print(f"{predicted}: [bold]{escape(str(out))}[/]", soft_wrap=True)
    if picture:
        console.print(f"Picture: [bold]{escape(str(picture))}[/]", soft_wrap=True)
