"""What a bank of Gaussian processes says of one value, in closed form, and how far a network trusts it.

A network learns to judge what kind of function it sees, and comes near to what follows from that. A Gaussian process knows one
kind and what follows exactly. So a network may ask a bank of them, of many lengthscales and sizes of noise, each weighed by how
well it explains the context, and learn when to take their word: between the two answers it moves by a share,

    v = v_network + trust (v_bank - v_network)

which a small network chooses at every value from both answers and from what the blocks found. With a trust of zero, where
training starts, nothing is asked.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ndp.diffusion.levels import alpha, ratio, sigma
from ndp.networks.embedding import PreciseLinear, log_spaced

# The bank: exp(-r^2 / 2) and (1 + sqrt(3) r) exp(-sqrt(3) r), a smooth and a rough kernel, at each of these lengthscales (times
# the root of the number of inputs, which have variance one), with noise of each of these sizes, as a share of the function's.
LENGTHSCALES = tuple(log_spaced(8, 0.12, 6.0).tolist())
NOISES = (0.01, 0.04, 0.15, 0.6)
JITTER = 1e-6
# The variance of a function is not known: 1 / variance follows a Gamma law with this shape and rate.
SHAPE, RATE = 1.0, 1.0
MOST_NUMBERS = 2**24  # of the covariances that are held at a time


@dataclass(frozen=True)
class Advice:
    """The normal laws of single values under K processes, given the context, and how likely each process is."""

    log_weight: Float[Tensor, "B K"]
    mean: Float[Tensor, "B K M"]
    variance: Float[Tensor, "B K M"]
    about: Float[Tensor, "B M F"]  # the law of all of them together, how well it fits, and how much there was to go by

    def v(self, y_t: Float[Tensor, "R M"], level: Float[Tensor, "#R #M"]) -> Float[Tensor, "R M"]:
        """The v that stands for E[y0 | y_t], at R = S * B rows.

        Under N(m, s^2) it is sigma (alpha (1 - s^2) y_t - m) / (alpha^2 s^2 + sigma^2).
        """
        tasks, _, targets = self.mean.shape
        rows = y_t.reshape(-1, tasks, 1, targets)
        if len(level) > 1:
            level = level.reshape(-1, tasks, 1, level.shape[-1])
        a, s = alpha(level), sigma(level)
        spread = a.square() * self.variance + s.square()
        off = rows - a * self.mean
        log_p = self.log_weight[..., None] - 0.5 * (off.square() / spread + spread.log())
        each = s * (a * (1 - self.variance) * rows - self.mean) / spread
        return (torch.softmax(log_p, dim=2) * each).sum(2).reshape(y_t.shape)


ABOUT = 5  # numbers that `Advice.about` holds of a value


def advise(
    x: Float[Tensor, "B C D"],
    y_t: Float[Tensor, "B C"],
    level: Float[Tensor, "B C"],
    mask: Bool[Tensor, "B C"],
    x_target: Float[Tensor, "B M D"],
    of_function: Bool[Tensor, "#B"],
) -> Advice:
    """What the bank says of the values at `x_target`: of the function where `of_function`, else of observations.

    All is in units of the context. A context at a level below CLEAN has noise of a known size on top of what it shows.
    """
    precise = torch.float64
    x, y_t, level, x_target = (t.to(precise) for t in (x, y_t, level, x_target))
    y = (y_t / alpha(level)).masked_fill(~mask, 0.0)
    dim = x.shape[-1]
    count = mask.sum(1, keepdim=True)
    every = torch.cat([x, x_target], dim=1)
    squared = (every[:, :, None] - x[:, None]).square().sum(-1)[:, None]  # [B 1 N C]
    unseen = ~(mask[:, None] & torch.nn.functional.pad(mask, (0, x_target.shape[1]), value=True)[:, :, None])[:, None]
    own_noise = torch.where(mask, ratio(level).square() + JITTER, 1.0)[:, None]  # a place without a point knows itself
    noises = _on_device(NOISES, x).square()
    added = torch.diag_embed(own_noise + torch.where(mask[:, None], noises[:, None], 0.0))  # [B S C C]

    noise = torch.where(of_function[:, None, None], 0.0, noises)
    found = []
    for lengthscales in (_on_device(LENGTHSCALES, x) * math.sqrt(dim)).split(_at_a_time(squared.numel())):
        kernels = _kernels(squared, lengthscales[:, None, None]).masked_fill(unseen, 0.0)
        half_log_det, size, mean, left = _regress(kernels, y, added)
        log_evidence = -half_log_det + _log_student(size, count[..., None])
        amplitude = (2 * RATE + size) / (2 * SHAPE + count[..., None])
        variance = (left + noise[..., None]) * amplitude[..., None]
        found.append([t.flatten(1, 2) for t in (log_evidence, mean, variance)])
    log_evidence, mean, variance = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
    log_weight = torch.log_softmax(log_evidence, dim=1)
    weight = log_weight.exp()[..., None]
    middle = (weight * mean).sum(1)
    spread = (weight * (variance + (mean - middle[:, None]).square())).sum(1)
    nothing = _log_student(y.square().sum(1, keepdim=True), count)  # what white noise would say
    fit = (torch.logsumexp(log_evidence, 1, keepdim=True) - math.log(mean.shape[1]) - nothing) / (count + 1)
    about = [middle, 0.5 * spread.log(), fit.expand_as(middle), (count + 1).log().expand_as(middle)]
    about.append(torch.full_like(middle, math.log(dim)))
    return Advice(log_weight, mean, variance, torch.stack(about, dim=-1))


def _kernels(squared: Float[Tensor, "B 1 N C"], lengthscales: Float[Tensor, "L 1 1"]) -> Float[Tensor, "B 2*L N C"]:
    """Of points at these squared distances: with each lengthscale the smooth kernel and the rough one."""
    smooth = torch.exp(-0.5 * squared / lengthscales.square())
    root = math.sqrt(3) * (squared + 1e-20).sqrt() / lengthscales
    return torch.stack([smooth, (1 + root) * torch.exp(-root)], dim=2).flatten(1, 2)


def _regress(
    kernel: Float[Tensor, "B L N C"], y: Float[Tensor, "B C"], added: Float[Tensor, "B S C C"]
) -> tuple[Float[Tensor, "B L S"], Float[Tensor, "B L S"], Float[Tensor, "B L S M"], Float[Tensor, "B L S M"]]:
    """With K = kernel + noise of the context: log|K| / 2 and y' K^-1 y, and the targets' means and variances, noise apart."""
    known = y.shape[1]
    factor, _ = torch.linalg.cholesky_ex(kernel[:, :, None, :known] + added[:, None])
    both = torch.cat([y[:, None, :, None].expand(-1, kernel.shape[1], -1, -1), kernel[:, :, known:].mT], dim=-1)
    both = both[:, :, None].expand(-1, -1, added.shape[1], -1, -1)
    values, weights = torch.linalg.solve_triangular(factor, both, upper=False).tensor_split([1], dim=-1)
    left = (1 - weights.square().sum(-2)).clamp(min=JITTER)
    half_log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return half_log_det, values.square().sum((-2, -1)), (weights * values).sum(-2), left


def _log_student(size: Tensor, count: Tensor) -> Tensor:
    """Log-evidence of so many values with this sum of squares, once whitened, but for what all processes share."""
    return -(SHAPE + count / 2) * torch.log(RATE + size / 2)


def _on_device(values: tuple[float, ...], like: Tensor) -> Tensor:
    """Made there, and not copied: a step of training that is captured as a CUDA graph allows no copies from the CPU."""
    return torch.cat([like.new_full((1,), value) for value in values])


def _at_a_time(numbers: int) -> int:
    """How many lengthscales there is room for at a time, where one kernel has so many numbers."""
    return max(1, min(len(LENGTHSCALES), MOST_NUMBERS // max(numbers * 2 * len(NOISES), 1)))


class Trust(nn.Module):
    """How much of the way from a network's answer to the bank's an answer lies."""

    def __init__(self, features: int, width: int = 64) -> None:
        super().__init__()
        self.read = PreciseLinear(features + 3 + ABOUT, width)
        self.think = PreciseLinear(width, width)
        self.tell = PreciseLinear(width, 1)
        nn.init.zeros_(self.tell.weight)
        nn.init.zeros_(self.tell.bias)

    def forward(
        self,
        output: Float[Tensor, "R M 1"],
        features: Float[Tensor, "R M W"],
        y_t: Float[Tensor, "R M 1"],
        level: Float[Tensor, "#R #M"],
        advice: Advice,
    ) -> Float[Tensor, "R M 1"]:
        told = advice.v(y_t[..., 0].double(), level.double())[..., None].to(output)
        draws = len(output) // len(advice.about)
        about = advice.about.to(output).expand(draws, *advice.about.shape).flatten(0, 1)
        at = (level / 4).to(output).expand(output.shape[:2])[..., None]
        seen = torch.cat([features.to(output), output, told, at, about], dim=-1)
        hidden = torch.nn.functional.gelu(self.read(seen))
        hidden = torch.nn.functional.gelu(self.think(hidden))
        return output + self.tell(hidden).to(output) * (told - output)
