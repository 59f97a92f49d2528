"""From noise to functions: solvers as pure functions of a bound denoiser.

`from_noise` gives the state at the first of `levels` (levels rise from noise to data), a solver carries it to the last, and
a last step (`to_zero` or `half_to_zero`) removes the remaining noise. K levels and a last step cost K calls of the denoiser a
draw (with Heun 2K - 1), and the start one call for all draws of a task.

The probability-flow ODE in `z = y / alpha` and `s = sigma / alpha` is `dz / ds = (z - y0_hat) / s`.
"""

from collections.abc import Callable
from enum import StrEnum
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.typing import Denoiser
from ndp.diffusion.levels import alpha, ratio, sigma

# Standard normal noise to be added to a value: `like -> noise` of the same shape.
Noise = Callable[[Tensor], Tensor]
Solver = Callable[[Denoiser, Tensor, Tensor], Tensor]
LastStep = Callable[[Denoiser, Tensor, Tensor], Tensor]


class Variance(StrEnum):
    """The variance of an ancestral step from level t to level s, of the two in the literature (Ho et al., 2020).

    `BETA` is right for directions in which the data are as wide as the noise, `BETA_TILDE` for those in which they are a
    point; with data that carry observation noise the first is the better one.
    """

    BETA = "beta"
    BETA_TILDE = "beta_tilde"


def from_noise(
    denoise: Denoiser, noise: Float[Tensor, "*S B M P"], level: Float[Tensor, ""]
) -> Float[Tensor, "*S B M P"]:
    """The state of the ODE at the noisiest level: noise about alpha times the mean of the data.

    Where noise drowns the data, the denoiser of no signal at all is that mean.
    """
    return noise + alpha(level) * denoise(torch.zeros_like(noise[:1]), level)


def ddim(denoise: Denoiser, y: Float[Tensor, "*S B M P"], levels: Float[Tensor, "K"]) -> Float[Tensor, "*S B M P"]:
    """First order: Euler steps of the probability-flow ODE (DDIM at eta = 0).

    y_s = alpha_s y0_hat + sigma_s eps_hat
    """
    for now, then in pairwise(levels):
        y0_hat = denoise(y, now)
        y = alpha(then) * y0_hat + sigma(then) * _eps_hat(y, y0_hat, now)
    return y


def heun(denoise: Denoiser, y: Float[Tensor, "*S B M P"], levels: Float[Tensor, "K"]) -> Float[Tensor, "*S B M P"]:
    """Second order: the trapezoid rule in `s`, with an Euler predictor; two calls a step (Karras et al., 2022)."""
    for now, then in pairwise(levels):
        step = ratio(then) - ratio(now)
        z = y / alpha(now)
        slope = (z - denoise(y, now)) / ratio(now)
        z_then = z + step * slope
        slope_then = (z_then - denoise(alpha(then) * z_then, then)) / ratio(then)
        y = alpha(then) * (z + step * (slope + slope_then) / 2)
    return y


def dpm_solver(
    denoise: Denoiser, y: Float[Tensor, "*S B M P"], levels: Float[Tensor, "K"]
) -> Float[Tensor, "*S B M P"]:
    """Second order at one call a step: DPM-Solver++(2M) of Lu et al. (2022), the default.

        y_s = sigma_s / sigma_t y_t + alpha_s (1 - exp(-h)) y0_bar,    h = log(alpha_s / sigma_s) - log(alpha_t / sigma_t)

    where `y0_bar` extrapolates the last two `y0_hat` linearly to the middle of the step.
    """
    previous: tuple[Tensor, Tensor] | None = None
    for now, then in pairwise(levels):
        y0_hat = denoise(y, now)
        h = (then - now) / 2
        y0_bar = y0_hat
        if previous is not None:
            y0_before, h_before = previous
            y0_bar = y0_hat + h / (2 * h_before) * (y0_hat - y0_before)
        y = sigma(then) / sigma(now) * y - alpha(then) * torch.expm1(-h) * y0_bar
        previous = y0_hat, h
    return y


def watched(solver: Solver, watch: Callable[[Tensor, Tensor], None]) -> Solver:
    """The same solver, numbers and all, that shows `watch(y, level)` every state it passes through, the last one included.

    A solver of one call a step is asked about each of its states once, so that what it asks is where it is.
    """

    def solve(denoise: Denoiser, y: Tensor, levels: Tensor) -> Tensor:
        def asked(y_t: Tensor, level: Tensor) -> Tensor:
            watch(y_t, level)
            return denoise(y_t, level)

        end = solver(asked, y, levels)
        watch(end, levels[-1])
        return end

    return solve


def ancestral(
    denoise: Denoiser,
    y: Float[Tensor, "*S B M P"],
    levels: Float[Tensor, "K"],
    *,
    noise: Noise,
    variance: Variance = Variance.BETA,
) -> Float[Tensor, "*S B M P"]:
    """The paper's sampler: simulate the reverse Markov chain (DDPM), drawing fresh noise at every step."""
    for now, then in pairwise(levels):
        y = backward_step(y, denoise(y, now), now, then, noise=noise, variance=variance)
    return y


def backward_step(
    y: Float[Tensor, "*S B N P"],
    y0_hat: Float[Tensor, "*S B N P"],
    now: Float[Tensor, ""],
    then: Float[Tensor, ""],
    *,
    noise: Noise,
    variance: Variance,
) -> Float[Tensor, "*S B N P"]:
    """A draw from q(y_s | y_t, y0 = y0_hat), one step from `now` (t) towards data at `then` (s).

    mean = sqrt(1 - beta) sigma_s^2 / sigma_t^2 y_t + alpha_s beta / sigma_t^2 y0_hat,    1 - beta = alpha_t^2 / alpha_s^2
    """
    keep = alpha(now) / alpha(then)
    beta = -torch.expm1(2 * torch.log(keep))
    shrink = (sigma(then) / sigma(now)) ** 2
    mean = keep * shrink * y + alpha(then) * beta / sigma(now) ** 2 * y0_hat
    match variance:
        case Variance.BETA:
            return mean + beta.sqrt() * noise(mean)
        case Variance.BETA_TILDE:
            return mean + (beta * shrink).sqrt() * noise(mean)


def to_zero(denoise: Denoiser, y: Float[Tensor, "*S B M P"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B M P"]:
    """Last step for noise-free functions: an Euler step of the ODE to zero noise, which is `y0_hat` itself."""
    return denoise(y, level)


def half_to_zero(
    denoise: Denoiser, y: Float[Tensor, "*S B M P"], level: Float[Tensor, ""]
) -> Float[Tensor, "*S B M P"]:
    """Last step for functions with observation noise: half of an Euler step.

    Where the data have a noise floor above `ratio(level)`, the ODE's slope falls linearly to nothing at zero noise, so the
    trapezoid rule takes half the slope at `level`, at no further call.
    """
    return (y / alpha(level) + denoise(y, level)) / 2


def _eps_hat(y: Tensor, y0_hat: Tensor, level: Tensor) -> Tensor:
    return (y - alpha(level) * y0_hat) / sigma(level)
