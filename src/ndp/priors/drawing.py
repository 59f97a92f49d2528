"""Draws of priors: with and without the axis S, and with a check of their values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.randomness import read_generator
from ndp.core.typing import Array, Prior, Process

Draw = Callable[[Tensor, torch.Generator], Tensor]


def draw_observations(
    prior: Prior, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None
) -> Array:
    """Draws of a prior as they would be observed: with observation noise, where a process can separate it."""
    if isinstance(prior, Process):
        return prior.sample(x, num_samples, observation_noise=True, generator=generator)
    return prior.sample(x, num_samples, generator=generator)


def draw_tensor(draw: Draw, x: Array, num_samples: int | None, generator: torch.Generator | None) -> Tensor:
    """Call `draw` on inputs [B N D], once for all draws: [B N P], or [S B N P] where `num_samples` is given."""
    if not isinstance(x, Tensor) or x.ndim != 3:
        raise ValueError("a prior takes a tensor of inputs with shape [tasks, points, dimensions]")
    generator = read_generator(generator)
    if num_samples is None:
        return draw(x, generator)
    rows = x.expand(num_samples, *x.shape).flatten(0, 1)
    return draw(rows, generator).unflatten(0, (num_samples, x.shape[0]))


@final
@dataclass(frozen=True)
class FunctionPrior:
    """A Python function `f(x, generator) -> y` as a prior: inputs [B N D] to values [B N] or [B N P], one function a task.

    All randomness of `f` must come from the generator, so that training can be resumed and repeated.
    """

    function: Draw

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        return draw_tensor(self._checked, x, num_samples, generator)

    def _checked(self, x: Float[Tensor, "B N D"], generator: torch.Generator) -> Float[Tensor, "B N P"]:
        y = self.function(x, generator)
        name = getattr(self.function, "__name__", "the prior's function")
        if not isinstance(y, Tensor):
            raise ValueError(f"{name} must return a tensor, not {type(y).__name__}")
        if y.shape == x.shape[:2]:
            y = y[..., None]
        if y.ndim != 3 or y.shape[:2] != x.shape[:2]:
            raise ValueError(
                f"{name} must answer inputs {list(x.shape)} with values [tasks, points] or [tasks, points, outputs], "
                f"not {list(y.shape)}"
            )
        if not bool(torch.isfinite(y).all()):
            raise ValueError(f"{name} returned NaN or infinity")
        return y.to(x.dtype)
