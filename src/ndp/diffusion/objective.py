"""The training objective: recover the function, or its noise, at the targets, given the context.

The arguments are which levels are drawn, whether there is a context, what is predicted, and L1 or L2. A joint network also
recovers inputs; with all inputs known that is regression. On draws of a GP the minimiser is the oracle (`ndp.gp.oracle`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.typing import JointNetwork, Network
from ndp.diffusion.defaults import LARGEST_RATIO, LEVEL_LAW, SMALLEST_RATIO
from ndp.diffusion.levels import CLEAN, NOISE, alpha, level_of_ratio, sigma
from ndp.diffusion.prediction import Prediction


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


@dataclass(frozen=True)
class Objective:
    """What a model learns to minimise, and at which noise levels."""

    error: Error = Error.L2
    use_context: bool = True
    level_law: tuple[float, float] = LEVEL_LAW  # mean and standard deviation of log(sigma / alpha)
    ratios: tuple[float, float] = (SMALLEST_RATIO, LARGEST_RATIO)  # the range of sigma / alpha
    joint_share: float = 0.2  # of the tasks of a joint network, in which inputs and values are both noised


@dataclass(frozen=True)
class TrainingSupport:
    """How the steps of a model's training may be run."""

    compiled: bool = True  # by torch.compile
    distributed: bool = True  # on several devices
    cuda_graph: bool = True  # as one CUDA graph


@dataclass(frozen=True)
class StepInputs:
    """The tasks of one optimiser step, with their noise."""

    x: Float[Tensor, "B N D"]
    y0: Float[Tensor, "B N P"]
    level: Float[Tensor, "B N *V"]  # of the values, or of inputs and values where both are noised
    eps: Float[Tensor, "B N E"]  # of the values, or of inputs and values
    mask: Bool[Tensor, "B N"] | None  # None: all points are real
    num_context: int
    independent: bool = False  # whether every target sees the context only, and no other target
    of_function: Bool[Tensor, "B"] | None = None  # tasks whose targets are values of the function, not observations
    posterior_mean: Float[Tensor, "B N P"] | None = None  # E[y0 | y_t], to regress on in place of `y0`

    def tensors(self) -> tuple[Tensor, ...]:
        every = self.x, self.y0, self.level, self.eps, self.mask, self.of_function, self.posterior_mean
        return tuple(t for t in every if t is not None)

    def map(self, change: Callable[[Tensor], Tensor]) -> "StepInputs":
        """The same with every tensor changed."""
        x, y0, level, eps = (change(t) for t in (self.x, self.y0, self.level, self.eps))
        mask, of_function, posterior_mean = (
            None if t is None else change(t) for t in (self.mask, self.of_function, self.posterior_mean)
        )
        return StepInputs(x, y0, level, eps, mask, self.num_context, self.independent, of_function, posterior_mean)


def denoising_loss(
    network: Network | JointNetwork,
    x: Float[Tensor, "B N D"],
    y0: Float[Tensor, "B N P"],
    level: Float[Tensor, "B N *V"],
    eps: Float[Tensor, "B N E"],
    *,
    num_context: int = 0,
    mask: Bool[Tensor, "B N"] | None = None,
    of_function: Bool[Tensor, "B"] | None = None,
    independent: bool = False,
    posterior_mean: Float[Tensor, "B N P"] | None = None,
    prediction: Prediction = Prediction.V,
    error: Error = Error.L2,
) -> Float[Tensor, "B"]:
    """The mean error over each task's real targets: a pure function of the tasks, their levels and the noise `eps`.

    With a `level` [B N], inputs are known and values are noised: regression. With levels of inputs and of values [B N 2], both
    are, and the network predicts both; `eps` is then the noise of inputs and of values.

    The first `num_context` points are context: they are noised to the level they were observed at, and do not count. Neither
    does what is CLEAN: it has no noise to recover. `of_function` marks tasks whose targets are values of the function, for
    networks that separate these from observations. `independent` targets see the context only. `posterior_mean` is
    E[y0 | y_t]; regression on it has the same minimiser as regression on `y0`, and less variance.
    """
    joint = level.ndim == 3
    levels = level if joint else level[..., None]
    clean = (x, y0) if joint else (y0,)
    noises = eps.split([values.shape[-1] for values in clean], dim=-1)
    parts = list(zip(clean, levels.unbind(-1), noises, strict=True))
    noised = [alpha(at)[..., None] * values + sigma(at)[..., None] * noise for values, at, noise in parts]
    wanted = [prediction.target(values, noise, at) for values, at, noise in parts]
    if posterior_mean is not None:
        wanted[-1] = prediction.output(posterior_mean, noised[-1], parts[-1][1])
    outputs = _outputs(network, x, noised, levels, mask, num_context, of_function, independent)
    errors = torch.stack([error(o, w).mean(-1) for o, w in zip(outputs, wanted, strict=True)], dim=-1)
    asked = (levels < CLEAN)[:, num_context:]
    counted = asked.any(-1) if mask is None else asked.any(-1) & mask[:, num_context:]
    each = (errors[:, num_context:] * asked).sum(-1)
    return (each * counted).sum(-1) / counted.sum(-1).clamp(min=1)


def _outputs(
    network: Any,
    x: Tensor,
    noised: list[Tensor],
    levels: Tensor,
    mask: Tensor | None,
    num_context: int,
    of_function: Tensor | None,
    independent: bool,
) -> tuple[Tensor, ...]:
    """What the network predicts of inputs and values, or of values."""
    options: dict[str, Any] = {"independent": True} if independent else {}
    if len(noised) == 2:
        return network(*noised, *levels.unbind(-1), mask, num_context=num_context, **options)
    if of_function is not None:
        options["of_function"] = of_function
    return (network(x, noised[0], levels[..., 0], mask, num_context=num_context, **options),)


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
    """Levels to train at: log(sigma / alpha) is normal, where the information is, with a uniform share for the tails.

    Levels are stratified within each of the `groups` of the batch, which removes most of the variance of the loss.
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


def noise_one_or_both(
    levels: Float[Tensor, "B N"], num_context: int, *, generator: torch.Generator, joint_share: float
) -> Float[Tensor, "B N 2"]:
    """Levels of inputs and of values, [B N 2], for a joint network.

    In a share `joint_share` of the tasks, inputs and values of the targets are both noised. In half of the others only the
    inputs are, in half only the values. The inputs of a context are known.
    """
    place = torch.rand(len(levels), 1, generator=generator, device=generator.device)
    clean = torch.full_like(levels, CLEAN)
    is_context = torch.arange(levels.shape[1], device=levels.device) < num_context
    of_inputs = torch.where((place < (1 + joint_share) / 2) & ~is_context, levels, clean)
    inputs_only = place < (1 - joint_share) / 2
    of_values = torch.where(inputs_only & ~is_context, clean, levels)
    return torch.stack([of_inputs, of_values], dim=-1)
