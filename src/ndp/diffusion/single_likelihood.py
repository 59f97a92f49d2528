"""The log-density of single values: the change of variables along the probability-flow ODE, each value by itself.

In `u = y_t / alpha` and `s = log(sigma / alpha)`, with the slope k of the denoiser in u:

    du / ds = u - y0_hat
    log p(y0) = log p_first(u_first) + integral of (1 - k) ds - log(d y0 / d u_last)

Distributions are those of `ndp.diffusion.marginal_solver`: Gaussian at the first ratio, and around each value at the last one.
There a step to zero noise has a closed form, `y0 = u + (y0_hat - u) / (1 + sqrt(k))`, which is inverted here.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.typing import Denoiser
from ndp.diffusion.levels import alpha, check_steps, level_of_ratio
from ndp.diffusion.marginal_solver import Guess, line

ITERATIONS = 3  # of Newton's method; one is exact for Gaussians
LEAST_SLOPE = 1e-4  # at the last ratio: of a distribution a hundredth as wide as the noise
LEAST_SHARE = 0.1  # of the last step's derivative in that of a Gaussian
FARTHEST = 10.0  # of an iteration, relative to the noise
APART = 0.1  # places whose difference gives the change of a slope, relative to the noise


def log_prob_of_each(
    denoise: Denoiser, y0: Float[Tensor, "B M 1"], guess: Guess, steps: int, trained: tuple[float, float]
) -> Float[Tensor, "B M 1"]:
    """The log-density of every value by itself, under a denoiser of independent targets.

    Fourth-order Runge-Kutta for the path, and the trapezoid rule with corrections at its ends for the slope.
    """
    steps = check_steps(steps)
    first = guess.first_ratio(steps, trained)
    least = first.new_tensor(trained[0]).log()
    step = (first.log() - least) / steps
    u = y0
    for _ in range(ITERATIONS):
        end, derivative = _last_step(denoise, u, least)
        most = FARTHEST * least.exp()
        u = u - ((end - y0) / derivative).clamp(-most, most)
    _, derivative = _last_step(denoise, u, least)
    y0_hat, k = _value_and_slope(denoise, u, least)
    total = step * (1 - k) / 2 + step.square() / 12 * _bend(k) - derivative.log()
    for index in range(steps):
        now = least + index * step
        k1 = u - y0_hat
        k2 = _velocity(denoise, u + step / 2 * k1, now + step / 2)
        k3 = _velocity(denoise, u + step / 2 * k2, now + step / 2)
        k4 = _velocity(denoise, u + step * k3, now + step)
        u = u + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        y0_hat, k = _value_and_slope(denoise, u, now + step)
        total = total + step * (1 - k) * (0.5 if index == steps - 1 else 1)
    total = total - step.square() / 12 * _bend(k)
    mean, slope = line(denoise, guess, first)
    return total + torch.distributions.Normal(mean, first * (1 - slope).rsqrt()).log_prob(u)


def _last_step(
    denoise: Denoiser, u: Float[Tensor, "B M 1"], log_ratio: Float[Tensor, ""]
) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M 1"]]:
    """Where the step to zero noise ends, and the derivative of this end in `u`."""
    apart = APART * log_ratio.exp()
    places = torch.stack([u - apart, u, u + apart])
    y0_hat, k = _value_and_slope(denoise, places, log_ratio)
    root = k.clamp(LEAST_SLOPE, 1).sqrt()
    end = places + (y0_hat - places) / (1 + root)
    return end[1], torch.maximum((end[2] - end[0]) / (2 * apart), LEAST_SHARE * root[1])


def _bend(slope: Float[Tensor, "B M 1"]) -> Float[Tensor, "B M 1"]:
    """The derivative of `1 - slope` in log ratio, along the path of a Gaussian."""
    k = slope.clamp(0, 1)
    return 2 * k * (1 - k)


def _denoised(denoise: Denoiser, u: Float[Tensor, "*S B M 1"], log_ratio: Tensor) -> Float[Tensor, "*S B M 1"]:
    level = level_of_ratio(log_ratio.exp().expand(u.shape[-3:]))[..., 0]
    rows = u.reshape(-1, *u.shape[-3:])
    return denoise(alpha(level)[..., None] * rows, level).reshape(u.shape)


def _velocity(denoise: Denoiser, u: Float[Tensor, "B M 1"], log_ratio: Tensor) -> Float[Tensor, "B M 1"]:
    return u - _denoised(denoise, u, log_ratio)


def _value_and_slope(
    denoise: Denoiser, u: Float[Tensor, "*S B M 1"], log_ratio: Tensor
) -> tuple[Float[Tensor, "*S B M 1"], Float[Tensor, "*S B M 1"]]:
    """No value depends on the others: one backward pass gives all slopes."""
    with torch.enable_grad():
        copy = u.detach().clone().requires_grad_()
        y0_hat = _denoised(denoise, copy, log_ratio)
        (slope,) = torch.autograd.grad(y0_hat.sum(), copy)
    return y0_hat.detach(), slope
