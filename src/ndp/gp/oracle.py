"""The perfect denoiser, known in closed form where the functions are Gaussian.

It stands in for a network, so that every solver, RePaint, the likelihood and the objective are tested without training.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.typing import Denoiser, Level, LevelOfRows
from ndp.diffusion.levels import alpha, ratio, sigma
from ndp.diffusion.prediction import Prediction
from ndp.gp.exact import GP, GPPosterior


def gaussian_denoiser(mean: Float[Tensor, "B M P"], covariance: Float[Tensor, "B P M M"]) -> Denoiser:
    """E[y0 | y_t] for y0 ~ N(mean, covariance), outputs independent, all points at one level.

    y0_hat = mean + alpha S (alpha^2 S + sigma^2 I)^-1 (y_t - alpha mean)
    """
    eigenvalues, basis = torch.linalg.eigh(covariance)
    eigenvalues = eigenvalues.clamp(min=0)

    def denoise(y_t: Float[Tensor, "*S B M P"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B M P"]:
        a, s = alpha(level), sigma(level)
        gain = a * eigenvalues / (a**2 * eigenvalues + s**2)
        residual = torch.einsum("bpmi,...bmp->...bpi", basis, y_t - a * mean)
        return mean + torch.einsum("bpmi,...bpi->...bmp", basis, gain * residual)

    return denoise


def independent_denoiser(mean: Float[Tensor, "B M P"], variance: Float[Tensor, "B M P"]) -> Denoiser:
    """E[y0 | y_t] of values that are independent of each other; each may have a level of its own."""

    def denoise(y_t: Float[Tensor, "*S B M P"], level: Level) -> Float[Tensor, "*S B M P"]:
        a, s = alpha(level)[..., None], sigma(level)[..., None]
        return mean + a * variance / (a**2 * variance + s**2) * (y_t - a * mean)

    return denoise


@dataclass(frozen=True)
class KnownTargets:
    """The denoiser of targets, given the context that the oracle was conditioned on."""

    denoise: Denoiser
    tasks: int


class GPOracle:
    """The minimiser of the objective on draws of a GP, as a network: every point at a level of its own.

        y0_hat = K A (A K A + S)^-1 y_t,    A = diag(alpha), S = diag(sigma^2)

    The one formula is the joint denoiser (all levels equal), the conditional one (context at CLEAN) and the one given noisy
    observations (context at the level of its noise).
    """

    translation_equivariant = False
    encodes_context = True
    separates_noise = False

    def __init__(self, gp: GP, prediction: Prediction = Prediction.V) -> None:
        self.gp = gp
        self.prediction = prediction

    def __call__(
        self,
        x: Float[Tensor, "B N D"],
        y_t: Float[Tensor, "B N P"],
        level: Float[Tensor, "B N"],
        mask: Bool[Tensor, "B N"] | None = None,
        *,
        num_context: int = 0,
    ) -> Float[Tensor, "B N P"]:
        mask = torch.ones_like(level, dtype=torch.bool) if mask is None else mask
        y_t = y_t.masked_fill(~mask[..., None], 0.0)
        a = alpha(level) * mask  # a masked point is one that was not seen at all
        covariance = self.gp.covariance(x.masked_fill(~mask[..., None], 0.0)).to(y_t)
        seen = a[..., :, None] * covariance * a[..., None, :] + torch.diag_embed(sigma(level) ** 2)
        weights = torch.cholesky_solve(y_t, torch.linalg.cholesky(seen))
        y0_hat = covariance @ (a[..., None] * weights)
        return self.prediction.output(y0_hat, y_t, level).masked_fill(~mask[..., None], 0.0)

    def encode_context(
        self,
        x: Float[Tensor, "B C D"],
        y_t: Float[Tensor, "B C 1"],
        level: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
    ) -> GPPosterior:
        """The GP's posterior: the same formula with the context's part worked out once."""
        mask = torch.ones_like(level, dtype=torch.bool) if mask is None else mask
        observed = y_t / alpha(level)[..., None]
        return self.gp.condition(x, observed, noise=torch.where(mask, ratio(level), 0.0), mask=mask)

    def encode_targets(
        self, context: GPPosterior, x: Float[Tensor, "B M D"], *, joint: bool = True, observation_noise: bool = True
    ) -> KnownTargets:
        """The denoiser of the targets' posterior. There is one kind of values: observations."""
        mean, covariance = context.gaussian(x.double(), observation_noise=True)
        if joint:
            return KnownTargets(gaussian_denoiser(mean.to(x), covariance[:, None].to(x)), tasks=x.shape[0])
        variance = covariance.diagonal(dim1=-2, dim2=-1)[..., None].clamp(min=0)
        return KnownTargets(independent_denoiser(mean.to(x), variance.to(x)), tasks=x.shape[0])

    def denoise(self, targets: KnownTargets, y_t: Float[Tensor, "R M 1"], level: LevelOfRows) -> Float[Tensor, "R M 1"]:
        rows, of_tasks = y_t.unflatten(0, (-1, targets.tasks)), level[: targets.tasks] if level.ndim else level
        y0_hat = targets.denoise(rows, of_tasks).flatten(0, 1)
        return self.prediction.output(y0_hat, y_t, level.expand(y_t.shape[:2]))
