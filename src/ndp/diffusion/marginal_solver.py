"""From noise to single values, each with a law of its own: a solver that knows how its denoiser slopes.

A few noises (nodes of Gauss-Hermite quadrature) travel together, and the differences between neighbours tell the slope k of the
denoiser at each of them. A denoiser with this value and slope at `u = y_t / alpha` is, from there on, that of one normal law,
along which the probability-flow ODE is solved in closed form. From ratio a to ratio b,

    u_b = u_a + (y0_hat - u_a) (1 - c) / (1 + sqrt(rho)),    c = b^2 / a^2,    rho = k + (1 - k) c

With k = 0 that is a step of DDIM, and to b = 0 with k = 1 half of one. So normal laws are solved exactly, be it in one step.
For others, what y0_hat is off by from what the last step expected of it grows on, as fast as in that step.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ndp.core.typing import Denoiser
from ndp.diffusion.levels import alpha, log_uniform, ratio

APART = 0.3  # noises closer than this do not tell each other's slopes
STEEPEST = 0.99  # slope that the first call may find: of a law ten times as wide as the noise
DROWNS = 3.0  # noise of so many standard deviations of a law: what a network says of its variance is too rough there
LEAST = 1e-9


@dataclass(frozen=True)
class Passed:
    """What the denoiser says at the nodes, in passing."""

    ratio: float
    y0_hat: Float[Tensor, "Q B M 1"]
    slope: Float[Tensor, "Q B M 1"]


@dataclass(frozen=True)
class SolvedValues:
    """Values at data, and what was seen on the way there."""

    weights: Float[Tensor, "Q 1 1 1"]
    nodes: Float[Tensor, "Q B M 1"]
    asked: Float[Tensor, "S B M 1"]
    passed: tuple[Passed, ...]

    def moments(self) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M 1"]]:
        """Mean and variance. A node stands for a share of a law, and the denoiser knows what that share is like:

            Var[y0] = Var[y0_hat] + E[ratio^2 slope]        (total variance, at any level)

        so that what lies between the nodes counts too. The more noise the better, while it does not drown the law.
        """
        found, clear = [], []
        for one in self.passed:  # the noisiest first
            mean, variance = self._weighed(one.y0_hat)
            variance = variance + one.ratio**2 * (self.weights * one.slope).sum(0)
            found.append(torch.stack([mean, variance]))
            clear.append(variance >= (one.ratio / DROWNS) ** 2)
        found.append(torch.stack(self._weighed(self.nodes)))
        clear.append(torch.ones_like(found[-1][0], dtype=torch.bool))
        best = torch.stack(clear).int().argmax(0)  # the first that is
        mean, variance = torch.stack(found).gather(0, best.expand(1, 2, *best.shape))[0]
        return mean, variance

    def _weighed(self, values: Float[Tensor, "Q B M 1"]) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M 1"]]:
        mean = (self.weights * values).sum(0)
        return mean, (self.weights * (values - mean).square()).sum(0)


def value_levels(steps: int, trained: tuple[float, float], dtype: torch.dtype) -> Float[Tensor, "{steps}"]:
    """Where to call a denoiser of values of about unit variance: in a wider range the more calls there are."""
    largest, smallest = min(0.8 * steps, trained[1]), max(0.1 / steps, trained[0])
    return log_uniform(steps, largest=max(largest, 2 * smallest), smallest=smallest, dtype=dtype)


def solve_values(
    denoise: Denoiser,
    asked: Float[Tensor, "S #B"],
    like: Float[Tensor, "B M _"],
    levels: Float[Tensor, "K"],
    *,
    nodes: int = 4,
) -> SolvedValues:
    """The values [S B M 1] that become of the noises `asked`, beside those of the nodes, each value alone.

    One call of the denoiser a level: at the first for two noises, then for nodes and `asked` together. An answer does not
    depend on what else is asked for.
    """
    place, weight = np.polynomial.hermite_e.hermegauss(nodes)
    own = like.new_tensor(place)
    every = torch.cat([own[:, None].expand(-1, asked.shape[1]), asked.to(like)])
    left, right = _neighbours(own, every)
    noise = every[:, :, None, None]
    ratios = [*ratio(levels.double()).tolist(), 0.0]
    mean, slope = _line(denoise, like, levels[0], ratios[0])
    u = mean + ratios[0] * (1 - slope).rsqrt() * noise
    y0_hat, k = mean + slope * (u - mean), slope.expand(u.shape)
    expected, last_step = y0_hat, 1.0  # a line is what it is expected to be
    passed = []
    for index, (now, then) in enumerate(pairwise(ratios)):
        if index:
            y0_hat = denoise(alpha(levels[index]) * u, levels[index])
            k = _slopes(u, y0_hat, left, right)
            passed.append(Passed(now, y0_hat[:nodes], k[:nodes]))
        c = (then / now) ** 2
        rho = (k + (1 - k) * c).clamp(min=LEAST)
        pull = y0_hat - u
        u = u + pull * (1 - c) / (1 + rho.sqrt())
        if then:  # Simpson's rule along the step, on what grows from nothing in it
            step, halfway = math.log(now / then), (k + (1 - k) * then / now).clamp(min=LEAST)
            grown = (y0_hat - expected) * step**2 / (6 * last_step) * (1 + 2 * (rho / halfway).sqrt())
            expected = u + pull * c / rho.sqrt() + k / rho * grown
            u, last_step = u + grown, step
    weights = like.new_tensor(weight / weight.sum()).reshape(-1, 1, 1, 1)
    return SolvedValues(weights, u[:nodes], u[nodes:], tuple(passed))


def _line(
    denoise: Denoiser, like: Float[Tensor, "B M _"], level: Float[Tensor, ""], at: float
) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M 1"]]:
    """The mean of a law and the slope of its denoiser where noise makes all laws normal."""
    far = math.sqrt(1 + at**2)
    ends = like.new_tensor([-far, far]).reshape(2, 1, 1, 1).expand(2, *like.shape[:2], 1)
    low, high = denoise(alpha(level) * ends, level)
    slope = ((high - low) / (2 * far)).clamp(0, STEEPEST)
    return (low + high) / 2 / (1 - slope), slope


def _neighbours(
    nodes: Float[Tensor, "Q"], noise: Float[Tensor, "S #B"]
) -> tuple[Int[Tensor, "S #B 1 1"], Int[Tensor, "S #B 1 1"]]:
    """The node below each noise and the one above it; at the ends the same twice."""
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
    """Of the parabola through a noise and its neighbours, or of the line to the only one; a denoiser never falls."""
    lengths, secants = [], []
    for side in (left, right):
        length = u - torch.take_along_dim(u, side, dim=0)
        rise = y0_hat - torch.take_along_dim(y0_hat, side, dim=0)
        lengths.append(length.abs().clamp(min=LEAST))
        secants.append(rise * length.sign() / lengths[-1])
    total = lengths[0] + lengths[1]
    return ((secants[0] * lengths[1] + secants[1] * lengths[0]) / total).clamp(min=0)
