"""What a joint network is trained on: recover inputs, outputs, or both, at the targets, given the context.

A task noises one of the two and knows the other, or noises both to one level (always, in the paper). What is known does not
count. With every input known this is `ndp.diffusion.objective`.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.typing import JointNetwork
from ndp.diffusion.levels import CLEAN, alpha, sigma
from ndp.diffusion.objective import Error
from ndp.diffusion.prediction import Prediction


def joint_denoising_loss(
    network: JointNetwork,
    x0: Float[Tensor, "B N D"],
    y0: Float[Tensor, "B N P"],
    levels: Float[Tensor, "B N 2"],
    eps: Float[Tensor, "B N E"],
    *,
    num_context: int = 0,
    mask: Bool[Tensor, "B N"] | None = None,
    alone: bool = False,
    prediction: Prediction = Prediction.V,
    error: Error = Error.L2,
) -> Float[Tensor, "B"]:
    """The mean error over each task's real targets, of inputs and of outputs where these are noised.

    `levels` are those of inputs and of outputs; `eps` is the noise of inputs, then of outputs.
    """
    dim = x0.shape[-1]
    noised, wanted = [], []
    for clean, level, noise in zip((x0, y0), levels.unbind(-1), (eps[..., :dim], eps[..., dim:]), strict=True):
        noised.append(alpha(level)[..., None] * clean + sigma(level)[..., None] * noise)
        wanted.append(prediction.target(clean, noise, level))
    level_x, level_y = levels.unbind(-1)
    outputs = network(noised[0], noised[1], level_x, level_y, mask, num_context=num_context, alone=alone)
    errors = torch.stack([error(o, w).mean(-1) for o, w in zip(outputs, wanted, strict=True)], dim=-1)
    asked = (errors * (levels < CLEAN)).sum(-1)[:, num_context:]
    if mask is None:
        return asked.mean(-1)
    counted = mask[:, num_context:]
    return (asked * counted).sum(-1) / counted.sum(-1).clamp(min=1)


def noise_one_or_both(
    levels: Float[Tensor, "B N"], num_context: int, *, generator: torch.Generator, together: float
) -> Float[Tensor, "B N 2"]:
    """Levels of inputs and of outputs from those that outputs alone would have.

    In a share `together` of the tasks targets have both at their level; in half of the others only the inputs, in half only
    the outputs. The inputs of a context are known.
    """
    place = torch.rand(len(levels), 1, generator=generator, device=generator.device)
    clean = torch.full_like(levels, CLEAN)
    is_context = torch.arange(levels.shape[1], device=levels.device) < num_context
    of_inputs = torch.where((place < (1 + together) / 2) & ~is_context, levels, clean)
    inputs_only = place < (1 - together) / 2
    of_outputs = torch.where(inputs_only & ~is_context, clean, levels)
    return torch.stack([of_inputs, of_outputs], dim=-1)
