"""Random covariances of the common families, one for each task, in one formula without branches.

    k(r) = (1 + a r + b r^2) exp(-c r - d r^2 - e log(1 + r^2 / 2e))          r: distance in units of the lengthscales

A family is a row of coefficients. A periodic one is a squared exponential on circles, and a linear one the inner product.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# a, b, c, d, whether e is used, whether linear, whether periodic; and how often a family is drawn.
FAMILIES: dict[str, tuple[float, ...]] = {
    "squared exponential": (0, 0, 0, 0.5, 0, 0, 0),
    "Matern-1/2": (0, 0, 1, 0, 0, 0, 0),
    "Matern-3/2": (math.sqrt(3), 0, math.sqrt(3), 0, 0, 0, 0),
    "Matern-5/2": (math.sqrt(5), 5 / 3, math.sqrt(5), 0, 0, 0, 0),
    "rational quadratic": (0, 0, 0, 0, 1, 0, 0),
    "periodic": (0, 0, 0, 0.5, 0, 0, 1),
    "linear": (0, 0, 0, 0, 0, 1, 0),
}
# Lengthscales, as the geometric mean over the inputs of a function; the inputs have variance one.
SHORTEST, LONGEST = 0.08, 8.0
SHARES = (0.25, 0.07, 0.13, 0.2, 0.12, 0.08, 0.15)


@dataclass(frozen=True)
class Kernels:
    """One kernel of unit variance for each task; a linear one has unit variance one lengthscale from its centre."""

    coefficients: Float[Tensor, "B 7"]
    exponent: Float[Tensor, "B 1 1"]  # e, of rational quadratic ones
    inverse_lengthscale: Float[Tensor, "B 1 D"]  # 0 where an input is irrelevant
    period: Float[Tensor, "B 1 D"]
    centre: Float[Tensor, "B 1 D"]  # of linear ones

    def covariance(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N N"]:
        a, b, c, d, quadratic, linear, periodic = (one[:, None, None] for one in self.coefficients.unbind(-1))
        plain = (x - linear * self.centre) * self.inverse_lengthscale
        angle = 2 * math.pi * x / self.period
        circles = torch.cat([torch.cos(angle), torch.sin(angle)], dim=-1) * self.inverse_lengthscale.repeat(1, 1, 2)
        features = torch.where(periodic > 0, circles, torch.cat([plain, torch.zeros_like(plain)], dim=-1))
        inner = features @ features.mT
        size = inner.diagonal(dim1=-2, dim2=-1)
        squared = (size[:, :, None] + size[:, None, :] - 2 * inner).clamp(min=0)
        distance = squared.sqrt()
        decay = c * distance + d * squared + quadratic * self.exponent * torch.log1p(squared / (2 * self.exponent))
        stationary = (1 + a * distance + b * squared) * torch.exp(-decay)
        return torch.where(linear > 0, 0.5 * (1 + inner), stationary)


def draw_kernels(tasks: int, dim: int, relevant: Bool[Tensor, "{tasks} {dim}"], generator: torch.Generator) -> Kernels:
    """Families, lengthscales over two orders of magnitude with one for each input, periods and exponents.

    The geometric mean of the lengthscales is log-uniform; that of one input differs from it by a factor of up to about 4.
    Lengthscales grow with the root of the number of relevant inputs: points are farther apart, and a function must not look
    like noise at a few hundred of them.
    """
    device = generator.device

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64, device=device)

    table = torch.tensor(list(FAMILIES.values()), dtype=torch.float64, device=device)
    ends = torch.tensor(SHARES, dtype=torch.float64, device=device).cumsum(0)[:-1]
    family = torch.bucketize(uniform(tasks), ends)
    shared, own = uniform(tasks, 1, 1), 2 * uniform(tasks, 1, dim) - 1
    count = relevant.sum(1).clamp(min=1)[:, None, None]
    away = own - (own * relevant[:, None]).sum(-1, keepdim=True) / count
    lengthscale = SHORTEST * (LONGEST / SHORTEST) ** shared * 4**away
    return Kernels(
        coefficients=table[family],
        exponent=0.1 * 50 ** uniform(tasks, 1, 1),
        inverse_lengthscale=relevant[:, None] / (lengthscale * count.sqrt()),
        period=0.3 * 15 ** uniform(tasks, 1, dim),
        centre=3 * uniform(tasks, 1, dim) - 1.5,
    )
