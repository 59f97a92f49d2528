"""A process in another unit of x: a model of one lengthscale shows another one, without training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch

from ndp.core.statistics import HasMoments
from ndp.core.typing import Array, Moments, Posterior, Process


@final
@dataclass(frozen=True)
class RescaledInputs:
    """The functions g(x) = f(x / factor), for functions f of `process`."""

    process: Process
    factor: float

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        return self.process.sample(
            x / self.factor, num_samples, joint=joint, observation_noise=observation_noise, generator=generator
        )

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "RescaledInputsPosterior":
        return RescaledInputsPosterior(self.process.condition(x / self.factor, y, noise=noise, mask=mask), self.factor)


@final
@dataclass(frozen=True)
class RescaledInputsPosterior(HasMoments):
    """The posterior of rescaled functions. Values keep their unit, so that densities are those of the process."""

    posterior: Posterior
    factor: float

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        return self.posterior.sample(
            x / self.factor, num_samples, joint=joint, observation_noise=observation_noise, generator=generator
        )

    def moments(self, x: Array, **options: Any) -> Moments:
        return self.posterior.moments(x / self.factor, **options)

    def quantiles(self, x: Array, probabilities: Sequence[float], **options: Any) -> Array:
        return self.posterior.quantiles(x / self.factor, probabilities, **options)

    def summary(self, x: Array, probabilities: Sequence[float], **options: Any) -> tuple[Moments, Array]:
        return self.posterior.summary(x / self.factor, probabilities, **options)

    def log_prob(self, x: Array, y: Array, **options: Any) -> Array:
        return self.posterior.log_prob(x / self.factor, y, **options)
