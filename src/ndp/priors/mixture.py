"""Functions from one of several priors, chosen anew for every task."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from ndp.core.typing import Array, Prior
from ndp.priors.drawing import draw_observations, draw_tensor


@final
@dataclass(frozen=True)
class Mixture:
    """Each task is drawn from one of `priors`, with probability in proportion to its weight (none: all alike)."""

    priors: tuple[Prior, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.priors:
            raise ValueError("a mixture needs at least one prior")
        if self.weights is not None and (len(self.weights) != len(self.priors) or min(self.weights) < 0):
            raise ValueError("a mixture needs one weight a prior, none of them negative")

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        def one(x: Tensor, generator: torch.Generator) -> Tensor:
            weights = torch.tensor(self.weights or (1.0,) * len(self.priors), device=generator.device)
            choice = torch.multinomial(weights, x.shape[0], replacement=True, generator=generator).to(x.device)
            # Every prior draws for every task and one draw is kept: no shape depends on what was chosen.
            drawn = torch.stack(
                [torch.as_tensor(draw_observations(prior, x, generator=generator)) for prior in self.priors]
            )
            return drawn[choice, torch.arange(x.shape[0], device=x.device)]

        return draw_tensor(one, x, num_samples, generator)
