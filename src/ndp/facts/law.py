"""Values as functions of Gaussian ones: what an exact GP, a mixture of GPs and a model with GP experts have in common.

    k ~ weight,    u ~ N(mean_k, covariance_k),    f = warp(u), value by value
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ndp.facts.joined import JoinedFacts

JITTER = 1e-10  # of the largest variance


@final
@dataclass(frozen=True)
class Law:
    """E values from K Gaussians, in float64 on the CPU; no `warp` means that the values are the Gaussian ones."""

    log_weight: Float[Tensor, "K"]
    mean: Float[Tensor, "K E"]
    covariance: Float[Tensor, "K E E"]
    warp: Callable[[Float[Tensor, "S E"]], Float[Tensor, "S E"]] | None = None

    def leading(self, count: int) -> "Law":
        """The law of the first `count` values. A warp is given these with the last of them repeated."""
        return replace(
            self,
            mean=self.mean[:, :count],
            covariance=self.covariance[:, :count, :count],
            warp=None if self.warp is None else _of_leading(self.warp, self.mean.shape[1]),
        )

    @cached_property
    def root(self) -> Float[Tensor, "K E E"]:
        """Lower triangular roots of the covariances, with as much jitter as they need."""
        return lower_root(self.covariance)

    def values(self, index: Int[Tensor, "S"], normal: Float[Tensor, "S E"]) -> Float[Tensor, "S E"]:
        """The values of picked Gaussians, by standard normal numbers."""
        u = gaussian_values(self.mean, self.root, index, normal)
        return u if self.warp is None else self.warp(u)

    def measured(self, facts: JoinedFacts) -> tuple["Law", Float[Tensor, ""]]:
        """The law given the Gaussian facts about its first values, and the log-density of these: in closed form."""
        places = facts.weights.shape[1]
        cross = self.covariance[:, :, :places] @ facts.weights.T
        inner = facts.weights @ cross[:, :places] + torch.diag_embed(facts.noise.square())
        root = lower_root(inner)
        half = torch.linalg.solve_triangular(root, cross.mT, upper=False)
        off = facts.value - self.mean[:, :places] @ facts.weights.T
        white = torch.linalg.solve_triangular(root, off[..., None], upper=False)
        volume = root.diagonal(dim1=-2, dim2=-1).log().sum(-1) + len(facts.value) * math.log(2 * math.pi) / 2
        log_weight = torch.log_softmax(self.log_weight, 0) - white.square().sum((1, 2)) / 2 - volume
        total = log_weight.logsumexp(0)
        return (
            replace(
                self,
                log_weight=log_weight - total,
                mean=self.mean + (half.mT @ white)[..., 0],
                covariance=self.covariance - half.mT @ half,
            ),
            total,
        )


def gaussian_values(
    mean: Float[Tensor, "K E"], root: Float[Tensor, "K E E"], index: Int[Tensor, "S"], normal: Float[Tensor, "S E"]
) -> Float[Tensor, "S E"]:
    """mean_k + root_k z, a Gaussian at a time."""
    if len(mean) == 1:
        return mean + normal @ root[0].T
    u = mean[index]
    for k in index.unique().tolist():
        chosen = index == k
        u[chosen] += normal[chosen] @ root[k].T
    return u


def lower_root(covariance: Float[Tensor, "K E E"]) -> Float[Tensor, "K E E"]:
    """Cholesky factors; a matrix that is singular up to rounding gets the least jitter that helps."""
    eye = torch.eye(covariance.shape[-1], dtype=torch.float64)
    size = covariance.diagonal(dim1=-2, dim2=-1).amax(-1).clamp(min=1e-300) if len(eye) else covariance.new_ones(1)
    root, info = torch.linalg.cholesky_ex(covariance)
    for power in range(8):
        if not bool((info > 0).any()):
            return root
        jitter = JITTER * 10**power * size[:, None, None] * (info > 0)[:, None, None]
        again, still = torch.linalg.cholesky_ex(covariance + jitter * eye)
        root, info = torch.where((info > 0)[:, None, None], again, root), torch.where(info > 0, still, 0)
    raise ValueError("the covariance at the places of the facts is not positive definite; leave out places that coincide")


def pivots(covariance: Float[Tensor, "P P"]) -> Int[Tensor, "P"]:
    """The order in which each value is the one that those before it say least about (pivoted Cholesky)."""
    size = len(covariance)
    left, rows = covariance.diagonal().clone(), covariance.new_zeros(size, size)
    order: list[int] = []
    for step in range(size):
        left[order] = -math.inf
        best = int(left.argmax())
        if not left[best] > 1e-12 * covariance.diagonal().max():
            rest = [index for index in range(size) if index not in set(order)]
            return torch.tensor([*order, *rest])
        column = covariance[:, best] - rows[:, :step] @ rows[best, :step]
        rows[:, step] = column / left[best].sqrt()
        left = left - rows[:, step].square()
        order.append(best)
    return torch.tensor(order, dtype=torch.long)


def _of_leading(warp: Callable[[Tensor], Tensor], size: int) -> Callable[[Tensor], Tensor]:
    def of_leading(u: Float[Tensor, "S P"]) -> Float[Tensor, "S P"]:
        padded = torch.cat([u, u[:, -1:].expand(-1, size - u.shape[1])], dim=1)
        return warp(padded)[:, : u.shape[1]]

    return of_leading
