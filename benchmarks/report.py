"""What an experiment hands over: tables, a paragraph on what is seen, all numbers, and a picture."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndp.core.io.files import atomic_write
from ndp.core.plotting import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; the first column is the name of the row."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Report:
    """An experiment's outcome, ready to be shown."""

    name: str
    tables: list[Table]
    seen: str
    numbers: dict[str, Any]
    figure: "Figure"

    def write(self, folder: Path) -> tuple[Path, Path]:
        """The picture and the numbers as `name`.png and `name`.json, each whole or not at all."""
        picture, numbers = folder / f"{self.name}.png", folder / f"{self.name}.json"
        save_figure(self.figure, picture)
        with atomic_write(numbers) as temporary:
            temporary.write_text(json.dumps({**self.numbers, "seen": self.seen}, indent=1) + "\n")
        return picture, numbers
