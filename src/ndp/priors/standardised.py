"""Functions in the units that a network works in."""

from dataclasses import dataclass
from typing import final

import torch

from ndp.core.typing import Array, Prior
from ndp.core.units import FixedUnits
from ndp.priors.drawing import draw_observations


@final
@dataclass(frozen=True)
class Standardised:
    """A prior in model units."""

    prior: Prior
    units: FixedUnits

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        values = torch.as_tensor(draw_observations(self.prior, x, num_samples, generator=generator))
        return self.units.on(values.device).to_model_y(values)
