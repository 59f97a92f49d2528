"""What a network is trained on: recover the function, or its noise, at the targets, given the context.

Every choice of the paper and of ours is an argument here: which levels are drawn, whether there is a context, what is
predicted, and L1 or L2. On draws of a GP the minimiser is the oracle (`ndp.gp.oracle`).
"""

from enum import StrEnum
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.typing import Network
from ndp.diffusion.levels import CLEAN, NOISE, alpha, level_of_ratio, sigma
from ndp.diffusion.prediction import Prediction

# The range of sigma / alpha that is trained.
SMALLEST_RATIO, LARGEST_RATIO = 0.004, 80.0
# Mean and standard deviation of log(sigma / alpha) in training, where the functions are draws of a GP with noise 0.05.
LEVEL_LAW = (-1.7, 1.5)


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
    level: Float[Tensor, "B N"],
    eps: Float[Tensor, "B N P"],
    *,
    num_context: int = 0,
    mask: Bool[Tensor, "B N"] | None = None,
    of_function: Bool[Tensor, "B"] | None = None,
    alone: bool = False,
    answer: Float[Tensor, "B N P"] | None = None,
    prediction: Prediction = Prediction.V,
    error: Error = Error.L2,
) -> Float[Tensor, "B"]:
    """The mean error over each task's real targets: a pure function of the tasks, their levels and the noise `eps`.

    The first `num_context` points are context: they are noised to the level they were observed at, and do not count. Neither
    does a point that is CLEAN: it has no noise to recover.
    `of_function` is for networks that tell functions from observations: it marks the tasks whose targets are the function's.
    `alone` is for networks that encode a context: every target is a question of its own.
    `answer` are the values to recover, where they are not `y0`: its expectation given `y_t`, say, and more than a network sees.
    """
    y_t = alpha(level)[..., None] * y0 + sigma(level)[..., None] * eps
    options: dict[str, Any] = {} if of_function is None else {"of_function": of_function}
    if alone:
        options["alone"] = True
    output = network(x, y_t, level, mask, num_context=num_context, **options)
    right = prediction.target(y0, eps, level) if answer is None else prediction.output(answer, y_t, level)
    errors = error(output, right).mean(-1)[:, num_context:]
    counted = (level < CLEAN)[:, num_context:]
    if mask is not None:
        counted = counted & mask[:, num_context:]
    return (errors * counted).sum(-1) / counted.sum(-1).clamp(min=1)


def draw_levels(
    batch: int,
    *,
    generator: torch.Generator,
    groups: int = 1,
    law: tuple[float, float] = LEVEL_LAW,
    uniform_share: float = 0.2,
    smallest: float = SMALLEST_RATIO,
    largest: float = LARGEST_RATIO,
) -> Float[Tensor, "{batch}"]:
    """Levels to train at: log(sigma / alpha) from a normal law, where the information is, and a uniform share for the tails.

    Stratified: each of the `groups` that the batch consists of covers the law evenly, which takes most of the variance out of
    the loss.
    """
    device = generator.device
    uniform, order = torch.rand(2, groups, batch // groups, generator=generator, dtype=torch.float64, device=device)
    strata = ((order.argsort(dim=1) + uniform) / (batch // groups)).flatten()
    low, high = (torch.log(torch.tensor(ratio, dtype=torch.float64, device=device)) for ratio in (smallest, largest))
    tail = low + (high - low) * strata / max(uniform_share, 1e-12)
    body_share = ((strata - uniform_share) / max(1 - uniform_share, 1e-12)).clamp(1e-6, 1 - 1e-6)
    body = law[0] + law[1] * torch.special.ndtri(body_share)
    return (-2 * torch.where(strata < uniform_share, tail, body)).clamp(NOISE, CLEAN)


def draw_levels_from(
    schedule: Float[Tensor, "T"], batch: int, *, generator: torch.Generator
) -> Float[Tensor, "{batch}"]:
    """Levels drawn uniformly from a discrete schedule, as in the paper."""
    index = torch.randint(len(schedule), (batch,), generator=generator, device=generator.device)
    return schedule.to(index.device)[index]


def hold_context(
    level: Float[Tensor, "B *M"],
    points: int,
    num_context: int,
    *,
    generator: torch.Generator,
    noisy_share: float = 0.0,
    smallest: float = 0.01,
    largest: float = 1.0,
) -> Float[Tensor, "B {points}"]:
    """Levels of all points: the context's CLEAN, the targets' at the level of the task, or each at its own.

    In a share of the tasks every context point is observed with a noise of its own, its ratio log-uniform.
    """
    tasks, device = len(level), generator.device
    spread = torch.rand(tasks, num_context, generator=generator, dtype=torch.float64, device=device)
    noisy = torch.rand(tasks, 1, generator=generator, device=device) < noisy_share
    held = torch.where(noisy, level_of_ratio(smallest * (largest / smallest) ** spread), CLEAN)
    targets = level if level.ndim == 2 else level[:, None].expand(-1, points - num_context)
    return torch.cat([held.to(level), targets], dim=1)


def hold_known(level: Float[Tensor, "B"], known: Bool[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """Levels of all points where the context is among the targets: CLEAN where a value is known."""
    return torch.where(known, CLEAN, level[:, None])
