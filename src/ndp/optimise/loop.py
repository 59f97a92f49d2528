"""The loop that all optimisers share: ask for a point, evaluate it, tell its value."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ndp.optimise.history import History


@runtime_checkable
class AskTell(Protocol):
    """An optimiser, one step at a time."""

    @property
    def history(self) -> History:
        """All evaluations so far."""
        ...

    def ask(self, count: int = 1) -> np.ndarray:
        """Points to evaluate next, [count, D]."""
        ...

    def tell(self, x: Any, y: float) -> None:
        """Record the value `y` at `x`."""
        ...


def evaluate_until(
    optimiser: AskTell, f: Callable[[np.ndarray], float], evaluations: int, *, progress: bool = True
) -> History:
    """Evaluate `f` until the history holds so many evaluations, those of an earlier run included."""
    from rich.progress import track

    left = range(len(optimiser.history), evaluations)
    for _ in track(left, description="Minimising", disable=not progress, transient=True):
        (point,) = optimiser.ask()
        optimiser.tell(point, float(f(point)))
    return optimiser.history
