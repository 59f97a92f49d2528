"""The GP experts given observations in the user's units, without a network."""

from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.arrays import Context
from ndp.core.units import ContextUnits, Units
from ndp.diffusion.levels import level_of_ratio
from ndp.gp.copula import GaussianMixtureCopula
from ndp.networks.adaptive_experts import AdaptiveExperts


@final
@dataclass(frozen=True)
class StandardisedExperts:
    """Experts that adapted to observations, and the units in which they work."""

    units: Units
    experts: AdaptiveExperts

    @staticmethod
    @torch.no_grad()
    def given(context: Context) -> "StandardisedExperts":
        """The experts given a context in the user's units."""
        units = ContextUnits().of(context)
        units = replace(units, y_scale=units.y_scale.abs())  # experts are the same for y and -y
        level = level_of_ratio(units.to_model_std(context.noise))
        y = units.to_model_y(context.y)[..., 0]
        return StandardisedExperts(units, AdaptiveExperts.given(units.to_model_x(context.x), y, level, context.mask))

    @property
    def relevance(self) -> Float[Tensor, "B D"]:
        """How much the function depends on each input: the mean of 1 / lengthscale^2, in the user's units."""
        weight = self.experts.log_weight.exp()[..., None]
        standardised = (weight * torch.exp(-2 * self.experts.theta[..., :-1])).sum(1)
        return standardised / self.units.x_scale[:, 0].square()

    def copula(self, x: Float[Tensor, "B M D"], *, of_function: bool) -> GaussianMixtureCopula:
        """How values at `x` depend on each other, in the experts' units."""
        return self.experts.copula(self.units.to_model_x(x), of_function=of_function)
