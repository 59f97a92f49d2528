"""The facts as a function of the noise beneath a law: what is sampled from, softened by a temperature."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ndp.facts.joined import JoinedFacts
from ndp.facts.law import Law, gaussian_values, pivots

COUNTS = 0.01  # of the largest root variance: directions with less of it are left to the prior


@final
@dataclass(frozen=True)
class State:
    """Particles: the Gaussian of each, its noise, its values, and what the facts say of these."""

    index: Int[Tensor, "S"]
    z: Float[Tensor, "S P"]
    values: Float[Tensor, "S P"]
    smooth: Float[Tensor, "S"]
    margins: Float[Tensor, "S R"]

    @property
    def _parts(self) -> tuple[Tensor, ...]:
        return self.index, self.z, self.values, self.smooth, self.margins

    def at(self, chosen: Tensor) -> "State":
        return State(*(part[chosen] for part in self._parts))

    def copy(self) -> "State":
        return State(*(part.clone() for part in self._parts))

    def put(self, where: Tensor, other: "State") -> None:
        """Replace particles, in place."""
        for mine, new in zip(self._parts, other._parts, strict=True):
            mine[where] = new


@final
class Target:
    """The facts as a function of the noise."""

    def __init__(
        self, law: Law, facts: JoinedFacts, extra: tuple[Float[Tensor, "R"], Float[Tensor, "Q"]] | None
    ) -> None:
        self.law, self.facts = law, facts
        self.order = pivots(average_covariance(law))
        back = self.order.argsort()
        picked = Law(law.log_weight, law.mean[:, self.order], law.covariance[:, self.order][:, :, self.order])
        self.mean, self.root, self.back = picked.mean, picked.root, back
        self.soft = None if extra is None else extra[0]
        self.variance: Tensor | float = 0.0 if extra is None else extra[1]
        self.prior = torch.softmax(law.log_weight, 0)
        large = self.root.diagonal(dim1=-2, dim2=-1).amax(0)
        self.counting = int((large > COUNTS * large.max()).sum()) if len(large) else 0
        self.spread = law.mean.new_ones(len(facts.hard_offset))

    def state(self, index: Int[Tensor, "S"], z: Float[Tensor, "S P"]) -> State:
        """Particles of this noise."""
        u = gaussian_values(self.mean, self.root, index, z)[:, self.back]
        values = u if self.law.warp is None else self.law.warp(u)
        smooth = self.facts.log_smooth(values, extra_variance=self.variance)
        return State(index, z, values, smooth, self.facts.margins(values))

    def log_likelihood(self, smooth: Tensor, margins: Tensor, beta: float) -> Tensor:
        total = smooth * beta if beta > 0 else torch.zeros_like(smooth)
        if margins.shape[1]:
            scale = self.spread * ((1 - beta) / beta if beta > 0 else math.inf)
            if self.soft is not None:
                scale = (scale.square() + self.soft.square()).sqrt()
            hard = scale == 0
            soft = log_soft(margins / torch.where(hard, 1.0, scale))
            exactly = torch.where(margins >= 0, 0.0, -math.inf)
            total = total + torch.where(hard, exactly, soft).sum(1)
        return total


def log_soft(x: Tensor) -> Tensor:
    """Near log Phi(x), at a fifth of the price."""
    return torch.nn.functional.logsigmoid(1.702 * x)


def average_covariance(law: Law) -> Float[Tensor, "P P"]:
    """The covariance of the Gaussian values of all components together."""
    weight = torch.softmax(law.log_weight, 0)
    off = law.mean - weight @ law.mean
    return torch.einsum("k,kij->ij", weight, law.covariance) + torch.einsum("k,ki,kj->ij", weight, off, off)
