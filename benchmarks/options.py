"""Options that commands share, and the app that the commands register with."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="The experiments: figures and tables, one command each.", no_args_is_help=True)

RESULTS = Path("results")

Quick = Annotated[bool, typer.Option(help="Fewer draws and tasks: under three minutes on two cores.")]
Out = Annotated[Path, typer.Option(help="Folder for the figure and the numbers.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: the GPU if there is one.")]
Threads = Annotated[int, typer.Option(min=1, help="CPU threads.")]
NeuralProcess = Annotated[
    str, typer.Option(help="Name or folder of a neural process to show beside it. Default: the one that ships, if any.")
]
