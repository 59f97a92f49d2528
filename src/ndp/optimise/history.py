"""The evaluations of an optimisation, written to disk as they are made."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass
class History:
    """Points and their values in the order of evaluation. A value of NaN is an evaluation that failed.

    With a `path`, every evaluation is appended to that file at once, as one line of JSON. A file that exists is continued.
    """

    path: Path | None = None
    x: list[list[float]] = field(default_factory=list)
    y: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.path is None or not self.path.exists():
            return
        for number, line in enumerate(self.path.read_text().splitlines(), start=1):
            try:
                entry = json.loads(line)
                x, y = [float(v) for v in entry["x"]], entry["y"]
            except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
                raise ValueError(f"line {number} of {self.path} is not an evaluation: {error}") from error
            self.x.append(x)
            self.y.append(math.nan if y is None else float(y))

    def __len__(self) -> int:
        return len(self.y)

    def append(self, x: np.ndarray, y: float) -> None:
        """Add an evaluation, to the file first."""
        point, value = [float(v) for v in x], float(y)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps({"x": point, "y": value if math.isfinite(value) else None}) + "\n")
        self.x.append(point)
        self.y.append(value if math.isfinite(value) else math.nan)

    def known(self) -> tuple[np.ndarray, np.ndarray]:
        """Points [C, D] and values [C] of the evaluations that succeeded."""
        good = [index for index, value in enumerate(self.y) if math.isfinite(value)]
        return np.array([self.x[index] for index in good]), np.array([self.y[index] for index in good])

    @property
    def best(self) -> tuple[np.ndarray, float]:
        """The point of the lowest value, and that value."""
        x, y = self.known()
        if not len(y):
            raise ValueError("there is no best value: nothing was evaluated yet, or every evaluation failed")
        index = int(y.argmin())
        return x[index], float(y[index])

    def best_so_far(self) -> np.ndarray:
        """The lowest value after each evaluation; NaN before the first one that succeeded."""
        return np.fmin.accumulate(np.array(self.y)) if self.y else np.zeros(0)

    def picture(self, *, minimum: float | None = None) -> "Figure":
        """A figure of all values and the best so far; with the known `minimum`, their regret on a logarithmic axis."""
        from ndp.core.plotting import new_grid, plot_search

        if not len(self):
            raise ValueError("nothing was evaluated yet: there is nothing to draw")
        figure, axes = new_grid(1, 1, size=(6.0, 3.8))
        plot_search(axes[0, 0], np.array(self.y), self.best_so_far(), minimum=minimum)
        return figure
