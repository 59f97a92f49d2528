"""How a command runs an experiment: progress while it runs, then its tables, findings and files."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ndp.apps.cli.common import user_errors

if TYPE_CHECKING:
    from rich.console import Console

    from benchmarks.report import Outcome, Progress


def present(out: Path, run: "Callable[[Progress], Outcome]") -> None:
    """Run an experiment, write its files to `out` and print its tables."""
    present_each(out, lambda progress: [run(progress)])


def present_each(out: Path, run: "Callable[[Progress], Iterable[Outcome]]") -> None:
    """Present every outcome as soon as it is there."""
    from rich.console import Console

    console = Console()
    failed = False
    with user_errors(), console.status("Importing torch") as status:
        if out.exists() and not out.is_dir():
            raise ValueError(f"{out} is a file; name a folder for the results with --out")
        for outcome in run(status.update):
            _print(console, outcome, outcome.write(out))
            failed = failed or outcome.failed
    if failed:
        raise typer.Exit(code=1)


def _print(console: "Console", outcome: "Outcome", written: dict[str, Path]) -> None:
    from rich.markup import escape
    from rich.table import Table

    for one in outcome.tables:
        table = Table(box=None, header_style="bold", title=one.title, title_justify="left", padding=(0, 2, 0, 0))
        for index, heading in enumerate(one.headings):
            table.add_column(heading, justify="right" if index else "left")
        for row in one.rows:
            table.add_row(*row)
        console.print(table, "")
    if outcome.findings:
        console.print(escape(outcome.findings), "")
    for words, path in written.items():
        console.print(f"{words}: [bold]{escape(str(path))}[/]", soft_wrap=True)
