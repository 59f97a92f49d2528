"""Gaussian processes whose hyperparameters are themselves random, drawn anew for every task."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import gpytorch
import torch
from torch import Tensor

from ndp.gp import GP
from ndp.priors.drawing import draw_tensor
from ndp.typing import Array


@final
@dataclass(frozen=True)
class HierarchicalGP:
    """A GP with a kernel of its own for every task.

    `draw_kernel(tasks, generator)` returns a GPyTorch kernel with `batch_shape=[tasks]` on the generator's device.
    """

    draw_kernel: Callable[[int, torch.Generator], gpytorch.kernels.Kernel]
    noise: float = 0.0
    jitter: float = 1e-8

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        def one(x: Tensor, generator: torch.Generator) -> Tensor:
            gp = GP(self.draw_kernel(x.shape[0], generator), noise=self.noise, jitter=self.jitter)
            return torch.as_tensor(gp.sample(x, generator=generator))

        return draw_tensor(one, x, num_samples, generator)


def log_normal_lengthscale(
    kernel: Callable[..., gpytorch.kernels.Kernel], median: float, log_std: float
) -> Callable[[int, torch.Generator], gpytorch.kernels.Kernel]:
    """Kernels with one lengthscale for all dimensions, log-normal about `median`."""

    def draw(tasks: int, generator: torch.Generator) -> gpytorch.kernels.Kernel:
        normal = torch.randn(tasks, 1, 1, generator=generator, dtype=torch.float64, device=generator.device)
        made = kernel(batch_shape=torch.Size([tasks])).to(generator.device, torch.float64)
        made.lengthscale = torch.exp(math.log(median) + log_std * normal)
        return made

    return draw
