"""Where tasks come from: batches of functions, drawn fresh, in the layout that training and evaluation share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.typing import Prior
from ndp.priors.expectations import Expectation, Noised, draw_with_expectation


@dataclass(frozen=True)
class Batch:
    """Tasks whose first `num_context` points are places for context, and whose other points are targets.

    The context's places are filled from the front; `mask=False` is an empty place, or a target that a task does not have.
    Where many points are known, as in images, places for them would be wasted. Then the context is among the targets, at the
    points that are `known`, and no place is empty.
    """

    x: Float[Tensor, "B N D"]
    y: Float[Tensor, "B N P"]
    mask: Bool[Tensor, "B N"]
    num_context: int
    real: Bool[Tensor, "B N"]  # where there is a function value, in use or not
    known: Bool[Tensor, "B N"] | None = None
    independent: bool = False  # whether every target sees the context only, and no other target
    of_function: Bool[Tensor, "B"] | None = None  # tasks whose targets are values of the function, not observations
    expectation: Expectation | None = None  # the posterior mean of the tasks, where it is known

    @property
    def context(self) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, values and mask of the context's places."""
        return tuple(t[:, : self.num_context] for t in (self.x, self.y, self.mask))  # type: ignore[return-value]

    @property
    def targets(self) -> tuple[Tensor, Tensor]:
        """Inputs and values of the targets."""
        return self.x[:, self.num_context :], self.y[:, self.num_context :]

    def posterior_mean(self, y_t: Float[Tensor, "B N P"], level: Float[Tensor, "B N"]) -> Float[Tensor, "B N P"]:
        """E[y0 | y_t] at the targets, given the noised values and the distribution that the tasks were drawn from."""
        if self.expectation is None:
            raise ValueError("the posterior mean of these functions is not known")
        return self.expectation(Noised(self.x, y_t, level, self.mask, self.num_context, self.independent))

    def rows(self, rows: slice) -> "Batch":
        """Some of the tasks."""
        return self._map(lambda t: t[rows])

    def split(self, size: int) -> "list[Batch]":
        """The tasks in pieces of at most `size`."""
        return [self.rows(slice(start, start + size)) for start in range(0, len(self.x), size)]

    def to(self, device: torch.device | str) -> "Batch":
        """The same tasks on another device."""
        return self._map(lambda t: t.to(device))

    def shifted(self, by: float) -> "Batch":
        """The same functions with every input moved."""
        return replace(self, x=self.x + by)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        x, y, mask, real = (change(t) for t in (self.x, self.y, self.mask, self.real))
        known, of_function = (None if t is None else change(t) for t in (self.known, self.of_function))
        return Batch(x, y, mask, self.num_context, real, known, self.independent, of_function)

    def without_context(self) -> "Batch":
        """The same functions with all of their points as targets."""
        known = None if self.known is None else torch.zeros_like(self.known)
        return replace(self, mask=self.real, num_context=0, known=known)

    @property
    def mask_if_needed(self) -> Bool[Tensor, "B N"] | None:
        """The mask for a network; none where no place can be empty, so that attention over many points stays fused."""
        return self.mask if self.known is None else None


@runtime_checkable
class Source(Protocol):
    """An endless supply of tasks."""

    def draw(self, tasks: int, *, generator: torch.Generator) -> Batch:
        """Fresh tasks on the generator's device, a function of the generator alone."""
        ...


@final
@dataclass(frozen=True)
class Synthetic:
    """Functions of a prior at inputs uniform in [low, high]^dim.

    A task has from `least_context` to `most_context` context points. The number of targets is log-uniform from `least_targets`
    (None: all) to `targets`: a network that was trained on one number is overconfident on denser grids and inaccurate on few
    targets. In a share `clustered` of the tasks some points lie in a cluster, as they do in an optimisation.
    """

    prior: Prior
    dim: int = 1
    low: float = -2.0
    high: float = 2.0
    targets: int = 50
    most_context: int = 10
    least_context: int = 0
    least_targets: int | None = None
    clustered: float = 0.0
    independent: bool = False

    def draw(self, tasks: int, *, generator: torch.Generator) -> Batch:
        device = generator.device
        points = self.most_context + self.targets
        x = torch.rand(tasks, points, self.dim, generator=generator, dtype=torch.float64, device=device)
        if self.clustered:
            x = cluster(x, self.clustered, generator)
        x = self.low + (self.high - self.low) * x
        y, expectation = draw_with_expectation(self.prior, x, generator)
        if not isinstance(y, Tensor) or y.ndim != 3 or y.shape[:2] != x.shape[:2]:
            shape = list(getattr(y, "shape", []))
            raise ValueError(
                f"a prior must answer inputs {list(x.shape)} with values [tasks, points, outputs], not {shape}"
            )
        mask = fill(tasks, self.least_context, self.most_context, generator)
        least = self.targets if self.least_targets is None else self.least_targets
        mask = torch.cat([mask, fill_by_ratio(tasks, least, self.targets, generator)], dim=1)
        return Batch(
            x, y, mask, self.most_context, torch.ones_like(mask), independent=self.independent, expectation=expectation
        )


@final
@dataclass(frozen=True)
class EqualContext:
    """Tasks of a source that all have the same number of context points, at least one, for networks without masks.

    Of the numbers that there could be at most `sizes` are drawn, evenly spread: each is a shape that a step is captured for.
    """

    source: Source
    sizes: int = 16

    def draw(self, tasks: int, *, generator: torch.Generator) -> Batch:
        batch = self.source.draw(tasks, generator=generator)
        if not bool(batch.real.all()):
            raise ValueError("a context of equal size needs functions that are known at every point")
        places = batch.num_context
        sizes = torch.linspace(1, places, min(self.sizes, places)).round().long().tolist()
        size = sizes[int(torch.randint(len(sizes), (), generator=generator, device=generator.device))]
        x, y, real = (torch.cat([t[:, :size], t[:, places:]], dim=1) for t in (batch.x, batch.y, batch.real))
        return Batch(x, y, real, size, real)


def cluster(x: Float[Tensor, "B N D"], share: float, generator: torch.Generator) -> Float[Tensor, "B N D"]:
    """Points of the unit box; in a `share` of the tasks some of them lie in a cluster.

    How many (up to all), and how close (from a fifth to a hundredth of the way), is random in every task.
    """
    tasks, points, dim = x.shape

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=x.dtype, device=x.device)

    place = uniform(tasks, 1, dim)
    scale = 0.2 * 0.05 ** uniform(tasks, 1, 1)
    moved = (uniform(tasks, points) < uniform(tasks, 1)) & (uniform(tasks, 1) < share)
    return torch.where(moved[..., None], place + scale * (x - place), x)


def fill(tasks: int, least: int, most: int, generator: torch.Generator) -> Bool[Tensor, "{tasks} {most}"]:
    """Which of `most` places hold a point: a number uniform in least..most, from the front."""
    size = torch.randint(least, most + 1, (tasks, 1), generator=generator, device=generator.device)
    return torch.arange(most, device=generator.device) < size


def fill_by_ratio(tasks: int, least: int, most: int, generator: torch.Generator) -> Bool[Tensor, "{tasks} {most}"]:
    """Which of `most` places hold a point: a number whose logarithm is uniform from least to most, from the front."""
    share = torch.rand((tasks, 1), generator=generator, dtype=torch.float64, device=generator.device)
    return torch.arange(most, device=generator.device) < (least * ((most + 1) / least) ** share).floor()
