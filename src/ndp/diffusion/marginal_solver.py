"""A solver for independent scalar values, which uses the slope of the denoiser and is exact for Gaussians.

The nodes of a Gauss-Hermite quadrature are solved at once. Differences between neighbours give the slope k of the denoiser
at each node. A denoiser with this value and slope at `u = y_t / alpha` is that of a Gaussian, for which the probability-flow
ODE has a closed form. From ratio a to ratio b,

    u_b = u_a + (y0_hat - u_a) (1 - c) / (1 + sqrt(rho)),    c = b^2 / a^2,    rho = k + (1 - k) c

With k = 0 this is a step of DDIM; with k = 1 and b = 0 it is half of one. So Gaussians are solved exactly in any number of
steps. For other distributions, the prediction error of the last step is extrapolated at its current rate.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ndp.core.typing import Denoiser
from ndp.diffusion.levels import alpha, check_steps, log_uniform, ratio

APART = 0.3  # least distance of two nodes whose difference gives a slope
STEEPEST = 0.99  # largest slope at the first level: of a distribution ten times as wide as the noise
LARGEST_NOISE = 3.0  # in standard deviations: with more noise the slope is too inaccurate for a variance
LEAST = 1e-9
NODES = 4


@dataclass(frozen=True)
class SolvedValues:
    """Moments of every value, and the values at the noises that were asked for; where any were, at those of the nodes too."""

    mean: Float[Tensor, "B M 1"]
    variance: Float[Tensor, "B M 1"]
    asked: Float[Tensor, "S B M 1"]
    nodes: Float[Tensor, "Q B M 1"]


class _Moments:
    """Mean and variance, by the law of total variance at one level:

        Var[y0] = Var[y0_hat] + E[ratio^2 slope]

    The second term is the variance between the nodes. The noisiest level is used at which the slope is accurate. `known` marks
    the values whose moments are final.
    """

    def __init__(self, weights: Float[Tensor, "Q 1 1 1"], like: Float[Tensor, "B M 1"]) -> None:
        self._weights = weights
        self.mean, self.variance = like, like
        self.known = torch.zeros_like(like, dtype=torch.bool)

    def add(self, ratio: float, y0_hat: Float[Tensor, "Q B M 1"], slope: Float[Tensor, "Q B M 1"]) -> None:
        """The denoiser at the nodes, at a level with less noise than those before."""
        mean = (self._weights * y0_hat).sum(0)
        variance = (self._weights * ((y0_hat - mean).square() + ratio**2 * slope)).sum(0)
        self.mean = torch.where(self.known, self.mean, mean)
        self.variance = torch.where(self.known, self.variance, variance)
        self.known = self.known | (variance >= (ratio / LARGEST_NOISE) ** 2)


def value_levels(steps: int, trained: tuple[float, float], dtype: torch.dtype) -> Float[Tensor, "{steps}"]:
    """Levels for values of about unit variance; more steps cover a wider range."""
    steps = check_steps(steps)
    largest, smallest = min(0.8 * steps, trained[1]), max(0.1 / steps, trained[0])
    return log_uniform(steps, largest=max(largest, 2 * smallest), smallest=smallest, dtype=dtype)


def quadrature(nodes: int) -> tuple[list[float], list[float]]:
    """Places and weights of a Gauss-Hermite quadrature over standard normal noise."""
    place, weight = np.polynomial.hermite_e.hermegauss(nodes)
    return place.tolist(), (weight / weight.sum()).tolist()


def solve_values(
    denoise: Denoiser,
    asked: Float[Tensor, "S #B"],
    like: Float[Tensor, "B M _"],
    levels: Float[Tensor, "K"],
    *,
    nodes: int = NODES,
) -> SolvedValues:
    """Solve from the noises `asked` and from the nodes to values, each target by itself.

    The denoiser is called once a level: for two noises at the first, then for nodes and `asked` in one batch. A value does
    not depend on the other noises in `asked`. Where nothing is asked for, the solver stops as soon as all moments are known.
    """
    place, weight = quadrature(nodes)
    own, weights = like.new_tensor(place), like.new_tensor(weight).reshape(-1, 1, 1, 1)
    every = torch.cat([own[:, None].expand(-1, asked.shape[1]), asked.to(like)])
    left, right = _neighbours(own, every)
    noise = every[:, :, None, None]
    ratios = [*ratio(levels.double()).tolist(), 0.0]
    mean, slope = _line(denoise, like, levels[0], ratios[0])
    u = mean + ratios[0] * (1 - slope).rsqrt() * noise
    y0_hat, k = mean + slope * (u - mean), slope.expand(u.shape)
    expected, last_step = y0_hat, 1.0  # the start is exact for a Gaussian
    moments = _Moments(weights, torch.zeros_like(mean))
    for index, (now, then) in enumerate(pairwise(ratios)):
        if index:
            y0_hat = denoise(alpha(levels[index]) * u, levels[index])
            k = _slopes(u, y0_hat, left, right)
            moments.add(now, y0_hat[:nodes], k[:nodes])
            if not len(asked) and bool(moments.known.all()):
                break
        c = (then / now) ** 2
        rho = (k + (1 - k) * c).clamp(min=LEAST)
        pull = y0_hat - u
        u = u + pull * (1 - c) / (1 + rho.sqrt())
        if then:  # Simpson's rule for the error, which is zero at the start of the step
            step, halfway = math.log(now / then), (k + (1 - k) * then / now).clamp(min=LEAST)
            grown = (y0_hat - expected) * step**2 / (6 * last_step) * (1 + 2 * (rho / halfway).sqrt())
            expected = u + pull * c / rho.sqrt() + k / rho * grown
            u, last_step = u + grown, step
    moments.add(0.0, u[:nodes], torch.zeros_like(u[:nodes]))
    return SolvedValues(moments.mean, moments.variance, u[nodes:], u[:nodes])


def _line(
    denoise: Denoiser, like: Float[Tensor, "B M _"], level: Float[Tensor, ""], at: float
) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M 1"]]:
    """Mean and slope of the denoiser at the noisiest level, where every distribution is nearly Gaussian."""
    far = math.sqrt(1 + at**2)
    ends = like.new_tensor([-far, far]).reshape(2, 1, 1, 1).expand(2, *like.shape[:2], 1)
    low, high = denoise(alpha(level) * ends, level)
    slope = ((high - low) / (2 * far)).clamp(0, STEEPEST)
    return (low + high) / 2 / (1 - slope), slope


def _neighbours(
    nodes: Float[Tensor, "Q"], noise: Float[Tensor, "S #B"]
) -> tuple[Int[Tensor, "S #B 1 1"], Int[Tensor, "S #B 1 1"]]:
    """The nodes below and above each noise; at the ends the same node twice."""
    below = (nodes[:, None, None] <= noise - APART).sum(0) - 1
    above = len(nodes) - (nodes[:, None, None] >= noise + APART).sum(0)
    left, right = torch.where(below < 0, above, below), torch.where(above == len(nodes), below, above)
    return left[..., None, None], right[..., None, None]


def _slopes(
    u: Float[Tensor, "S B M 1"],
    y0_hat: Float[Tensor, "S B M 1"],
    left: Int[Tensor, "S #B 1 1"],
    right: Int[Tensor, "S #B 1 1"],
) -> Float[Tensor, "S B M 1"]:
    """Slopes of the parabola through a noise and its neighbours, or of the line to one; a denoiser never decreases."""
    lengths, secants = [], []
    for side in (left, right):
        length = u - torch.take_along_dim(u, side, dim=0)
        rise = y0_hat - torch.take_along_dim(y0_hat, side, dim=0)
        lengths.append(length.abs().clamp(min=LEAST))
        secants.append(rise * length.sign() / lengths[-1])
    total = lengths[0] + lengths[1]
    return ((secants[0] * lengths[1] + secants[1] * lengths[0]) / total).clamp(min=0)
