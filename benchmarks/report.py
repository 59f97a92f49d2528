"""What an experiment returns: tables, a paragraph of findings, all numbers and, where there is one, a figure."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ndp.core.io.files import atomic_write
from ndp.core.plotting import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[str], None]  # an experiment reports its current stage to it


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; the first column is the name of the row."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Outcome(Protocol):
    """What the command line prints and writes."""

    @property
    def tables(self) -> Sequence[Table]: ...

    @property
    def findings(self) -> str: ...

    @property
    def failed(self) -> bool:
        """Whether the command is to end with an error status."""
        ...

    def write(self, out: Path) -> dict[str, Path]:
        """Write the files; returns their paths under the words that name them."""
        ...


@dataclass(frozen=True)
class Report:
    """An experiment's tables, findings and numbers, and its figure if it has one, written to a folder."""

    name: str
    tables: list[Table]
    findings: str
    numbers: dict[str, Any]
    figure: "Figure | None" = None
    failed: bool = False

    def write(self, out: Path) -> dict[str, Path]:
        """The figure and the numbers as `name`.png and `name`.json in the folder `out`, by atomic writes."""
        written = {}
        if self.figure is not None:
            written["Picture"] = out / f"{self.name}.png"
            save_figure(self.figure, written["Picture"])
        written["Numbers"] = out / f"{self.name}.json"
        write_json(written["Numbers"], {**self.numbers, "findings": self.findings})
        return written


def write_json(path: Path, numbers: Any) -> None:
    """An atomic write of what JSON can hold."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(numbers, indent=1) + "\n")
