"""A solver for independent scalar values, which uses the slope of the denoiser and is exact for Gaussians.

The nodes of a Gauss-Hermite quadrature are solved at once. Differences between neighbours give the slope k of the denoiser
at each node. A denoiser with this value and slope at `u = y_t / alpha` is that of a Gaussian, for which the probability-flow
ODE has a closed form. From ratio a to ratio b,

    u_b = u_a + (y0_hat - u_a) (1 - c) / (1 + sqrt(rho)),    c = b^2 / a^2,    rho = k + (1 - k) c

With k = 0 this is a step of DDIM; with k = 1 and b = 0 it is half of one. So Gaussians are solved exactly in any number of
steps. For other distributions, the denoiser at the end of a step shows the error of its prediction, and the step is corrected
for it: the error is zero at the start of the step and grows evenly in log ratio.

Every target has levels of its own. The first is some times as wide as a guess of the value's spread. The slopes then tell how
wide the distribution is around each node, and the last level lies below the least of these widths.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ndp.core.typing import Denoiser
from ndp.diffusion.levels import alpha, check_steps, level_of_ratio

APART = 0.3  # least distance of two nodes whose difference gives a slope
STEEPEST = 0.99  # largest slope at the first level: of a distribution ten times as wide as the noise
LARGEST_NOISE = 4.0  # in standard deviations: with more noise the covariance is too inaccurate for a variance
LEAST = 1e-9
NODES = 4
# The first ratio: so many times the spread that is guessed, within the least ratio and so much for every step.
FIRST, LEAST_FIRST, FIRST_A_STEP = 10.0, 0.05, 0.6
LAST = 2.0  # the last ratio, relative to the least width around a node, is this over the number of steps
FURTHEST, NEAREST = 20.0, 1.25  # a ratio over the next one: at most this over the steps (five if more), at least that


@dataclass(frozen=True)
class Guess:
    """Mean and standard deviation of every value, before the network is asked."""

    mean: Float[Tensor, "B M 1"]
    std: Float[Tensor, "B M 1"]

    @staticmethod
    def standard(like: Float[Tensor, "B M _"]) -> "Guess":
        """For values of about unit variance, of which nothing else is known."""
        return Guess(torch.zeros_like(like[..., :1]), torch.ones_like(like[..., :1]))

    def first_ratio(self, steps: int, trained: tuple[float, float]) -> Float[Tensor, "B M 1"]:
        """The noise at which the distribution of `u` counts as Gaussian."""
        return (FIRST * self.std).clamp(min=LEAST_FIRST).clamp(*trained).clamp(max=FIRST_A_STEP * steps)


@dataclass(frozen=True)
class SolvedValues:
    """Moments of every value, and the values at the noises that were asked for; where any were, at those of the nodes too."""

    mean: Float[Tensor, "B M 1"]
    variance: Float[Tensor, "B M 1"]
    asked: Float[Tensor, "S B M 1"]
    nodes: Float[Tensor, "Q B M 1"]


class _Moments:
    """Mean and variance from one level, where `u = y0 + ratio noise` and `y0_hat = E[y0 | u]`:

        E[y0] = E[y0_hat],    Var[y0] = Cov[y0, u] = Cov[y0_hat, u]

    So values between the nodes count. The noisiest level is used at which the covariance is accurate. `known` marks the values
    whose moments are final.
    """

    def __init__(self, weights: Float[Tensor, "Q 1 1 1"], like: Float[Tensor, "B M 1"]) -> None:
        self._weights = weights
        self.mean, self.variance = like, like
        self.known = torch.zeros_like(like, dtype=torch.bool)

    def add(self, ratio: Float[Tensor, "B M 1"], u: Float[Tensor, "Q B M 1"], y0_hat: Float[Tensor, "Q B M 1"]) -> None:
        """The denoiser at the nodes, at a level with less noise than those before."""
        mean = (self._weights * y0_hat).sum(0)
        variance = (self._weights * (y0_hat - mean) * (u - (self._weights * u).sum(0))).sum(0).clamp(min=0)
        self.mean = torch.where(self.known, self.mean, mean)
        self.variance = torch.where(self.known, self.variance, variance)
        self.known = self.known | (variance >= (ratio / LARGEST_NOISE).square())


def quadrature(nodes: int) -> tuple[list[float], list[float]]:
    """Places and weights of a Gauss-Hermite quadrature over standard normal noise."""
    place, weight = np.polynomial.hermite_e.hermegauss(nodes)
    return place.tolist(), (weight / weight.sum()).tolist()


def solve_values(
    denoise: Denoiser,
    asked: Float[Tensor, "S #B"],
    guess: Guess,
    steps: int,
    trained: tuple[float, float],
    *,
    nodes: int = NODES,
) -> SolvedValues:
    """Solve from the noises `asked` and from the nodes to values, each target by itself.

    The denoiser is called `steps` times: for two noises first, then for nodes and `asked` in one batch. A value does not depend
    on the other noises in `asked`. Where nothing is asked for, the solver stops as soon as all moments are known. Levels stay
    within the `trained` ratios.
    """
    steps = check_steps(steps)
    place, weight = quadrature(nodes)
    like = guess.mean
    own, weights = like.new_tensor(place), like.new_tensor(weight).reshape(-1, 1, 1, 1)
    every = torch.cat([own[:, None].expand(-1, asked.shape[1]), asked.to(like)])
    left, right = _neighbours(own, every)
    now = guess.first_ratio(steps, trained)
    mean, slope = line(denoise, guess, now)
    u = mean + now * (1 - slope).rsqrt() * every[:, :, None, None]
    y0_hat, k = mean + slope * (u - mean), slope.expand(u.shape)
    moments = _Moments(weights, torch.zeros_like(mean))
    for calls_left in range(steps - 1, 0, -1):
        then = _next_ratio(now, k[:nodes], calls_left, steps, trained[0])
        c = (then / now).square()
        rho, halfway = ((k + (1 - k) * share).clamp(min=LEAST) for share in (c, then / now))
        pull = y0_hat - u
        u = u + pull * (1 - c) / (1 + rho.sqrt())
        expected = u + pull * c / rho.sqrt()
        level = level_of_ratio(then[..., 0])
        y0_hat = denoise(alpha(level)[..., None] * u, level)
        k = _slopes(u, y0_hat, left, right)
        # Simpson's rule for what the error of the prediction has moved u by.
        moved = (y0_hat - expected) * (now / then).log() / 6 * (1 + 2 * (rho / halfway).sqrt())
        u, y0_hat, now = u + moved, y0_hat + k * moved, then
        moments.add(now, u[:nodes], y0_hat[:nodes])
        if not len(asked) and bool(moments.known.all()):
            break
    u = u + (y0_hat - u) / (1 + k.clamp(min=LEAST).sqrt())
    moments.add(torch.zeros_like(now), u[:nodes], u[:nodes])
    return SolvedValues(moments.mean, moments.variance, u[nodes:], u[:nodes])


def line(
    denoise: Denoiser, guess: Guess, ratio: Float[Tensor, "B M 1"]
) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M 1"]]:
    """Mean of the values and slope of the denoiser at the noisiest level, where every distribution is nearly Gaussian."""
    far = (guess.std.square() + ratio.square()).sqrt()
    level = level_of_ratio(ratio[..., 0])
    low, high = denoise(alpha(level)[..., None] * torch.stack([guess.mean - far, guess.mean + far]), level)
    slope = ((high - low) / (2 * far)).clamp(0, STEEPEST)
    return ((low + high) / 2 - slope * guess.mean) / (1 - slope), slope


def _next_ratio(
    now: Float[Tensor, "B M 1"], slope: Float[Tensor, "Q B M 1"], calls_left: int, steps: int, least: float
) -> Float[Tensor, "B M 1"]:
    """One of `calls_left` equal steps in log ratio to the last level, which lies below the least width around a node."""
    k = slope.clamp(1e-6, 1 - 1e-6)
    width = now * (k / (1 - k)).sqrt().amin(0)
    last = (LAST / steps * width).clamp(min=least)
    then = now * (last / now) ** (1 / calls_left)
    return torch.minimum(torch.maximum(then, now * min(steps, 5) / FURTHEST), now / NEAREST).clamp(min=least)


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
