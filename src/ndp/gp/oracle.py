"""The perfect denoiser, known in closed form where the functions are Gaussian.

It stands in for a network, so that every solver, RePaint, the likelihood and the objective are tested without training.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.typing import Denoiser
from ndp.diffusion.levels import alpha, ratio, sigma
from ndp.diffusion.prediction import Prediction
from ndp.gp.exact import GP


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


@dataclass(frozen=True)
class KnownContext:
    """A context that the oracle has conditioned on."""

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

    def encode(
        self,
        x: Float[Tensor, "B C D"],
        y: Float[Tensor, "B C 1"],
        level: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
        x_target: Float[Tensor, "B M D"],
        *,
        of_function: bool = False,
        alone: bool = False,
    ) -> "KnownContext":
        """The denoiser of the targets' posterior: the same formula with the context's part worked out once."""
        if of_function:
            raise ValueError("the oracle does not tell functions from observations")
        mask = torch.ones_like(level, dtype=torch.bool) if mask is None else mask
        noise = torch.where(mask, ratio(level), 0.0)
        observed = y / alpha(level)[..., None]
        mean, covariance = self.gp.condition(x, observed, noise=noise, mask=mask).gaussian(x_target.double())
        if alone:
            covariance = torch.diag_embed(covariance.diagonal(dim1=-2, dim2=-1))
        return KnownContext(gaussian_denoiser(mean.to(y), covariance[:, None].to(y)), tasks=x.shape[0])

    def decode(
        self, y_t: Float[Tensor, "R M 1"], level: Float[Tensor, ""], encoding: "KnownContext"
    ) -> Float[Tensor, "R M 1"]:
        rows = y_t.unflatten(0, (-1, encoding.tasks))
        return self.prediction.output(encoding.denoise(rows, level).flatten(0, 1), y_t, level.expand(y_t.shape[:2]))
