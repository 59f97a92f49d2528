"""Hyperparameters that climb the evidence in one batch, and normal distributions around where they arrive.

Every ascent is by itself, whatever else is in its batch. There is no autograd graph, all shapes are fixed, and nothing waits
for the CPU.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ndp.gp.evidence import IMPOSSIBLE, Slope

LONGEST_STEP = 2.0  # of any number of theta
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1.0, 1e-5, 1e5


@dataclass(frozen=True)
class Ascent:
    """Where ascents are: theta, the density there, and what the next steps need."""

    theta: Float[Tensor, "B F S P"]
    value: Float[Tensor, "B F S"]
    gradient: Float[Tensor, "B F S P"]
    curvature: Float[Tensor, "B F S P P"]  # about the negative Hessian, positive definite
    damping: Float[Tensor, "B F S"]
    growth: Float[Tensor, "B F S"]  # of the damping, if the next step fails

    @staticmethod
    def at(theta: Float[Tensor, "B F S P"], here: Slope) -> "Ascent":
        damping = torch.full_like(here.value, FIRST_DAMPING)
        return Ascent(theta, here.value, here.gradient, here.curvature, damping, torch.full_like(damping, 3.0))

    def best(self, count: int) -> "Ascent":
        """The highest `count` of each family."""
        chosen = self.value.topk(min(count, self.value.shape[2]), dim=2).indices
        return Ascent(*(pick(getattr(self, field.name), chosen, dim=2) for field in fields(self)))


def climb(density: Callable[[Tensor], Slope], ascent: Ascent, steps: int) -> Ascent:
    """The ascents after so many evaluations of the density.

    Steps are Levenberg and Marquardt's, with Nielsen's damping. The curvature is the density's, corrected by the last step's
    secant equation (damped BFGS, Powell, 1978). A step that does not rise is not taken.
    """
    for _ in range(steps):
        ascent = _step(density, ascent)
    return ascent


def _step(density: Callable[[Tensor], Slope], now: Ascent) -> Ascent:
    damped = now.curvature + torch.diag_embed(now.damping[..., None] * now.curvature.diagonal(dim1=-2, dim2=-1))
    root, _ = torch.linalg.cholesky_ex(damped)
    step = torch.linalg.solve_triangular(root, now.gradient[..., None], upper=False)
    step = torch.linalg.solve_triangular(root.mT, step, upper=True)[..., 0].nan_to_num(0.0, 0.0, 0.0)
    step = step / (step.abs().amax(-1, keepdim=True) / LONGEST_STEP).clamp(min=1)
    predicted = (now.gradient * step).sum(-1) - 0.5 * _form(now.curvature, step)
    theta = now.theta + step
    then = density(theta)
    gain = (then.value - now.value) / predicted.clamp(min=1e-12)
    finite = then.gradient.isfinite().all(-1) & then.curvature.isfinite().all(-1).all(-1)
    taken = (then.value > now.value) & (then.value > IMPOSSIBLE / 2) & finite
    corrected = _with_secant(then.curvature, step, now.gradient - then.gradient)
    smaller = now.damping * (1 - (2 * gain - 1) ** 3).clamp(0.2, 2.0)
    damping = torch.where(taken, smaller, now.damping * now.growth).clamp(LEAST_DAMPING, MOST_DAMPING)
    growth = torch.where(taken, torch.full_like(now.growth, 3.0), 2 * now.growth)
    vector, matrix = taken[..., None], taken[..., None, None]
    return Ascent(
        theta=torch.where(vector, theta, now.theta),
        value=torch.where(taken, then.value, now.value),
        gradient=torch.where(vector, then.gradient, now.gradient),
        curvature=torch.where(matrix, corrected, now.curvature),
        damping=damping,
        growth=growth.clamp(max=1e5),
    )


def _with_secant(curvature: Float[Tensor, "*S P P"], step: Tensor, change: Tensor) -> Float[Tensor, "*S P P"]:
    """The curvature, updated so that along `step` it is about the `change` of the gradient, and positive definite still."""
    along = (curvature @ step[..., None])[..., 0]
    expected, seen = (step * along).sum(-1), (step * change).sum(-1)
    share = torch.where(seen < 0.2 * expected, 0.8 * expected / (expected - seen).clamp(min=1e-300), 1.0)[..., None]
    change = share * change + (1 - share) * along
    lost = along[..., :, None] * along[..., None, :] / expected.clamp(min=1e-300)[..., None, None]
    won = change[..., :, None] * change[..., None, :] / (step * change).sum(-1).clamp(min=1e-300)[..., None, None]
    corrected = curvature - lost + won
    moved = (expected > 0) & corrected.isfinite().all(-1).all(-1)
    return torch.where(moved[..., None, None], corrected, curvature)


def _form(matrix: Float[Tensor, "*S P P"], vector: Float[Tensor, "*S P"]) -> Float[Tensor, "*S"]:
    return (vector * (matrix @ vector[..., None])[..., 0]).sum(-1)


def pick(values: Tensor, chosen: Int[Tensor, "*S K"], dim: int) -> Tensor:
    """The chosen entries along the axis `dim`, the last of the axes of `chosen`."""
    index = chosen.reshape(*chosen.shape, *(1 for _ in range(values.ndim - dim - 1)))
    return values.gather(dim, index.expand(*chosen.shape, *values.shape[dim + 1 :]))


@dataclass(frozen=True)
class Draws:
    """Points of the normal distributions around modes, and the log-density there of all modes of their family together."""

    theta: Float[Tensor, "B F E P"]  # E = S modes times n points
    log_density: Float[Tensor, "B F E"]
    amplitude: Float[Tensor, "n"]  # a further coordinate of every point, standard normal


def laplace_draws(modes: Ascent, count: int, widen: float) -> Draws:
    """`count` points of each mode's Laplace approximation, `widen` times as wide; the same at every call.

    The points are antithetic pairs of a Kronecker sequence. Their coordinates belong to the noise, the shortest lengthscale,
    the next one, and so on: the order of the inputs changes nothing.
    """
    size = modes.theta.shape[-1]
    order = torch.cat([torch.full_like(modes.theta[..., :1], size - 1).long(), modes.theta[..., :-1].argsort(-1)], -1)
    rows = order[..., :, None].expand_as(modes.curvature)
    sorted_curvature = modes.curvature.gather(-2, rows).gather(-1, rows.mT)
    root, _ = torch.linalg.cholesky_ex(sorted_curvature)
    points = antithetic_normals(count, size + 1, like=modes.theta)
    normal = widen * points[:, :-1].mT.expand(*root.shape[:-2], -1, -1)
    offsets = torch.linalg.solve_triangular(root.mT, normal, upper=True).mT  # [B F S n P], of covariance curvature^-1
    offsets = offsets.gather(-1, order.argsort(-1)[..., None, :].expand_as(offsets))
    theta = modes.theta[..., None, :] + offsets.nan_to_num(0.0, 0.0, 0.0)
    return Draws(theta.flatten(2, 3), _mixture_log_density(modes, theta, widen).flatten(2, 3), points[:, -1])


def _mixture_log_density(modes: Ascent, theta: Float[Tensor, "B F S n P"], widen: float) -> Float[Tensor, "B F S n"]:
    root, _ = torch.linalg.cholesky_ex(modes.curvature)
    off = theta[:, :, None] - modes.theta[:, :, :, None, None]  # [B F S' S n P]
    white = (off[..., None, :] @ root[:, :, :, None, None]).squeeze(-2) / widen
    log_det = root.diagonal(dim1=-2, dim2=-1).log().sum(-1)[..., None, None]
    constant = theta.shape[-1] * (math.log(widen) + 0.5 * math.log(2 * math.pi))
    each = log_det - 0.5 * white.square().sum(-1) - constant
    return torch.logsumexp(each, dim=2) - math.log(modes.theta.shape[2])


def antithetic_normals(count: int, dims: int, like: Tensor) -> Float[Tensor, "{count} {dims}"]:
    """Pairs of points z and -z, z from the Kronecker sequence of the generalised golden ratio (Roberts, 2018)."""
    golden = 2.0
    for _ in range(64):
        golden = (1 + golden) ** (1 / (dims + 1))
    index = torch.arange(1, count // 2 + 1, dtype=like.dtype, device=like.device)[:, None]
    powers = torch.arange(1, dims + 1, dtype=like.dtype, device=like.device)
    half = torch.special.ndtri((0.5 + index * golden**-powers) % 1)
    return torch.cat([half, -half])
