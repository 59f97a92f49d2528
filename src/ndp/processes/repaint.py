"""A posterior by RePaint, the paper's algorithm: the option for networks that never saw a context in training."""

from collections.abc import Iterator, Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.arrays import (
    Context,
    Form,
    check_num_samples,
    empty_context,
    read_inputs_for,
    read_observation_noise,
    read_probabilities,
    read_target_values,
)
from ndp.core.randomness import noise_from
from ndp.core.statistics import HasMoments
from ndp.core.typing import Array, Denoiser, Moments
from ndp.core.units import Units
from ndp.diffusion import likelihood
from ndp.diffusion.levels import cosine, level_of_ratio
from ndp.diffusion.likelihood import Divergence
from ndp.diffusion.repaint import repaint
from ndp.diffusion.solvers import Variance
from ndp.processes.conditioning import Diffusion, EncodedContext
from ndp.processes.points import give_inputs, read_num_points, read_wanted_values
from ndp.processes.repaint_points import PaintedNumbers

STEPS, JOINT_STEPS, REPEATS = 500, 2000, 5  # the paper's


@final
class RePaintPosterior(HasMoments):
    """An NDP given a context by RePaint: `steps * repeats` network calls a draw, all targets together.

    Of a model of inputs and values, whatever is known of a point (its input, its value or both) is noised along, as in the
    paper, and `sample_inputs` and `sample_joint` draw what is not.
    """

    def __init__(self, diffusion: Diffusion, context: Context, form: Form, units: Units) -> None:
        self._diffusion = diffusion
        self._context = context  # in model units
        self._form = form
        self._units = units

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        steps: int | None = None,
        repeats: int = REPEATS,
        variance: Variance | str = Variance.BETA,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws at `x`, [S B M P], on the paper's cosine schedule of `steps` levels (500; 2,000 for inputs and values)."""
        self._check_kind(joint, observation_noise)
        count = check_num_samples(num_samples)
        draws = self._draw(self._inputs(x), count, steps, repeats, Variance(variance), generator)
        return self._form.give(draws if num_samples is not None else draws[0])

    def moments(
        self,
        x: Array,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        num_samples: int = 128,
        steps: int | None = None,
        repeats: int = REPEATS,
        generator: torch.Generator | None = None,
    ) -> Moments:
        """Mean and standard deviation of plain draws, with their Monte Carlo error."""
        self._check_kind(joint, observation_noise)
        draws = self._draw(self._inputs(x), num_samples, steps, repeats, Variance.BETA, generator)
        return Moments(self._form.give(draws.mean(0)), self._form.give(draws.std(0)))

    def quantiles(
        self,
        x: Array,
        probabilities: Sequence[float],
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        num_samples: int = 128,
        steps: int | None = None,
        repeats: int = REPEATS,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Quantiles of plain draws at every point: [Q B M P]."""
        self._check_kind(joint, observation_noise)
        draws = self._draw(self._inputs(x), num_samples, steps, repeats, Variance.BETA, generator)
        return self._form.give(torch.quantile(draws, read_probabilities(probabilities, draws), dim=0))

    def summary(
        self,
        x: Array,
        probabilities: Sequence[float],
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        num_samples: int = 128,
        steps: int | None = None,
        repeats: int = REPEATS,
        generator: torch.Generator | None = None,
    ) -> tuple[Moments, Array]:
        """Moments and quantiles of the same draws."""
        self._check_kind(joint, observation_noise)
        draws = self._draw(self._inputs(x), num_samples, steps, repeats, Variance.BETA, generator)
        moments = Moments(self._form.give(draws.mean(0)), self._form.give(draws.std(0)))
        return moments, self._form.give(torch.quantile(draws, read_probabilities(probabilities, draws), dim=0))

    def log_prob(
        self,
        x: Array,
        y: Array,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        steps: int = 15,
        probes: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """log p(targets, context) - log p(context), each by the probability-flow ODE of the prior: [B].

        RePaint itself has no density. This is that of the exact conditional of the same network's prior.
        """
        self._check_kind(joint, observation_noise)
        inputs, values = read_target_values(self._context, self._form, x, y)
        inputs, values = self._units.to_model_x(inputs), self._units.to_model_y(values)
        if bool((self._context.noise > 0).any()):
            raise ValueError("log_prob of a RePaint posterior needs a context observed without extra noise")
        divergence = likelihood.make_divergence(probes, noise_from(generator))
        per_task = [
            self._prior_log_prob(
                torch.cat([context_x, target_x])[None], torch.cat([context_y, target_y])[None], steps, divergence
            )
            - self._prior_log_prob(context_x[None], context_y[None], steps, divergence)
            for context_x, context_y, target_x, target_y in self._tasks(inputs, values)
        ]
        return self._form.give_per_task(torch.cat(per_task) + self._units.log_det(inputs.shape[1]))

    def sample_inputs(
        self,
        y_star: Array | float,
        num_samples: int | None = None,
        *,
        steps: int = JOINT_STEPS,
        repeats: int = REPEATS,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Inputs at which the function has the value `y_star`, as of `NDPPosterior`."""
        values = read_wanted_values(y_star, self._context, self._form, self._diffusion.num_outputs)
        inputs = values.new_zeros(*values.shape[:2], self._context.x.shape[-1])
        painted = PaintedNumbers(self._diffusion, self._context, inputs, values, known=(False, True))
        x, _ = self._paint(painted, check_num_samples(num_samples), steps, repeats, Variance.BETA, generator)
        return give_inputs(x.clamp(-1, 1), self._form, y_star, num_samples)

    def sample_joint(
        self,
        num_points: int,
        num_samples: int | None = None,
        *,
        steps: int = JOINT_STEPS,
        repeats: int = REPEATS,
        generator: torch.Generator | None = None,
    ) -> tuple[Array, Array]:
        """Points of one function, inputs and values together: [S B M D] and [S B M P]."""
        inputs = self._context.x.new_zeros(len(self._context.x), read_num_points(num_points), self._context.x.shape[-1])
        values = inputs.new_zeros(*inputs.shape[:2], self._diffusion.num_outputs)
        painted = PaintedNumbers(self._diffusion, self._context, inputs, values, known=(False, False))
        x, y = self._paint(painted, check_num_samples(num_samples), steps, repeats, Variance.BETA, generator)
        kept = y if num_samples is not None else y[0]
        return give_inputs(x.clamp(-1, 1), self._form, [0.0] * num_points, num_samples), self._form.give(kept)

    def _check_kind(self, joint: bool, observation_noise: bool | None) -> None:
        if not joint:
            raise ValueError("RePaint draws all targets together; leave joint=False out, or ask model.condition(x, y)")
        read_observation_noise(observation_noise, separates_noise=False, carries_noise=self._diffusion.noise_floor > 0)

    def _inputs(self, x: Array) -> Float[Tensor, "B M D"]:
        return self._units.to_model_x(read_inputs_for(self._context, x))

    def _tasks(self, inputs: Tensor, values: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Context and target of each task, without the points that are masked."""
        for real, *task in zip(self._context.mask, self._context.x, self._context.y, inputs, values, strict=True):
            yield task[0][real], task[1][real], task[2], task[3]

    def _prior_log_prob(self, x: Tensor, y: Tensor, steps: int, divergence: Divergence) -> Float[Tensor, "1"]:
        diffusion = self._diffusion
        if not x.shape[1]:
            return x.new_zeros(1, dtype=diffusion.dtype)
        denoise = EncodedContext(diffusion, empty_context(x, diffusion.num_outputs)).unconditional(x)
        with torch.no_grad():
            levels = likelihood.default_levels(y[0].numel(), steps)
            return likelihood.log_prob(denoise, diffusion.in_precision(y, "y"), levels, divergence=divergence)

    def _draw(
        self,
        inputs: Float[Tensor, "B M D"],
        num_samples: int,
        steps: int | None,
        repeats: int,
        variance: Variance,
        generator: torch.Generator | None,
    ) -> Float[Tensor, "S B M P"]:
        """Values at known inputs, in the user's units."""
        diffusion, context = self._diffusion, self._context
        count = check_num_samples(num_samples)
        if diffusion.of_points:
            values = inputs.new_zeros(*inputs.shape[:2], diffusion.num_outputs)
            painted = PaintedNumbers(diffusion, context, inputs, values, known=(True, False))
            draws = self._paint(painted, count, JOINT_STEPS if steps is None else steps, repeats, variance, generator)[
                1
            ]
        else:
            draws = self._repaint(
                EncodedContext(diffusion, context).unconditional(inputs),
                (count, *inputs.shape[:2], diffusion.num_outputs),
                context.y,
                level_of_ratio(context.noise),
                STEPS if steps is None else steps,
                repeats,
                variance,
                generator,
            )
        return self._units.from_model_y(draws)

    def _paint(
        self,
        painted: PaintedNumbers,
        num_samples: int,
        steps: int,
        repeats: int,
        variance: Variance,
        generator: torch.Generator | None,
    ) -> tuple[Float[Tensor, "S B M D"], Float[Tensor, "S B M P"]]:
        """Inputs and values of targets, of which some were known."""
        shape = (num_samples, *painted.unknown_shape)
        known, levels = painted.known, painted.known_levels
        return painted.points(self._repaint(painted.denoise, shape, known, levels, steps, repeats, variance, generator))

    @torch.no_grad()
    def _repaint(
        self,
        denoise: Denoiser,
        shape: tuple[int, ...],
        known: Float[Tensor, "B C P"],
        known_levels: Float[Tensor, "B C"],
        steps: int,
        repeats: int,
        variance: Variance,
        generator: torch.Generator | None,
    ) -> Tensor:
        if repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {repeats}")
        noise = noise_from(generator)
        kind: dict[str, Any] = {"dtype": self._diffusion.dtype, "device": self._diffusion.device}
        return repaint(
            denoise,
            noise(torch.empty(shape, **kind)),
            known.to(**kind),
            known_levels.to(**kind),
            cosine(steps, dtype=self._diffusion.dtype).to(self._diffusion.device),
            noise=noise,
            repeats=repeats,
            variance=variance,
        )
