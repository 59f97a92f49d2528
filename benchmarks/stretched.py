"""A process in another unit of x: what has one lengthscale shows another, without training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from ndp.core.typing import Array, Moments, Posterior, Process


@final
@dataclass(frozen=True)
class Stretched:
    """The functions g(x) = f(x / factor), for functions f of `process`."""

    process: Process
    factor: float

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        return self.process.sample(x / self.factor, num_samples, generator=generator)

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "StretchedPosterior":
        return StretchedPosterior(self.process.condition(x / self.factor, y, noise=noise, mask=mask), self.factor)


@final
@dataclass(frozen=True)
class StretchedPosterior:
    """A stretched process given a context. Values keep their unit, so that densities are those of the process."""

    posterior: Posterior
    factor: float

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        return self.posterior.sample(x / self.factor, num_samples, generator=generator)

    def moments(self, x: Array) -> Moments:
        return self.posterior.moments(x / self.factor)

    def quantiles(self, x: Array, probabilities: Sequence[float]) -> Array:
        return self.posterior.quantiles(x / self.factor, probabilities)

    def log_prob(self, x: Array, y: Array) -> Array:
        return self.posterior.log_prob(x / self.factor, y)
