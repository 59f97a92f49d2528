"""A joint posterior by RePaint, as in the paper: what is known of a point, its input, its value or both, is noised along."""

from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.arrays import Context, Form, check_num_samples, read_inputs_for
from ndp.core.randomness import noise_from
from ndp.core.typing import Array
from ndp.diffusion.levels import CLEAN, cosine, level_of_ratio
from ndp.diffusion.repaint import repaint
from ndp.processes.joint import JointNDP, give_inputs, read_asked
from ndp.processes.joint_conditioning import entries_denoiser

STEPS, REPEATS = 2000, 5  # the paper's levels for this experiment


@final
class JointRePaintPosterior:
    """A joint NDP given a context by RePaint: `steps * repeats` network calls a draw."""

    def __init__(self, joint: JointNDP, context: Context, form: Form) -> None:
        self._joint, self._context, self._form = joint, context, form

    def sample_inputs(
        self,
        y_star: Array | float,
        num_samples: int | None = None,
        *,
        steps: int = STEPS,
        repeats: int = REPEATS,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Inputs at which the function has the value `y_star`, as of `JointPosterior`."""
        values = read_asked(y_star, self._context, self._form, self._joint.num_outputs)
        inputs = values.new_zeros(*values.shape[:2], self._context.x.shape[-1])
        x, _ = self._draw(inputs, values, (False, True), num_samples, steps, repeats, generator)
        return give_inputs(x.clamp(-1, 1), self._form, y_star, num_samples)

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        steps: int = STEPS,
        repeats: int = REPEATS,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Coherent draws of values at `x`: [S B M P]."""
        inputs = read_inputs_for(self._context, x)
        values = inputs.new_zeros(*inputs.shape[:2], self._joint.num_outputs)
        _, y = self._draw(inputs, values, (True, False), num_samples, steps, repeats, generator)
        return self._form.give(y if num_samples is not None else y[0])

    def sample_joint(
        self,
        num_points: int,
        num_samples: int | None = None,
        *,
        steps: int = STEPS,
        repeats: int = REPEATS,
        generator: torch.Generator | None = None,
    ) -> tuple[Array, Array]:
        """Points of one function, inputs and values together: [S B M D] and [S B M P]."""
        if num_points < 1:
            raise ValueError(f"ask for at least one point, not {num_points}")
        inputs = self._context.x.new_zeros(len(self._context.x), num_points, self._context.x.shape[-1])
        values = inputs.new_zeros(*inputs.shape[:2], self._joint.num_outputs)
        x, y = self._draw(inputs, values, (False, False), num_samples, steps, repeats, generator)
        kept = y if num_samples is not None else y[0]
        return give_inputs(x.clamp(-1, 1), self._form, [0.0] * num_points, num_samples), self._form.give(kept)

    @torch.no_grad()
    def _draw(
        self,
        x: Float[Tensor, "B M D"],
        y: Float[Tensor, "B M P"],
        known: tuple[bool, bool],
        num_samples: int | None,
        steps: int,
        repeats: int,
        generator: torch.Generator | None,
    ) -> tuple[Float[Tensor, "S B M D"], Float[Tensor, "S B M P"]]:
        """Targets, of which the inputs, the values, or neither are `known`; where they are not, `x` and `y` mean nothing."""
        if repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {repeats}")
        joint, context = self._joint, self._context
        tasks, targets, dim = x.shape
        points = context.x.shape[1] + targets
        all_points = torch.cat([torch.cat([context.x, context.y], -1), torch.cat([x, y], -1)], dim=1).to(joint.dtype)
        is_known = _known_numbers(points, targets, dim, y.shape[-1], known).to(joint.device)
        order = torch.cat([is_known.nonzero()[:, 0], (~is_known).nonzero()[:, 0]])
        first = int(is_known.sum())
        observed = torch.cat([context.noise, context.noise.new_zeros(tasks, targets)], dim=1)
        no_noise = observed.new_full((tasks, points, dim), CLEAN)
        of_values = level_of_ratio(observed)[..., None].expand(-1, -1, y.shape[-1])
        levels = torch.cat([no_noise, of_values], dim=-1).flatten(1).to(joint.dtype)
        mask = torch.cat([context.mask, context.mask.new_ones(tasks, targets)], dim=1)
        noise = noise_from(generator)
        unknown = all_points.new_empty(check_num_samples(num_samples), tasks, len(order) - first, 1)
        painted = repaint(
            entries_denoiser(joint.network, joint.prediction, mask, observed, order, dim, joint.dtype),
            noise(unknown),
            all_points.flatten(1)[:, order[:first], None],
            levels[:, order[:first]],
            cosine(steps, dtype=joint.dtype).to(joint.device),
            noise=noise,
            repeats=repeats,
        )
        whole = all_points.flatten(1).expand(len(painted), -1, -1).clone()
        whole[..., order[first:]] = painted[..., 0]
        drawn = whole.unflatten(-1, (points, -1))[:, :, points - targets :]
        return drawn[..., :dim], drawn[..., dim:]


def _known_numbers(points: int, targets: int, dim: int, outputs: int, known: tuple[bool, bool]) -> Bool[Tensor, "E"]:
    """Which coordinates and values of all points are known: the context's, and of the targets what is said."""
    of_targets = torch.tensor([known[0]] * dim + [known[1]] * outputs)
    context = torch.ones(points - targets, dim + outputs, dtype=torch.bool)
    return torch.cat([context, of_targets.expand(targets, -1)]).flatten()
