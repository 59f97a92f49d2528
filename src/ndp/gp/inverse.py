"""Where a function takes a value: the exact distribution of an input given its output, for a Gaussian process in one dimension.

    p(x | y, D) = p(x) N(y; m(x), s^2(x)) / p(y | D),    p(x) uniform on [-1, 1]

with mean and variance of the GP's posterior given D. Every integral is a sum over the middles of equal cells.
"""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.arrays import check_num_samples
from ndp.core.randomness import read_generator
from ndp.core.typing import Array
from ndp.gp.exact import GP, GPPosterior


def middles(cells: int) -> Float[Tensor, "{cells}"]:
    """The middles of equal cells of [-1, 1]."""
    return (2 * torch.arange(cells, dtype=torch.float64) + 1) / cells - 1


def distribution_of_input(
    posterior: GPPosterior, y: Float[Tensor, "B"], bins: int, *, fine: int = 32
) -> Float[Tensor, "B {bins}"]:
    """The probability that the input lies in each of equal bins of [-1, 1], given that the value there is `y`.

    `y` is as observed, with the noise of the process.
    """
    place = middles(bins * fine)[None, :, None].expand(len(y), -1, -1).to(y.device)
    mean, variance = posterior.marginals(place, observation_noise=True)
    log_density = log_normal_density(y.double()[:, None], mean[..., 0], variance[..., 0])
    return torch.softmax(log_density, dim=-1).unflatten(-1, (bins, fine)).sum(-1)


def log_normal_density(y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """log N(y; mean, variance) of single numbers."""
    return -((y - mean) ** 2 / variance + torch.log(2 * math.pi * variance)) / 2


def shares(x: Float[Tensor, "S B"], bins: int) -> Float[Tensor, "B {bins}"]:
    """The share of draws in each of equal bins of [-1, 1]; what lies outside counts for the nearest."""
    index = ((x + 1) / 2 * bins).long().clamp(0, bins - 1)
    return torch.nn.functional.one_hot(index, bins).double().mean(0)


@final
@dataclass(frozen=True)
class ExactInputs:
    """What a joint NDP is an approximation of, as far as single inputs go: one task of a GP of one input, in closed form."""

    gp: GP
    input_dims: tuple[int, ...] = (1,)

    def condition(self, x: Array, y: Array) -> "ExactInputsPosterior":
        """The posterior given `y` [C] at `x` [C, 1]."""
        at, values = (torch.as_tensor(t).double().reshape(1, -1, 1) for t in (x, y))
        return ExactInputsPosterior(self.gp.condition(at, values))


@final
@dataclass(frozen=True)
class ExactInputsPosterior:
    """Draws of the exact distribution on a fine grid."""

    posterior: GPPosterior
    cells: int = 2000

    def sample_inputs(
        self, y_star: Array | float, num_samples: int | None = None, *, generator: torch.Generator | None = None
    ) -> Array:
        """Inputs at which the function has the value `y_star`: [S, 1]."""
        value = torch.as_tensor(y_star, dtype=torch.float64).reshape(1)
        weights = distribution_of_input(self.posterior, value, self.cells, fine=1)[0]
        generator = read_generator(generator)
        index = torch.multinomial(weights, check_num_samples(num_samples), replacement=True, generator=generator)
        drawn = middles(self.cells)[index, None]
        return drawn if num_samples is not None else drawn[0]
