"""Inputs of the universal prior: columns as tables have them, with a standard deviation of about one."""

import torch
from jaxtyping import Float
from torch import Tensor


def draw_inputs(
    tasks: int, points: int, dim: int, generator: torch.Generator
) -> Float[Tensor, "{tasks} {points} {dim}"]:
    """Uniform, normal, skewed and clustered columns; some are coarse (counts, codes), some are correlated."""
    device = generator.device

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64, device=device)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64, device=device)

    flat = 3.46 * (uniform(tasks, points, dim) - 0.5)
    bell = normal(tasks, points, dim)
    # Correlated columns: a share of every column is the first one's.
    correlation = 0.95 * uniform(tasks, 1, dim) * (uniform(tasks, 1, 1) < 0.4)
    bell = correlation * bell[..., :1] + (1 - correlation**2).sqrt() * bell
    skewed = torch.expm1((0.3 + 0.9 * uniform(tasks, 1, dim)) * bell)
    centres = normal(tasks, 4, dim)
    members = torch.randint(4, (tasks, points, 1), generator=generator, device=device).expand(-1, -1, dim)
    clustered = centres.gather(1, members) + 0.3 * uniform(tasks, 1, 1) * bell
    # One layout for all columns of half of the tasks, and one a column in the others.
    kind = torch.where(uniform(tasks, 1, 1) < 0.5, uniform(tasks, 1, 1), uniform(tasks, 1, dim))
    x = torch.where(kind < 0.45, flat, torch.where(kind < 0.75, bell, torch.where(kind < 0.9, skewed, clustered)))
    coarse = 1 + (8 * uniform(tasks, 1, dim)).floor()
    rounded = (x * coarse / 2).round() * 2 / coarse
    return torch.where(uniform(tasks, 1, dim) < 0.12, rounded, x)


def push_outwards(
    x: Float[Tensor, "B N D"], num_context: int, share: float, generator: torch.Generator
) -> Float[Tensor, "B N D"]:
    """In a share of the tasks, targets extrapolate: they reach beyond the context by up to its own width."""
    reach = 1 + torch.rand(len(x), 1, 1, generator=generator, dtype=x.dtype, device=x.device)
    pushed = torch.rand(len(x), 1, 1, generator=generator, device=x.device) < share
    return torch.cat([x[:, :num_context], torch.where(pushed, reach, 1.0) * x[:, num_context:]], dim=1)
