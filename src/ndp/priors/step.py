"""Functions with one jump at an unknown place: the paper's example of what no Gaussian process can be."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from ndp.priors.drawing import draw_tensor
from ndp.typing import Array


@final
@dataclass(frozen=True)
class Step:
    """f(x) = 0 for x_1 <= u and 1 for x_1 > u, with u uniform in [low, high]."""

    low: float = -1.0
    high: float = 1.0

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        def one(x: Tensor, generator: torch.Generator) -> Tensor:
            u = torch.rand(x.shape[0], 1, 1, generator=generator, dtype=x.dtype, device=generator.device).to(x.device)
            return (x[..., :1] > self.low + (self.high - self.low) * u).to(x.dtype)

        return draw_tensor(one, x, num_samples, generator)
