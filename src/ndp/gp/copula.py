"""The copula of a mixture of Gaussians: how values depend on each other, whatever their own distributions are.

    x ~ sum_k w_k N(m_k, S_k),    F_i(x) = sum_k w_k Phi((x - m_ki) / s_ki),    z_i = Phi^-1(F_i(x_i))

Every score z_i is a standard normal number, and the scores together depend on each other as the values of the mixture do.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ndp.core.increasing import invert_increasing

LEAST = 1e-15  # a probability nearer to 0 or 1 counts as this one
PICKS = 2**12  # that a number of noise in 32 bits decides


@final
@dataclass(frozen=True)
class GaussianMixtureCopula:
    """Of M values of each of B tasks, from K Gaussians."""

    log_weight: Float[Tensor, "B K"]
    mean: Float[Tensor, "B K M"]
    covariance: Float[Tensor, "B K M M"]

    def scores(self, noise: Float[Tensor, "S B M"]) -> Float[Tensor, "S B M"]:
        """Draws of the scores, each a function of its own noise: standard normal numbers become dependent ones."""
        index = self._picked(noise)
        task = torch.arange(noise.shape[1], device=noise.device)
        x = self.mean[task, index].clone()
        for k in range(self.log_weight.shape[1]):  # a Gaussian at a time: its root serves all draws that picked it
            draw, of_task = (index == k).nonzero(as_tuple=True)
            if len(draw):
                x[draw, of_task] += (self._root[of_task, k] @ noise[draw, of_task, :, None])[..., 0]
        return torch.special.ndtri(self._distribution(x).clamp(LEAST, 1 - LEAST))

    def log_density(self, scores: Float[Tensor, "S B M"]) -> Float[Tensor, "S B"]:
        """The log-density of scores, relative to independent standard normal numbers."""
        ends = (self.mean - 9 * self._std).amin(1), (self.mean + 9 * self._std).amax(1)
        low, high = (end.expand_as(scores) for end in ends)
        x = invert_increasing(self._distribution, torch.special.ndtr(scores), low, high)
        off = x[:, :, None] - self.mean
        white = torch.linalg.solve_triangular(self._root, off[..., None], upper=False)[..., 0]
        log_det = self._root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        together = self.log_weight - 0.5 * white.square().sum(-1) - log_det
        each = self.log_weight[..., None] - 0.5 * (off / self._std).square() - self._std.log()
        return torch.logsumexp(together, 2) - torch.logsumexp(each, 2).sum(-1)

    @cached_property
    def _std(self) -> Float[Tensor, "B K M"]:
        return self.covariance.diagonal(dim1=-2, dim2=-1).sqrt()

    @cached_property
    def _root(self) -> Float[Tensor, "B K M M"]:
        return torch.linalg.cholesky(self.covariance)

    def _distribution(self, x: Float[Tensor, "S B M"]) -> Float[Tensor, "S B M"]:
        """The probability of a value below `x`, of every value by itself."""
        below = torch.special.ndtr((x[:, :, None] - self.mean) / self._std)
        return (self.log_weight.exp()[..., None] * below).sum(2)

    def _picked(self, noise: Float[Tensor, "S B M"]) -> Int[Tensor, "S B"]:
        """The Gaussian of every draw. The last digits of its first noise decide, which say next to nothing about its size."""
        place = torch.frac(torch.special.ndtr(noise[..., 0]) * PICKS)
        ends = self.log_weight.exp().cumsum(-1)[:, :-1].contiguous()
        return torch.searchsorted(ends, place.T.contiguous()).T
