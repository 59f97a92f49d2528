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

JITTER = 1e-10  # of the largest variance
TABLE = 1024  # places of a tabulated function


@final
@dataclass(frozen=True)
class Warp:
    """Increasing or decreasing functions of E numbers, each tabulated at even places from `low` to `high`: a cubic between two
    places by the slopes there, and lines beyond the ends."""

    low: Float[Tensor, "E"]
    high: Float[Tensor, "E"]
    values: Float[Tensor, "Q E"]

    @staticmethod
    def of(
        function: Callable[[Float[Tensor, "Q E"]], Float[Tensor, "Q E"]],
        low: Float[Tensor, "E"],
        high: Float[Tensor, "E"],
    ) -> "Warp":
        """The table of a function that works value by value."""
        share = torch.linspace(0, 1, TABLE, dtype=torch.float64)[:, None]
        return Warp(low, high, function(low + share * (high - low)))

    def leading(self, count: int) -> "Warp":
        """The functions of the first `count` numbers."""
        return Warp(self.low[:count], self.high[:count], self.values[:, :count])

    @cached_property
    def _steps(self) -> Float[Tensor, "E"]:
        return (self.high - self.low) / (len(self.values) - 1)

    @cached_property
    def _rises(self) -> Float[Tensor, "Q E"]:
        """Slopes times the distance of two places, at most three times the secants (which keeps the cubics monotone)."""
        secant = self.values.diff(dim=0)
        before, after = torch.cat([secant[:1], secant]), torch.cat([secant, secant[-1:]])
        least = torch.minimum(before.abs(), after.abs())
        return ((before + after) / 2).clamp(-3 * least, 3 * least)

    def __call__(self, u: Float[Tensor, "S E"]) -> Float[Tensor, "S E"]:
        return self._at(u)[0]

    def slope(self, u: Float[Tensor, "S E"]) -> Float[Tensor, "S E"]:
        """The derivative of each function."""
        return self._at(u)[1]

    def _at(self, u: Float[Tensor, "S E"]) -> tuple[Tensor, Tensor]:
        last, size = len(self.values) - 1, u.shape[1]
        place = (u - self.low) / self._steps
        inside = place.clamp(0, last)
        index = inside.floor().clamp(max=last - 1).long()
        flat = index * size + torch.arange(size)
        t = inside - index
        y0, y1 = self.values.take(flat), self.values.take(flat + size)
        d0, d1 = self._rises.take(flat), self._rises.take(flat + size)
        rise = y1 - y0
        along = y0 + t * (d0 + t * (3 * rise - 2 * d0 - d1 + t * (d0 + d1 - 2 * rise)))
        slope = d0 + t * (2 * (3 * rise - 2 * d0 - d1) + 3 * t * (d0 + d1 - 2 * rise))
        return along + (place - inside) * slope, slope / self._steps

    def inverse(self, values: Float[Tensor, "E"]) -> Float[Tensor, "E"]:
        """Where the functions have these values, by bisection."""
        low, high = self.low, self.high
        rises = self.values[-1] > self.values[0]
        for _ in range(60):
            middle = (low + high) / 2
            below = (self(middle[None])[0] < values) == rises
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2


@final
@dataclass(frozen=True)
class Law:
    """E values from K Gaussians, in float64 on the CPU; no `warp` means that the values are the Gaussian ones."""

    log_weight: Float[Tensor, "K"]
    mean: Float[Tensor, "K E"]
    covariance: Float[Tensor, "K E E"]
    warp: Warp | None = None

    def leading(self, count: int) -> "Law":
        """The law of the first `count` values."""
        return replace(
            self,
            mean=self.mean[:, :count],
            covariance=self.covariance[:, :count, :count],
            warp=None if self.warp is None else self.warp.leading(count),
        )

    @cached_property
    def root(self) -> Float[Tensor, "K E E"]:
        """Lower triangular roots of the covariances, with as much jitter as they need."""
        return lower_root(self.covariance)

    def values(self, index: Int[Tensor, "S"], normal: Float[Tensor, "S E"]) -> Float[Tensor, "S E"]:
        """The values of picked Gaussians, by standard normal numbers."""
        u = gaussian_values(self.mean, self.root, index, normal)
        return u if self.warp is None else self.warp(u)

    def measured(
        self, weights: Float[Tensor, "Q E"], value: Float[Tensor, "Q"], noise: Float[Tensor, "Q"]
    ) -> tuple["Law", float]:
        """The law given Gaussian measurements of the values beneath, and the log-density of these: in closed form."""
        cross = self.covariance @ weights.T
        inner = weights @ cross + torch.diag_embed(noise.square())
        root = lower_root(inner)
        half = torch.linalg.solve_triangular(root, cross.mT, upper=False)
        off = value - self.mean @ weights.T
        white = torch.linalg.solve_triangular(root, off[..., None], upper=False)
        volume = root.diagonal(dim1=-2, dim2=-1).log().sum(-1) + len(value) * math.log(2 * math.pi) / 2
        log_weight = torch.log_softmax(self.log_weight, 0) - white.square().sum((1, 2)) / 2 - volume
        total = log_weight.logsumexp(0)
        return (
            replace(
                self,
                log_weight=log_weight - total,
                mean=self.mean + (half.mT @ white)[..., 0],
                covariance=self.covariance - half.mT @ half,
            ),
            total.item(),
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
    raise ValueError(
        "the covariance at the places of the facts is not positive definite; leave out places that coincide"
    )


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
