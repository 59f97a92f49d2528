"""Noise levels of the variance-preserving diffusion, as plain tensors of log-SNR.

    y_t = alpha * y0 + sigma * eps,    alpha^2 + sigma^2 = 1,    level = log(alpha^2 / sigma^2)

A level rises from noise to data. `ratio = sigma / alpha = exp(-level / 2)` is the standard deviation of the noise in
`y_t / alpha`, and so the unit in which people think: an observation with noise of standard deviation `s` is at ratio `s`.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

# Levels outside these bounds are clipped, so that no solver meets an infinity. CLEAN (ratio 4.5e-5) means "as observed".
NOISE = -20.0
CLEAN = 20.0
MOST_STEPS = 10_000


def alpha(level: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """How much of the function is left in `y_t`."""
    return torch.sigmoid(level).sqrt()


def sigma(level: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """How much noise is in `y_t`."""
    return torch.sigmoid(-level).sqrt()


def ratio(level: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """sigma / alpha."""
    return torch.exp(-level / 2)


def level_of_ratio(ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The level at which sigma / alpha equals `ratio`; a ratio of zero is CLEAN."""
    return (-2 * torch.log(ratio)).clamp(NOISE, CLEAN)


def noisiest_ratio(num_values: int) -> float:
    """Where a solver starts on a function of `num_values` values.

    The start replaces the covariance S + ratio^2 I of `y_t / alpha` by (1 + ratio^2) I. Perfectly correlated values of unit
    variance give S an eigenvalue as large as their number. So the ratio grows with its root, up to the largest one of training.
    """
    return min(max(40.0, 6.0 * math.sqrt(num_values)), 80.0)


def log_uniform(
    steps: int, *, largest: float = 40.0, smallest: float = 0.01, dtype: torch.dtype = torch.float64
) -> Float[Tensor, "{steps}"]:
    """Levels uniform in log(sigma / alpha), from noise to data: the most accurate grid for all solvers here."""
    _check_grid(steps, largest, smallest)
    return torch.linspace(-2 * math.log(largest), -2 * math.log(smallest), steps, dtype=dtype)


def karras(
    steps: int,
    *,
    largest: float = 40.0,
    smallest: float = 0.004,
    rho: float = 7.0,
    dtype: torch.dtype = torch.float64,
) -> Float[Tensor, "{steps}"]:
    """Levels uniform in (sigma / alpha)^(1 / rho), the grid of Karras et al. (2022)."""
    _check_grid(steps, largest, smallest)
    roots = torch.linspace(largest ** (1 / rho), smallest ** (1 / rho), steps, dtype=dtype)
    return level_of_ratio(roots**rho)


def cosine(
    steps: int, *, smallest_beta: float = 3e-4, largest_beta: float = 0.5, dtype: torch.dtype = torch.float64
) -> Float[Tensor, "{steps}"]:
    """The paper's schedule of T discrete steps, listed from t = T (noise) to t = 1.

    beta_t follows the squared cosine of Nichol & Dhariwal (2021) and is then rescaled affinely into
    [smallest_beta, largest_beta], as the paper's authors do.
    """
    if check_steps(steps) < 2:
        raise ValueError(f"a cosine schedule needs at least 2 steps, not {steps}")
    offset = 0.008
    time = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    alpha_bar = torch.cos((time + offset) / (1 + offset) * math.pi / 2) ** 2
    beta = (1 - alpha_bar[1:] / alpha_bar[:-1]).clamp(1e-4, 0.9999)
    beta = (beta - beta.min()) / (beta.max() - beta.min())
    beta = smallest_beta + beta * (largest_beta - smallest_beta)
    log_alpha_bar = torch.log1p(-beta).cumsum(0)
    level = log_alpha_bar - torch.log(-torch.expm1(log_alpha_bar))
    return level.flip(0).clamp(NOISE, CLEAN).to(dtype)


def check_steps(steps: int) -> int:
    """The number of steps of a grid of noise levels."""
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or not 1 <= steps <= MOST_STEPS:
        raise ValueError(f"steps must be a whole number from 1 to {MOST_STEPS:,}, not {steps!r}")
    return int(steps)


def _check_grid(steps: int, largest: float, smallest: float) -> None:
    check_steps(steps)
    if not 0 < smallest < largest < math.inf:
        raise ValueError(f"a grid needs 0 < smallest < largest, not smallest={smallest} and largest={largest}")
