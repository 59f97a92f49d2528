"""Sawtooth waves with random frequency, phase and direction: discontinuous and periodic."""

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from ndp.core.randomness import normal
from ndp.core.typing import Array
from ndp.priors.drawing import draw_tensor


@final
@dataclass(frozen=True)
class Sawtooth:
    """f(x) = sqrt(3) (2 frac(w <d, x> - p) - 1): unit variance, w uniform in [low, high] waves a unit, d a random direction.

    Values carry independent normal noise of standard deviation `noise`.
    """

    low: float = 0.5
    high: float = 1.5
    noise: float = 0.0

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        def one(x: Tensor, generator: torch.Generator) -> Tensor:
            tasks, _, dim = x.shape
            uniform = torch.rand(2, tasks, 1, generator=generator, dtype=x.dtype, device=generator.device).to(x.device)
            direction = torch.randn(tasks, dim, 1, generator=generator, dtype=x.dtype, device=generator.device)
            direction = (direction / direction.norm(dim=1, keepdim=True)).to(x.device)
            frequency = self.low + (self.high - self.low) * uniform[0]
            phase = frequency * (x @ direction)[..., 0] - uniform[1]
            wave = math.sqrt(3) * (2 * (phase - phase.floor()) - 1)[..., None]
            if not self.noise:
                return wave
            return wave + self.noise * normal(tuple(wave.shape), generator, like=wave)

        return draw_tensor(one, x, num_samples, generator)
