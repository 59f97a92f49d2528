"""Where tasks come from: batches of functions, drawn fresh, in the layout that training and evaluation share."""

from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.typing import Prior


@dataclass(frozen=True)
class Batch:
    """Tasks whose first `num_context` points are places for context, and whose other points are targets.

    The context's places are filled from the front; `mask=False` is an empty place, or a target that a task does not have.
    """

    x: Float[Tensor, "B N D"]
    y: Float[Tensor, "B N P"]
    mask: Bool[Tensor, "B N"]
    num_context: int


@runtime_checkable
class Source(Protocol):
    """An endless supply of tasks."""

    def draw(self, tasks: int, *, generator: torch.Generator) -> Batch:
        """Fresh tasks on the generator's device, a function of the generator alone."""
        ...


@final
@dataclass(frozen=True)
class Synthetic:
    """Functions of a prior at inputs uniform in [low, high]^dim, with 0 to `most_context` points of context."""

    prior: Prior
    dim: int = 1
    low: float = -2.0
    high: float = 2.0
    targets: int = 50
    most_context: int = 10
    least_context: int = 0

    def draw(self, tasks: int, *, generator: torch.Generator) -> Batch:
        device = generator.device
        points = self.most_context + self.targets
        x = torch.rand(tasks, points, self.dim, generator=generator, dtype=torch.float64, device=device)
        x = self.low + (self.high - self.low) * x
        y = self.prior.sample(x, generator=generator)
        if not isinstance(y, Tensor) or y.ndim != 3 or y.shape[:2] != x.shape[:2]:
            shape = list(getattr(y, "shape", []))
            raise ValueError(
                f"a prior must answer inputs {list(x.shape)} with values [tasks, points, outputs], not {shape}"
            )
        return Batch(
            x, y, fill_context(tasks, points, self.least_context, self.most_context, generator), self.most_context
        )


def fill_context(
    tasks: int, points: int, least: int, most: int, generator: torch.Generator
) -> Bool[Tensor, "{tasks} {points}"]:
    """Which places hold a point: of the first `most` a number uniform in least..most, and all targets."""
    device = generator.device
    size = torch.randint(least, most + 1, (tasks, 1), generator=generator, device=device)
    place = torch.arange(points, device=device)
    return (place < size) | (place >= most)
