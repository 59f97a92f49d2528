"""Exact log-densities: the change of variables along the probability-flow ODE, from data to noise.

In `u = log(sigma / alpha)`, with y in R^n:

    dy / du = alpha (alpha y - y0_hat)
    log p(y0) = log N(y_T; alpha_T E[y0], I) + integral of (alpha^2 n - alpha div y0_hat) du

Towards zero noise both integrands vanish as sigma^2 where the data have a noise floor, so the piece below the first level is
half of the integrand there. In the unscaled `z = y / alpha` the path would grow as sigma, and its error with it.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.typing import Denoiser
from ndp.diffusion.levels import alpha, check_steps, log_uniform, noisiest_ratio
from ndp.diffusion.solvers import Noise, from_noise

# Divergence of a denoiser at (y_t, level) with respect to y_t: [B].
Divergence = Callable[[Denoiser, Tensor, Tensor], Tensor]


def log_prob(
    denoise: Denoiser,
    y0: Float[Tensor, "B M P"],
    levels: Float[Tensor, "K"] | None = None,
    *,
    divergence: Divergence | None = None,
    with_noise: bool = False,
) -> Float[Tensor, "B"]:
    """The joint log-density in nats of `y0` under the ODE's distribution.

    Fourth-order Runge-Kutta for the path, on a grid uniform in `u`; the trapezoid rule for the divergence at its nodes.
    The default grid is within 0.001 nats a point of the exact density on GP posteriors with noise 0.05. Functions without
    observation noise have no density; the result is then about the density with noise of the finest level added.
    `with_noise` says that `y0` carries exactly that noise: the path then starts at the finest level.
    """
    size = y0.shape[-2] * y0.shape[-1]
    levels = default_levels(size) if levels is None else levels
    total, noise = _along_the_path(denoise, y0, levels, divergence or exact_divergence, size, with_noise)
    return noise.sum((-2, -1)) + total


def log_prob_of_each(
    denoise: Denoiser, y0: Float[Tensor, "B M 1"], levels: Float[Tensor, "K"]
) -> Float[Tensor, "B M 1"]:
    """The log-density of every value by itself, under a denoiser of independent targets."""
    total, noise = _along_the_path(denoise, y0, levels, _slope, 1, False)
    return noise + total


def _slope(denoise: Denoiser, y: Float[Tensor, "B M 1"], level: Float[Tensor, ""]) -> Float[Tensor, "B M 1"]:
    """The divergence of each value where none depends on the others: one backward pass for all."""
    with torch.enable_grad():
        copy = y.detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(denoise(copy[None], level).sum(), copy)
    return gradient


def _along_the_path(
    denoise: Denoiser,
    y0: Float[Tensor, "B M P"],
    levels: Float[Tensor, "K"],
    divergence: Divergence,
    size: int,
    with_noise: bool,
) -> tuple[Tensor, Float[Tensor, "B M P"]]:
    """The change of volume from `y0` to noise, for groups of `size` values each, and the log-density of the noise found."""
    levels = levels.flip(0).to(y0)  # from data to noise

    def velocity(y: Tensor, level: Tensor) -> Tensor:
        return alpha(level) * (alpha(level) * y - denoise(y, level))

    def rate(y: Tensor, level: Tensor) -> Tensor:
        return alpha(level) ** 2 * size - alpha(level) * divergence(denoise, y, level)

    if with_noise:
        y = alpha(levels[0]) * y0
        rate_now = rate(y, levels[0])
        total = size * alpha(levels[0]).log()
    else:
        # Below the first level y moves by half the velocity that it has there: solved by one correction.
        y = y0 + velocity(y0, levels[0]) / 2
        y = y0 + velocity(y, levels[0]) / 2
        rate_now = rate(y, levels[0])
        total = rate_now / 2
    for now, then in pairwise(levels):
        step = (now - then) / 2
        middle = (now + then) / 2
        k1 = velocity(y, now)
        k2 = velocity(y + step / 2 * k1, middle)
        k3 = velocity(y + step / 2 * k2, middle)
        k4 = velocity(y + step * k3, then)
        y = y + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        rate_then = rate(y, then)
        total = total + step * (rate_now + rate_then) / 2
        rate_now = rate_then
    mean = from_noise(denoise, torch.zeros_like(y)[None], levels[-1])[0]
    return total, torch.distributions.Normal(mean, torch.ones_like(y)).log_prob(y)


def default_levels(num_values: int, steps: int = 15, *, finest: float = 0.006) -> Float[Tensor, "K"]:
    """The grid on which `log_prob` reaches 0.001 nats a point: `steps` Runge-Kutta steps, `steps + 1` divergences."""
    return log_uniform(check_steps(steps) + 1, largest=noisiest_ratio(num_values), smallest=finest)


def exact_divergence(
    denoise: Denoiser, y: Float[Tensor, "B M P"], level: Float[Tensor, ""], *, chunk: int = 64
) -> Float[Tensor, "B"]:
    """The trace of the Jacobian: one backward pass for every value, `chunk` of them at a time as a batch."""
    batch, points, outputs = y.shape
    size = points * outputs
    total = y.new_zeros(batch)
    for start in range(0, size, chunk):
        index = torch.arange(start, min(start + chunk, size), device=y.device)
        row = torch.arange(len(index), device=y.device)
        with torch.enable_grad():
            copies = y.detach().expand(len(index), *y.shape).clone().requires_grad_()
            picked = denoise(copies, level).reshape(len(index), batch, size)[row, :, index]
            (gradient,) = torch.autograd.grad(picked.sum(), copies)
        total = total + gradient.reshape(len(index), batch, size)[row, :, index].sum(0)
    return total


def hutchinson_divergence(noise: Noise, *, probes: int = 8) -> Divergence:
    """An unbiased estimate from `probes` random signs, fresh at every call; for many targets.

    Its standard deviation in `log_prob` is about 0.05 nats a point at one probe and falls with the root of `probes`.
    """

    def divergence(denoise: Denoiser, y: Tensor, level: Tensor) -> Tensor:
        with torch.enable_grad():
            copies = y.detach().expand(probes, *y.shape).clone().requires_grad_()
            signs = torch.where(noise(copies.detach()) < 0, -1.0, 1.0).to(y)
            (gradient,) = torch.autograd.grad((denoise(copies, level) * signs).sum(), copies)
        return (gradient * signs).sum((-2, -1)).mean(0)

    return divergence


def make_divergence(probes: int | None, noise: Noise) -> Divergence:
    """The exact divergence, or its estimate where a number of probes is given."""
    if probes is None:
        return exact_divergence
    if probes < 1:
        raise ValueError(f"probes must be at least 1, not {probes}")
    return hutchinson_divergence(noise, probes=probes)
