"""Densities and quantiles of values by weighted particles."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ndp.facts.law import Law, Warp
from ndp.facts.smc import Particles
from ndp.facts.twist import Weighted

KERNEL = 0.6  # of the standard deviation and the number of particles to the power of -1/5: of the kernel of densities


@final
@dataclass(frozen=True)
class Answer:
    """Particles, and the values of these at the inputs that were asked for."""

    values: Float[Tensor, "S M"]
    weighted: Weighted
    law: Law | None
    particles: Particles | None
    at: Int[Tensor, "M"]  # the entry of each input among those of the law
    places: int


def log_density_of_each(answer: Answer, values: Float[Tensor, "M"]) -> Float[Tensor, "M"]:
    """The density of each value, averaged over particles: given those at the places of the facts, or as wide as a kernel
    estimate where that is narrower."""
    law, told, count = answer.law, answer.particles, answer.places
    assert law is not None
    assert told is not None
    entries = answer.at
    u, log_slope = unwarped(law, values, entries)
    mean, variance = (torch.zeros(len(told.index), len(u), dtype=torch.float64) for _ in range(2))
    known = torch.arange(law.mean.shape[1]) < count
    for k in told.index.unique().tolist():
        chosen = told.index == k
        root = law.root[k][entries]
        mean[chosen] = law.mean[k, entries] + told.normal[chosen] @ root[:, known].T
        variance[chosen] = root[:, ~known].square().sum(1)
    narrow = KERNEL * mean.std(0) * len(mean) ** -0.2
    std = (variance + narrow.square()).sqrt().clamp(min=1e-12)
    each = -((u - mean) / std).square() / 2 - std.log() - math.log(2 * math.pi) / 2
    return each.logsumexp(0) - math.log(len(each)) + log_slope


def unwarped(law: Law, values: Float[Tensor, "M"], entries: Int[Tensor, "M"]) -> tuple[Tensor, Tensor]:
    """The Gaussian values of values, and the logarithm of how fast they rise with these."""
    if law.warp is None:
        return values, torch.zeros_like(values)
    warp = Warp(law.warp.low[entries], law.warp.high[entries], law.warp.values[:, entries])
    u = warp.inverse(values)
    return u, -warp.slope(u[None])[0].abs().clamp(min=1e-300).log()


def weighted_quantiles(
    values: Float[Tensor, "S M"], weight: Float[Tensor, "S"], probabilities: Float[Tensor, "Q"]
) -> Float[Tensor, "Q M"]:
    """Quantiles of weighted draws, linear between the middles of their weights."""
    ordered, order = values.sort(0)
    w = weight[order]
    middle = (w.cumsum(0) - w / 2).T.contiguous()  # [M S]
    at = probabilities.expand(values.shape[1], -1).contiguous()
    above = torch.searchsorted(middle, at).clamp(1, max(len(values) - 1, 1))
    low, high = middle.gather(1, above - 1), middle.gather(1, above)
    share = ((at - low) / (high - low).clamp(min=1e-300)).clamp(0, 1)
    by_point = ordered.T.contiguous()
    return (by_point.gather(1, above - 1) * (1 - share) + by_point.gather(1, above) * share).T
