"""The evidence of Gaussian processes with a lengthscale for every input, with its gradient and curvature in closed form.

    y ~ N(0, c^2 K),   K_ij = k(r_ij) + m + (n^2 + variance_i) [i = j],   r_ij^2 = sum_d (x_id - x_jd)^2 / l_d^2

The amplitude c is integrated out, 1 / c^2 ~ Gamma(a, b). Up to what depends on neither theta nor the kernel,

    log p(y | theta) = -(a + N / 2) log(b + y' K^-1 y / 2) - log det(K) / 2,   theta = (log l_1, ..., log l_D, log n)

Theta has P = D + 1 numbers, and the noise n is relative to c. Tensors of theta are [B F S P]: tasks, kernels in the order of
FAMILIES, and any number for each of them. Nothing here copies from the CPU or waits for it, and no shape depends on values, so
that a step of training can be captured as a CUDA graph.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

SHAPE, RATE = 0.5, 0.5  # of the Gamma prior of 1 / c^2
MEAN = 1.0  # m, the variance of the function's mean, relative to its own
LEAST_NOISE = 1e-10  # variance, relative to the function's
# Of the covariances that are held at a time, by device. On a CPU they stay in memory that is not given back after each step.
MOST_NUMBERS = {"cpu": 2**20, "cuda": 2**26}
FARTHEST = 100.0  # Kernels end at exp(-100). Products of much smaller numbers are subnormal, and slow on a CPU.
IMPOSSIBLE = -1e10  # the log-evidence of a covariance that is not positive in float64


def squared_exponential(squared: Tensor) -> tuple[Tensor, Tensor]:
    """The kernel at these squared distances, and its derivative by them."""
    kernel = torch.exp((-0.5 * squared).clamp(min=-FARTHEST))
    return kernel, -0.5 * kernel


def matern32(squared: Tensor) -> tuple[Tensor, Tensor]:
    """The kernel at these squared distances, and its derivative by them."""
    root = (3 * squared + 1e-20).sqrt().clamp(max=FARTHEST)
    decay = torch.exp(-root)
    return (1 + root) * decay, -1.5 * decay


FAMILIES: tuple[Callable[[Tensor], tuple[Tensor, Tensor]], ...] = (squared_exponential, matern32)


@dataclass(frozen=True)
class Observations:
    """Values `y` at `x`, each with noise of a known variance, relative to c^2, on top of n^2. `mask=False` leaves one out."""

    x: Float[Tensor, "B C D"]
    y: Float[Tensor, "B C"]
    variance: Float[Tensor, "B C"]
    mask: Bool[Tensor, "B C"]

    def split(self, size: int) -> "tuple[Observations, ...]":
        """The same in pieces of so many tasks."""
        pieces = (getattr(self, name).split(size) for name in ("x", "y", "variance", "mask"))
        return tuple(Observations(*parts) for parts in zip(*pieces, strict=True))

    @property
    def count(self) -> Float[Tensor, "B 1 1"]:
        return self.mask.sum(1).to(self.x)[:, None, None]

    @property
    def both(self) -> Bool[Tensor, "B 1 1 C C"]:
        """Whether both points of a pair are real."""
        return (self.mask[:, None] & self.mask[:, :, None])[:, None, None]

    @property
    def column(self) -> Float[Tensor, "B 1 1 C 1"]:
        return self.y[:, None, None, :, None]


@dataclass(frozen=True)
class HyperPrior:
    """A normal distribution of theta, for inputs of unit spread.

    A log lengthscale is log(sqrt(D)) + centre + what all inputs share + its own part, all normal: few observations, that say
    nothing about single inputs, are explained by isotropic kernels.
    """

    centre: float = 0.7
    shared: float = 1.0
    own: float = 1.2
    noise_centre: float = -5.0
    noise_spread: float = 3.0

    def mean(self, dim: int, like: Tensor) -> Float[Tensor, "P"]:
        lengthscales = like.new_full((dim,), self.centre + 0.5 * math.log(dim))
        return torch.cat([lengthscales, like.new_full((1,), self.noise_centre)])

    def precision(self, dim: int, like: Tensor) -> Float[Tensor, "P P"]:
        both = self.own**2 + dim * self.shared**2
        block = torch.eye(dim, dtype=like.dtype, device=like.device) - self.shared**2 / both
        return torch.block_diag(block / self.own**2, like.new_full((1, 1), 1 / self.noise_spread**2))

    def log_prob(self, theta: Float[Tensor, "*S P"]) -> Float[Tensor, "*S"]:
        dim = theta.shape[-1] - 1
        off = theta - self.mean(dim, theta)
        log_det = 2 * (dim * math.log(self.own) + math.log(self.noise_spread))
        log_det += math.log(1 + dim * self.shared**2 / self.own**2)
        quadratic = (off * (off @ self.precision(dim, theta))).sum(-1)
        return -0.5 * (quadratic + log_det + (dim + 1) * math.log(2 * math.pi))


@dataclass(frozen=True)
class Factors:
    """Gaussian processes given observations: the Cholesky factors of K, and the whitened values."""

    root: Float[Tensor, "*S C C"]
    white: Float[Tensor, "*S C 1"]
    size: Float[Tensor, "*S"]  # sum of squares of the whitened values
    log_evidence: Float[Tensor, "*S"]


@dataclass(frozen=True)
class Slope:
    """The log-density of theta given the observations, up to a constant, with its gradient and about the negative Hessian."""

    value: Float[Tensor, "B F S"]
    gradient: Float[Tensor, "B F S P"]
    curvature: Float[Tensor, "B F S P P"]


def factorise(known: Observations, theta: Float[Tensor, "B F S P"]) -> Factors:
    """The processes of theta given the observations. One that float64 cannot factorise has the evidence IMPOSSIBLE."""
    return _factorised(known, _covariance(known, theta)[0])


def at_once(known: Observations, covariances: int) -> int:
    """How many times so many covariances of the observations may be held at a time; 1 at least."""
    most = MOST_NUMBERS.get(known.x.device.type, MOST_NUMBERS["cpu"])
    return max(1, most // max(1, covariances * known.x.shape[1] ** 2))


def log_evidence(known: Observations, theta: Float[Tensor, "B F S P"]) -> Float[Tensor, "B F S"]:
    """The log-evidence of theta, up to a constant, without keeping the factors."""
    pieces = theta.split(at_once(known, len(known.x) * len(FAMILIES)), dim=2)
    return torch.cat([factorise(known, piece).log_evidence for piece in pieces], dim=2)


def factorise_each(known: Observations, theta: Float[Tensor, "B K P"], family: Int[Tensor, "B K"]) -> Factors:
    """As `factorise`, for kernels whose families are data: [B K]."""
    kernels = (cross_kernels(known.x, known.x, theta, family) - MEAN) * known.both[:, 0]
    factors = _factorised(known, _with_noise(known, kernels[:, None], theta[:, None, :, -1:]))
    return Factors(*(part.squeeze(1) for part in vars(factors).values()))


def slope(known: Observations, prior: HyperPrior, theta: Float[Tensor, "B F S P"]) -> Slope:
    """The posterior of theta at theta, with its gradient, and the average of the observed and the expected information.

    With s = K^-1 y, g = (a + N / 2) / (b + y' s / 2) and G = g s s' - K^-1, the gradient of the evidence is tr(G dK) / 2. The
    average information (Gilmour, Thompson and Cullis, 1995) is g (dK_i s)' K^-1 (dK_j s) / 2, less the amplitude's part. It is
    positive definite, and needs no products of matrices for each number of theta.
    """
    covariance, scaled, derivative = _covariance(known, theta)
    factors = _factorised(known, covariance)
    inverse_root = torch.linalg.solve_triangular(factors.root, _eye_like(covariance), upper=False)
    inverse = inverse_root.mT @ inverse_root
    solved = inverse @ known.column
    gain = (SHAPE + known.count / 2) / (RATE + factors.size / 2)
    outer = gain[..., None, None] * (solved * solved.mT) - inverse
    weights = outer * derivative
    along = scaled.square() * weights.sum(-1, keepdim=True) - scaled * (weights @ scaled)
    noise = torch.exp(2 * theta[..., -1:])
    real = known.mask[:, None, None]
    by_noise = noise[..., 0] * (outer.diagonal(dim1=-2, dim2=-1) * real).sum(-1)
    gradient = torch.cat([-2 * along.sum(-2), by_noise[..., None]], dim=-1)

    ones, once = derivative @ solved, derivative @ (solved * scaled)
    twice = derivative @ (solved * scaled.square())
    moved_by_lengthscales = -2 * (scaled.square() * ones - 2 * scaled * once + twice)
    moved_by_noise = 2 * noise[..., None] * solved * real[..., None]
    moved = torch.cat([moved_by_lengthscales, moved_by_noise], dim=-1)  # dK s, for every number of theta
    shared = (solved.mT @ moved).squeeze(-2)
    share = (gain / (known.count + 2 * SHAPE))[..., None, None]
    white = inverse_root @ moved
    information = white.mT @ white - share * shared[..., :, None] * shared[..., None, :]

    dim = theta.shape[-1] - 1
    precision = prior.precision(dim, theta)
    return Slope(
        value=factors.log_evidence + prior.log_prob(theta),
        gradient=gradient - (theta - prior.mean(dim, theta)) @ precision,
        curvature=0.5 * gain[..., None, None] * information + precision,
    )


def log_student(size: Tensor, count: Tensor) -> Tensor:
    """Log-evidence of so many values with this sum of squares, once whitened, up to what all processes share."""
    return -(SHAPE + count / 2) * torch.log(RATE + size / 2)


def cross_kernels(
    x: Float[Tensor, "B C D"], others: Float[Tensor, "B M D"], theta: Float[Tensor, "B K P"], family: Int[Tensor, "B K"]
) -> Float[Tensor, "B K C M"]:
    """k + m between points and others, under kernels whose `family` [B K] is data."""
    scale = torch.exp(-theta[..., None, :-1])
    squared = _squared_distances(x[:, None] * scale, others[:, None] * scale)
    found = FAMILIES[0](squared)[0]
    for index, kernel in enumerate(FAMILIES[1:], start=1):
        found = torch.where((family == index)[..., None, None], kernel(squared)[0], found)
    return found + MEAN


def _factorised(known: Observations, covariance: Float[Tensor, "B F S C C"]) -> Factors:
    root, failed = torch.linalg.cholesky_ex(covariance)
    failed = failed != 0
    root = torch.where(failed[..., None, None], _eye_like(covariance), root)
    white = torch.linalg.solve_triangular(root, known.column.expand(*root.shape[:-1], 1), upper=False)
    size = white.square().sum((-2, -1))
    half_log_det = root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    log_evidence = log_student(size, known.count) - half_log_det
    return Factors(root, white, size, torch.where(failed, IMPOSSIBLE, log_evidence))


def _covariance(known: Observations, theta: Float[Tensor, "B F S P"]) -> tuple[Tensor, Tensor, Tensor]:
    """K, the scaled inputs, and the derivative of k by squared distance."""
    scaled = known.x[:, None, None] * torch.exp(-theta[..., None, :-1])
    squared = _squared_distances(scaled, scaled)
    parts = [kernel(squared[:, index]) for index, kernel in enumerate(FAMILIES)]
    kernels, derivative = (torch.stack(each, dim=1) * known.both for each in zip(*parts, strict=True))
    return _with_noise(known, kernels, theta[..., -1:]), scaled, derivative


def _with_noise(
    known: Observations, kernels: Float[Tensor, "B F S C C"], log_noise: Float[Tensor, "B F S 1"]
) -> Tensor:
    """K. A point that is left out has variance 1."""
    noise = torch.exp(2 * log_noise) + LEAST_NOISE + known.variance[:, None, None]
    return kernels + MEAN * known.both + torch.diag_embed(torch.where(known.mask[:, None, None], noise, 1.0))


def _squared_distances(one: Float[Tensor, "*S C D"], other: Float[Tensor, "*S M D"]) -> Float[Tensor, "*S C M"]:
    sizes = one.square().sum(-1)[..., :, None] + other.square().sum(-1)[..., None, :]
    return (sizes - 2 * one @ other.mT).clamp(min=0)


def _eye_like(matrices: Float[Tensor, "*S C C"]) -> Float[Tensor, "*S C C"]:
    return torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device).expand_as(matrices)
