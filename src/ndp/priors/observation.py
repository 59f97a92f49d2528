"""Observation noise of the universal prior: of unknown size, possibly varying along a direction, possibly heavy-tailed."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

LEAST_NOISE, MOST_NOISE = 0.001, 1.0  # in units of the function's standard deviation


def draw_noise_sizes(
    x: Float[Tensor, "B N D"], plain: Bool[Tensor, "B 1"], generator: torch.Generator
) -> Float[Tensor, "B N"]:
    """Standard deviation of the normal noise of every observation.

    It is log-uniform over three orders of magnitude, in half of the tasks over the largest one, as in most tables. It is zero
    in one task of twenty. In a third of the tasks that are not `plain` it varies by up to a factor of ten along a random
    direction. In a third the noise is Student's t with 2.2 to 12 degrees of freedom: normal, with a random size at every point.
    """
    tasks, points, dim = x.shape

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=x.dtype, device=x.device)

    least = torch.where(uniform(tasks, 1) < 0.5, LEAST_NOISE, MOST_NOISE / 10)
    size = least * (MOST_NOISE / least) ** uniform(tasks, 1)
    size = torch.where(uniform(tasks, 1) < 0.05, 0.0, size)
    direction = torch.nn.functional.normalize(uniform(tasks, dim, 1) - 0.5, dim=1)
    along = (x @ direction)[..., 0]
    swing = torch.where((uniform(tasks, 1) < 0.33) & ~plain, math.log(10) / 2 * uniform(tasks, 1), 0.0)
    wave = torch.sin((0.5 + 2.5 * uniform(tasks, 1)) * along + 2 * math.pi * uniform(tasks, 1))
    freedom = 2.2 * (12 / 2.2) ** uniform(tasks, 1)
    heavy = (uniform(tasks, 1) < 0.33) & ~plain
    # A chi-squared variable over its degrees of freedom: what Student's t divides a normal's variance by.
    shape = (freedom / 2).expand(-1, points).contiguous()
    divisor = torch._standard_gamma(shape, generator=generator).clamp(min=1e-12) / shape
    return size * torch.exp(swing * wave) * torch.where(heavy, divisor.rsqrt(), 1.0)
