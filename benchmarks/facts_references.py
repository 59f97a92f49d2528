"""What facts are compared with: exact truncated normals, and long runs of elliptical slice sampling."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import root
from torch import Tensor

from ndp.facts.observations import log_mass


@dataclass(frozen=True)
class Truncated:
    """Weighted draws of a truncated normal, its log-probability, and the standard error of that."""

    draws: Tensor  # [S M]
    weight: Tensor
    log_probability: float
    error: float

    @property
    def mean(self) -> Tensor:
        return self.weight @ self.draws

    @property
    def std(self) -> Tensor:
        return (self.weight @ (self.draws - self.mean).square()).sqrt()

    @property
    def effective(self) -> float:
        return 1 / float(self.weight.square().sum())


def truncated(
    mean: Tensor, covariance: Tensor, weights: Tensor, low: Tensor, high: Tensor, count: int, seed: int = 0
) -> Truncated:
    """f ~ N(mean, covariance) given low < W f < high, by minimax tilting (Botev, 2017) with importance weights."""
    inner = weights @ covariance @ weights.T
    lower = torch.linalg.cholesky(inner)
    scale = lower.diagonal()
    off = weights @ mean
    a, b = (low - off) / scale, (high - off) / scale
    below = (lower / scale[:, None]).tril(-1)
    size = len(a)

    def psi(both: Tensor) -> Tensor:
        x, tilt = torch.cat([both[: size - 1], both.new_zeros(1)]), torch.cat([both[size - 1 :], both.new_zeros(1)])
        shift = below @ x
        return (tilt.square() / 2 - x * tilt + log_mass(a - shift - tilt, b - shift - tilt)).sum()

    tilt = torch.zeros(size, dtype=torch.float64)
    if size > 1:
        gradient = torch.func.grad(psi)
        jacobian = torch.func.jacfwd(gradient)
        found = root(
            lambda v: gradient(torch.from_numpy(v)).numpy(),
            np.zeros(2 * size - 2),
            jac=lambda v: jacobian(torch.from_numpy(v)).numpy(),
            method="hybr",
        )
        tilt[:-1] = torch.from_numpy(found.x[size - 1 :])
    generator = torch.Generator().manual_seed(seed)
    x = torch.zeros(count, size, dtype=torch.float64)
    log_w = torch.zeros(count, dtype=torch.float64)
    for k in range(size):
        shift = x[:, :k] @ below[k, :k]
        left, right = a[k] - shift - tilt[k], b[k] - shift - tilt[k]
        x[:, k] = tilt[k] + truncated_standard(left, right, generator)
        log_w += tilt[k] ** 2 / 2 - x[:, k] * tilt[k] + log_mass(left, right)
    g = off + x @ lower.T
    gain = torch.linalg.solve(inner, weights @ covariance).T
    rest = covariance - gain @ weights @ covariance
    values, basis = torch.linalg.eigh((rest + rest.T) / 2)
    fresh = torch.randn(count, len(mean), generator=generator, dtype=torch.float64)
    draws = mean + (g - off) @ gain.T + fresh @ (basis * values.clamp(min=0).sqrt()).T
    w = (log_w - log_w.max()).exp()
    relative = (w / w.mean()).std().item() / math.sqrt(count)
    return Truncated(draws, w / w.sum(), (log_w.logsumexp(0) - math.log(count)).item(), relative)


def truncated_standard(low: Tensor, high: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal numbers between ends, by inversion in the tail that keeps its digits."""
    mirrored = low > 0
    a, b = torch.where(mirrored, -high, low), torch.where(mirrored, -low, high)
    share = torch.rand(low.shape, generator=generator, dtype=torch.float64)
    bottom, top = torch.special.ndtr(a), torch.special.ndtr(b)
    z = torch.special.ndtri((bottom + share * (top - bottom)).clamp(1e-300, 1 - 1e-16))
    z = torch.minimum(torch.maximum(z, a), b)
    return torch.where(mirrored, -z, z)


def elliptical_slice(
    mean: Tensor,
    covariance: Tensor,
    log_likelihood: Callable[[Tensor], Tensor],
    *,
    chains: int = 200,
    steps: int = 500,
    burn_in: int = 200,
    seed: int = 0,
) -> Tensor:
    """`chains` times `steps` draws of a Gaussian given a likelihood (Murray et al., 2010), [S M]."""
    generator = torch.Generator().manual_seed(seed)
    lower = torch.linalg.cholesky(covariance)

    def noise() -> Tensor:
        return torch.randn(chains, len(mean), generator=generator, dtype=torch.float64) @ lower.T

    f, kept = noise(), []
    now = log_likelihood(mean + f)
    for step in range(burn_in + steps):
        other = noise()
        level = now + torch.rand(chains, generator=generator, dtype=torch.float64).log()
        angle = 2 * math.pi * torch.rand(chains, generator=generator, dtype=torch.float64)
        low, high = angle - 2 * math.pi, angle.clone()
        left = torch.arange(chains)
        begin = f.clone()
        while len(left):
            turn = angle[left, None]
            tried = begin[left] * turn.cos() + other[left] * turn.sin()
            found = log_likelihood(mean + tried)
            good = found > level[left]
            f[left[good]], now[left[good]] = tried[good], found[good]
            left = left[~good]
            at = angle[left]
            low[left], high[left] = torch.where(at < 0, at, low[left]), torch.where(at < 0, high[left], at)
            share = torch.rand(len(left), generator=generator, dtype=torch.float64)
            angle[left] = low[left] + share * (high[left] - low[left])
        if step >= burn_in:
            kept.append(f.clone())
    return mean + torch.cat(kept)
