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
from ndp.core.typing import LevelOfRows
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


@dataclass(frozen=True)
class KnownTargets:
    """Targets whose inputs are known, for the regression oracle."""

    posterior: KnownPosterior
    x: Float[Tensor, "B M 1"]
    joint: bool


@final
class JointOracle:
    """The minimiser of the joint objective on draws of a GP of one input, as a network, for independent points.

    Points that are asked together must have known inputs: everything else would be an integral over all of them at once.
    """

    translation_equivariant = False
    encodes_context = True
    separates_noise = False

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
        independent: bool = False,
    ) -> tuple[Float[Tensor, "B N 1"], Float[Tensor, "B N 1"]]:
        """The context must have known inputs. What is said of its own points is nothing (zeros)."""
        context, targets = slice(None, num_context), slice(num_context, None)
        if bool((level_x[:, context] < CLEAN).any()):
            raise ValueError("the joint oracle needs a context of known inputs")
        if not independent and x_t.shape[1] > num_context + 1:
            raise ValueError("the joint oracle answers for independent points")
        known = None if mask is None else mask[:, context]
        encoding = self.encode_context(x_t[:, context], y_t[:, context], level_y[:, context], known)
        out_x, out_y = self._decode(
            x_t[:, targets], y_t[:, targets], level_x[:, targets], level_y[:, targets], encoding
        )
        nothing = torch.zeros_like(x_t[:, context])
        return torch.cat([nothing, out_x], dim=1), torch.cat([nothing, out_y], dim=1)

    def encode_context(
        self,
        x: Float[Tensor, "B C 1"],
        y_t: Float[Tensor, "B C 1"],
        level: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
    ) -> KnownPosterior:
        """A context of known inputs."""
        mask = torch.ones_like(level, dtype=torch.bool) if mask is None else mask
        noise = torch.where(mask, ratio(level), 0.0)
        context = Context(x.double(), (y_t / alpha(level)[..., None]).double(), noise.double(), mask)
        posterior = GPPosterior(self.gp, context, Form(numpy=False, batched=True, outputs=True))
        grid = self._grid[None, :, None].expand(len(x), -1, -1).to(x.device)
        mean, variance = posterior.marginals(grid, observation_noise=True)
        return KnownPosterior(posterior, (x, y_t, level, mask), mean[..., 0], variance[..., 0])

    def encode_targets(
        self, context: KnownPosterior, x: Float[Tensor, "B M 1"], *, joint: bool = True, observation_noise: bool = True
    ) -> KnownTargets:
        """Targets of known inputs: regression."""
        return KnownTargets(context, x, joint)

    def denoise(self, targets: KnownTargets, y_t: Float[Tensor, "R M 1"], level: LevelOfRows) -> Float[Tensor, "R M 1"]:
        clean = level.new_full((), CLEAN)
        return self.denoise_points(targets.posterior, targets.x, y_t, clean, level, independent=not targets.joint)[1]

    def denoise_points(
        self,
        context: KnownPosterior,
        x_t: Float[Tensor, "Q M 1"],
        y_t: Float[Tensor, "R M 1"],
        level_x: Float[Tensor, ""],
        level_y: LevelOfRows,
        *,
        independent: bool = False,
    ) -> tuple[Float[Tensor, "R M 1"], Float[Tensor, "R M 1"]]:
        x_t = x_t.expand(len(y_t) // len(x_t), *x_t.shape).flatten(0, 1)
        if independent or x_t.shape[1] == 1:
            shape = y_t.shape[:2]
            return self._decode(x_t, y_t, level_x.expand(shape), level_y.expand(shape), context)
        if level_x < CLEAN:
            raise ValueError("the joint oracle answers for independent points, or for points whose inputs are known")
        regression = GPOracle(self.gp, self.prediction)
        targets = regression.encode_targets(regression.encode_context(*context.context), x_t[: len(context.mean)])
        return torch.zeros_like(x_t), regression.denoise(targets, y_t, level_y)

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
            m, v = encoding.posterior.marginals(
                x_t.double().unflatten(0, (draws, -1)).transpose(0, 1).flatten(1, 2), observation_noise=True
            )
            m, v = (t.unflatten(1, (draws, -1)).transpose(0, 1).flatten(0, 1) for t in (m, v))
            y0_hat = torch.where(known, m + a * v / (a**2 * v + s**2) * (y_t - a * m), y0_hat)
            x0_hat = torch.where(known, x_t, x0_hat)
        return (
            self.prediction.output(x0_hat.to(x_t), x_t, level_x),
            self.prediction.output(y0_hat.to(y_t), y_t, level_y),
        )
