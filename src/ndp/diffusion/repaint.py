"""RePaint, the paper's conditional sampler: the context is noised to the level of the targets at every step.

It needs only a denoiser of context and targets together. So it conditions any network, including one that never saw a context
in training. It is biased (information reaches the targets with a delay; see `docs/solvers.md`) and takes
K * repeats calls. With no context and one repeat it is ancestral sampling of the prior.
"""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.typing import Denoiser
from ndp.diffusion.levels import alpha, ratio, sigma
from ndp.diffusion.solvers import Noise, Variance, backward_step, to_zero


def repaint(
    denoise: Denoiser,
    y: Float[Tensor, "*S B M P"],
    y_context: Float[Tensor, "B C P"],
    level_context: Float[Tensor, "B C"],
    levels: Float[Tensor, "K"],
    *,
    noise: Noise,
    repeats: int = 5,
    variance: Variance = Variance.BETA,
) -> Float[Tensor, "*S B M P"]:
    """Carry the targets `y` from `levels[0]` to data, given values observed with the noise of `level_context`.

    `denoise` takes the context's points followed by the targets'. At every level, `repeats` times: noise the context to the
    level, take one backward step of all points, and (but for the last time) one forward step of the targets back.
    """
    num_context = y_context.shape[-2]

    def joint(y_target: Tensor, level: Tensor) -> Tensor:
        """The context noised to `level` (never below the noise it was observed with), then the targets."""
        reached = torch.minimum(level, level_context)[..., None]
        missing = sigma(reached) ** 2 - (alpha(reached) * ratio(level_context)[..., None]) ** 2
        context = (alpha(reached) * y_context).expand(*y_target.shape[:-2], *y_context.shape[-2:])
        both = torch.cat([context, y_target], dim=-2)
        fresh = noise(both)[..., :num_context, :]
        return torch.cat([context + missing.clamp(min=0).sqrt() * fresh, y_target], dim=-2)

    for now, then in pairwise(levels):
        keep = alpha(now) / alpha(then)
        for repeat in range(repeats):
            y_joint = joint(y, now)
            stepped = backward_step(y_joint, denoise(y_joint, now), now, then, noise=noise, variance=variance)
            y = stepped[..., num_context:, :]
            if repeat < repeats - 1:
                y = keep * y + torch.sqrt(1 - keep**2) * noise(y)
    return to_zero(denoise, joint(y, levels[-1]), levels[-1])[..., num_context:, :]
