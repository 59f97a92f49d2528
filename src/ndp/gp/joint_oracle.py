"""The perfect denoiser of a point's input and value, for draws of a GP at inputs uniform in [-1, 1].

Given a context, a single point is two numbers, whose posterior is an integral over the input alone: a sum over a fine grid. It
stands in for a joint network, so that solvers, conditioning and optimisation are tested without training.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.arrays import Context, Form
from ndp.diffusion.levels import CLEAN, alpha, ratio, sigma
from ndp.diffusion.prediction import Prediction
from ndp.gp.exact import GP, GPPosterior
from ndp.gp.inverse import log_normal_density, middles
from ndp.gp.oracle import GPOracle


@dataclass(frozen=True)
class KnownPosterior:
    """A context that the oracle has conditioned on, and the mean and variance of values on its grid."""

    posterior: GPPosterior
    context: tuple[Tensor, Tensor, Tensor, Tensor]
    mean: Float[Tensor, "B G"]
    variance: Float[Tensor, "B G"]


@final
class JointOracle:
    """The minimiser of the joint objective on draws of a GP of one input, as a network, for points that are asked alone.

    Points that are asked together must have known inputs: everything else would be an integral over all of them at once.
    """

    def __init__(self, gp: GP, prediction: Prediction = Prediction.V, *, nodes: int = 1000) -> None:
        self.gp, self.prediction = gp, prediction
        self._grid = middles(nodes)

    def __call__(
        self,
        x_t: Float[Tensor, "B N 1"],
        y_t: Float[Tensor, "B N 1"],
        level_x: Float[Tensor, "B N"],
        level_y: Float[Tensor, "B N"],
        mask: Bool[Tensor, "B N"] | None = None,
        *,
        num_context: int = 0,
        alone: bool = False,
    ) -> tuple[Float[Tensor, "B N 1"], Float[Tensor, "B N 1"]]:
        """The context must have known inputs. What is said of its own points is nothing (zeros)."""
        context, targets = slice(None, num_context), slice(num_context, None)
        if bool((level_x[:, context] < CLEAN).any()):
            raise ValueError("the joint oracle needs a context of known inputs")
        if not alone and x_t.shape[1] > num_context + 1:
            raise ValueError("the joint oracle answers for points that are asked alone")
        known = None if mask is None else mask[:, context]
        encoding = self.encode(x_t[:, context], y_t[:, context], level_x[:, context], level_y[:, context], known)
        out_x, out_y = self._decode(
            x_t[:, targets], y_t[:, targets], level_x[:, targets], level_y[:, targets], encoding
        )
        nothing = torch.zeros_like(x_t[:, context])
        return torch.cat([nothing, out_x], dim=1), torch.cat([nothing, out_y], dim=1)

    def encode(
        self,
        x: Float[Tensor, "B C 1"],
        y: Float[Tensor, "B C 1"],
        level_x: Float[Tensor, "B C"],
        level_y: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
    ) -> KnownPosterior:
        mask = torch.ones_like(level_y, dtype=torch.bool) if mask is None else mask
        noise = torch.where(mask, ratio(level_y), 0.0)
        context = Context(x.double(), (y / alpha(level_y)[..., None]).double(), noise.double(), mask)
        posterior = GPPosterior(self.gp, context, Form(numpy=False, batched=True, outputs=True))
        mean, variance = posterior.marginals(self._grid[None, :, None].expand(len(x), -1, -1).to(x.device))
        return KnownPosterior(posterior, (x, y, level_y, mask), mean[..., 0], variance[..., 0])

    def decode(
        self,
        x_t: Float[Tensor, "Q M 1"],
        y_t: Float[Tensor, "R M 1"],
        level_x: Float[Tensor, ""],
        level_y: Float[Tensor, ""],
        encoding: KnownPosterior,
        *,
        alone: bool = False,
    ) -> tuple[Float[Tensor, "R M 1"], Float[Tensor, "R M 1"]]:
        x_t = x_t.expand(len(y_t) // len(x_t), *x_t.shape).flatten(0, 1)
        if alone or x_t.shape[1] == 1:
            shape = y_t.shape[:2]
            return self._decode(x_t, y_t, level_x.expand(shape), level_y.expand(shape), encoding)
        if level_x < CLEAN:
            raise ValueError("the joint oracle answers for points that are asked alone, or whose inputs are known")
        regression = GPOracle(self.gp, self.prediction)
        x, y, level, mask = encoding.context
        given = regression.encode(x, y, level, mask, x_t[: len(x)])
        return torch.zeros_like(x_t), regression.decode(y_t, level_y, given)

    def _decode(
        self,
        x_t: Float[Tensor, "R M 1"],
        y_t: Float[Tensor, "R M 1"],
        level_x: Float[Tensor, "R M"],
        level_y: Float[Tensor, "R M"],
        encoding: KnownPosterior,
    ) -> tuple[Float[Tensor, "R M 1"], Float[Tensor, "R M 1"]]:
        """Sums over the grid, with weights p(x_t | x) p(y_t | x, context); where the input is known it is all the grid."""
        draws = len(x_t) // len(encoding.mean)
        grid = self._grid.to(x_t.device)
        mean, variance = (t.repeat(draws, 1)[:, None] for t in (encoding.mean, encoding.variance))
        a, s = alpha(level_y)[..., None], sigma(level_y)[..., None]
        seen = a**2 * variance + s**2
        of_x = log_normal_density(x_t, alpha(level_x)[..., None] * grid, sigma(level_x)[..., None] ** 2)
        weights = torch.softmax(of_x + log_normal_density(y_t, a * mean, seen), dim=-1)
        x0_hat = (weights * grid).sum(-1, keepdim=True)
        y0_hat = (weights * (mean + a * variance / seen * (y_t - a * mean))).sum(-1, keepdim=True)
        known = (level_x >= CLEAN)[..., None]
        if bool(known.any()):
            m, v = encoding.posterior.marginals(x_t.double().unflatten(0, (draws, -1)).transpose(0, 1).flatten(1, 2))
            m, v = (t.unflatten(1, (draws, -1)).transpose(0, 1).flatten(0, 1) for t in (m, v))
            y0_hat = torch.where(known, m + a * v / (a**2 * v + s**2) * (y_t - a * m), y0_hat)
            x0_hat = torch.where(known, x_t, x0_hat)
        return (
            self.prediction.output(x0_hat.to(x_t), x_t, level_x),
            self.prediction.output(y0_hat.to(y_t), y_t, level_y),
        )
