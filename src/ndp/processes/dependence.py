"""What makes joint values depend on each other: the GP experts or the network."""

from dataclasses import dataclass
from enum import StrEnum
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.increasing import IncreasingCurve, invert_increasing
from ndp.gp.copula import GaussianMixtureCopula

FURTHEST_SCORE = 7.0  # standard deviations


class Dependence(StrEnum):
    """What makes joint values depend on each other.

    `EXPERTS`: every value has the distribution that it has by itself (`joint=False`), and the values depend on each other as
    under the GP experts of the network (a copula). A few network calls serve all draws. `NETWORK`: the network denoises all
    values of a draw together, in many calls for each.
    """

    EXPERTS = "experts"
    NETWORK = "network"


def wants_experts(dependence: Dependence | str | None, *, available: bool, differentiable: bool) -> bool:
    """Whether the experts are to be used: where a network has them and no gradients are wanted, unless told otherwise."""
    if dependence is None:
        return available and not differentiable
    by_experts = Dependence(dependence) is Dependence.EXPERTS
    if by_experts and not available:
        raise ValueError('this model has no GP experts; use dependence="network"')
    if by_experts and differentiable:
        raise ValueError('draws with dependence="experts" have no gradients; use dependence="network"')
    return by_experts


@final
@dataclass(frozen=True)
class ValuesByExperts:
    """Joint values in model units: each along its curve, at scores that depend on each other as the copula says."""

    curves: IncreasingCurve
    copula: GaussianMixtureCopula

    def draw(self, noise: Float[Tensor, "S B M 1"]) -> Float[Tensor, "S B M 1"]:
        """A draw for each noise."""
        return self.curves(self.copula.scores(noise[..., 0].double()))[..., None]

    def log_density(self, values: Float[Tensor, "B M 1"]) -> Float[Tensor, "B"]:
        """What joint values have of log-density beyond the sum over each by itself."""
        wanted = values[None, ..., 0].double()
        far = torch.full_like(wanted, FURTHEST_SCORE)
        return self.copula.log_density(invert_increasing(self.curves, wanted, -far, far))[0]
