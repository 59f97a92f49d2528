"""Functions in the units that a network works in."""

from dataclasses import dataclass
from typing import final

import torch

from ndp.core.typing import Array, Prior
from ndp.core.units import Scaling


@final
@dataclass(frozen=True)
class Standardised:
    """A prior in model units."""

    prior: Prior
    scaling: Scaling

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        return self.scaling.to_model_y(torch.as_tensor(self.prior.sample(x, num_samples, generator=generator)))
