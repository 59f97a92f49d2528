"""Gaussian processes whose hyperparameters are themselves random, drawn anew for every task."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import gpytorch
import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.typing import Array
from ndp.gp.exact import GP
from ndp.priors.drawing import draw_observations, draw_tensor

DrawKernel = Callable[[int, int, torch.Generator], gpytorch.kernels.Kernel]


@final
@dataclass(frozen=True)
class HierarchicalGP:
    """A GP with a kernel of its own for every task.

    `draw_kernel(tasks, dim, generator)` returns a GPyTorch kernel of `dim` inputs with `batch_shape=[tasks]` on the
    generator's device.
    """

    draw_kernel: DrawKernel
    noise: float = 0.0
    jitter: float = 1e-8

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        def one(x: Tensor, generator: torch.Generator) -> Tensor:
            return torch.as_tensor(draw_observations(self.draw_gp(x, generator), x, generator=generator))

        return draw_tensor(one, x, num_samples, generator)

    def draw_gp(self, x: Float[Tensor, "B N D"], generator: torch.Generator) -> GP:
        """The GPs that the functions at `x` are drawn from, with one kernel for each task."""
        return GP(self.draw_kernel(x.shape[0], x.shape[2], generator), noise=self.noise, jitter=self.jitter)


def log_normal_lengthscale(
    kernel: Callable[..., gpytorch.kernels.Kernel], median: float, log_std: float, *, in_each_dimension: bool = False
) -> DrawKernel:
    """Kernels whose lengthscale is log-normal about `median`: one for all dimensions, or an independent one in each."""

    def draw(tasks: int, dim: int, generator: torch.Generator) -> gpytorch.kernels.Kernel:
        scales = dim if in_each_dimension else 1
        normal = torch.randn(tasks, 1, scales, generator=generator, dtype=torch.float64, device=generator.device)
        made = kernel(batch_shape=torch.Size([tasks]), ard_num_dims=scales if scales > 1 else None)
        made = made.to(generator.device, torch.float64)
        made.lengthscale = torch.exp(math.log(median) + log_std * normal)
        return made

    return draw
