"""What a network is trained on: recover the function, or its noise, at the points that are not context.

Every choice of the paper and of ours is an argument here: which levels are drawn, whether there is a context, what is
predicted, and L1 or L2. On draws of a GP the minimiser is the oracle (`ndp.diffusion.oracle`).
"""

from enum import StrEnum

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.diffusion.levels import CLEAN, NOISE, alpha, sigma
from ndp.diffusion.prediction import Prediction
from ndp.randomness import normal
from ndp.typing import Network


class Error(StrEnum):
    """`L2` learns the mean, which is what a denoiser is. `L1` (the paper's) learns the median: right for Gaussians only."""

    L1 = "l1"
    L2 = "l2"

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        match self:
            case Error.L1:
                return (output - target).abs()
            case Error.L2:
                return (output - target).square()


def denoising_loss(
    network: Network,
    x: Float[Tensor, "B N D"],
    y0: Float[Tensor, "B N P"],
    level: Float[Tensor, "B"],
    eps: Float[Tensor, "B N P"],
    *,
    context: Bool[Tensor, "B N"] | None = None,
    context_level: Float[Tensor, "B N"] | None = None,
    mask: Bool[Tensor, "B N"] | None = None,
    prediction: Prediction = Prediction.V,
    error: Error = Error.L2,
) -> Float[Tensor, ""]:
    """The mean error over all real targets: a pure function of the tasks, one level a task, and the noise `eps`.

    Points in `context` are held at `context_level` (CLEAN where none is given) and do not count.
    """
    levels = level[:, None].expand(y0.shape[:2])
    counted = torch.ones_like(levels, dtype=torch.bool) if mask is None else mask
    if context is not None:
        held = torch.full_like(levels, CLEAN) if context_level is None else context_level
        levels = torch.where(context, held, levels)
        counted = counted & ~context
    y_t = alpha(levels)[..., None] * y0 + sigma(levels)[..., None] * eps
    if context is not None and context_level is None:  # as observed, to the last digit
        y_t = torch.where(context[..., None], alpha(levels)[..., None] * y0, y_t)
    errors = error(network(x, y_t, levels, mask), prediction.target(y0, eps, levels)).mean(-1)
    return (errors * counted).sum() / counted.sum().clamp(min=1)


def draw_levels(
    batch: int,
    *,
    generator: torch.Generator | None = None,
    mean: float = -1.7,
    std: float = 1.5,
    uniform_share: float = 0.2,
    smallest: float = 0.004,
    largest: float = 80.0,
) -> Float[Tensor, "{batch}"]:
    """Levels to train at: log(sigma / alpha) from a normal law, where the information is, with a uniform share for the tails.

    Stratified: the batch covers the law evenly, which takes most of the variance out of the loss.
    """
    generator = generator or torch.Generator()
    device = generator.device
    uniform = torch.rand(batch, generator=generator, dtype=torch.float64, device=device)
    strata = (torch.randperm(batch, generator=generator, device=device) + uniform) / batch
    in_tail = strata < uniform_share
    low, high = torch.log(torch.tensor([smallest, largest], dtype=torch.float64))
    tail = low + (high - low) * strata / max(uniform_share, 1e-12)
    body_share = ((strata - uniform_share) / max(1 - uniform_share, 1e-12)).clamp(1e-6, 1 - 1e-6)
    body = mean + std * torch.special.ndtri(body_share)
    return (-2 * torch.where(in_tail, tail, body)).clamp(NOISE, CLEAN)


def draw_levels_from(
    schedule: Float[Tensor, "T"], batch: int, *, generator: torch.Generator | None = None
) -> Float[Tensor, "{batch}"]:
    """Levels drawn uniformly from a discrete schedule, as in the paper."""
    index = torch.randint(len(schedule), (batch,), generator=generator, device=generator.device if generator else None)
    return schedule.to(index.device)[index]


def draw_context(
    mask: Bool[Tensor, "B N"], largest: int, *, generator: torch.Generator | None = None
) -> Bool[Tensor, "B N"]:
    """Which points of each task are context: a random subset of the real ones, of a size uniform in 0..largest.

    At least one real point is always left as a target.
    """
    batch, points = mask.shape
    device = generator.device if generator else mask.device
    keys = torch.rand(batch, points, generator=generator, device=device).to(mask.device)
    rank = keys.masked_fill(~mask, torch.inf).argsort(dim=1).argsort(dim=1)
    size = torch.randint(largest + 1, (batch, 1), generator=generator, device=device).to(mask.device)
    return mask & (rank < torch.minimum(size, mask.sum(dim=1, keepdim=True) - 1))


def draw_noise(y0: Float[Tensor, "B N P"], *, generator: torch.Generator | None = None) -> Float[Tensor, "B N P"]:
    """The noise to corrupt functions with."""
    return normal(tuple(y0.shape), generator, like=y0)
