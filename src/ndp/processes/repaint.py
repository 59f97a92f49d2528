"""A posterior by RePaint, the paper's algorithm: the option for networks that never saw a context in training."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.arrays import (
    Context,
    Form,
    check_num_samples,
    empty_context,
    read_inputs_for,
    read_probabilities,
)
from ndp.core.randomness import noise_from
from ndp.core.typing import Array, Moments
from ndp.core.units import Units
from ndp.diffusion import likelihood
from ndp.diffusion.levels import cosine, level_of_ratio
from ndp.diffusion.likelihood import Divergence
from ndp.diffusion.repaint import repaint
from ndp.diffusion.solvers import Variance
from ndp.processes.conditioning import joint_denoiser

if TYPE_CHECKING:
    from ndp.processes.ndp import NDP


@final
class RePaintPosterior:
    """An NDP given a context by RePaint, the paper's algorithm: `steps * repeats` network calls a draw."""

    def __init__(self, ndp: "NDP", context: Context, form: Form, units: Units) -> None:
        self._ndp = ndp
        self._context = context
        self._form = form
        self._units = units

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        steps: int = 500,
        repeats: int = 5,
        variance: Variance | str = Variance.BETA,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Coherent draws at `x`: [S B M P], on the paper's cosine schedule of `steps` levels."""
        inputs = self._inputs(x)
        draws = self._draw(inputs, check_num_samples(num_samples), steps, repeats, Variance(variance), generator)
        return self._form.give(draws if num_samples is not None else draws[0])

    def moments(
        self,
        x: Array,
        *,
        num_samples: int = 128,
        steps: int = 500,
        repeats: int = 5,
        generator: torch.Generator | None = None,
    ) -> Moments:
        """Mean and standard deviation of plain draws, with their Monte Carlo error."""
        draws = self._draw(self._inputs(x), num_samples, steps, repeats, Variance.BETA, generator)
        return Moments(self._form.give(draws.mean(0)), self._form.give(draws.std(0)))

    def quantiles(
        self,
        x: Array,
        probabilities: Sequence[float],
        *,
        num_samples: int = 128,
        steps: int = 500,
        repeats: int = 5,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Quantiles of plain draws at every point: [Q B M P]."""
        draws = self._draw(self._inputs(x), num_samples, steps, repeats, Variance.BETA, generator)
        return self._form.give(torch.quantile(draws, read_probabilities(probabilities, draws), dim=0))

    def log_prob(
        self,
        x: Array,
        y: Array,
        *,
        steps: int = 15,
        probes: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """log p(targets, context) - log p(context), each by the probability-flow ODE of the prior: [B].

        RePaint itself has no density. This is that of the exact conditional of the same network's prior.
        """
        inputs, values = self._ndp.read_targets(self._context, self._form, self._units, x, y)
        if bool((self._context.noise > 0).any()):
            raise ValueError("log_prob of a RePaint posterior needs a context observed without extra noise")
        divergence = likelihood.make_divergence(probes, noise_from(generator))
        per_task = [
            self._joint_log_prob(
                torch.cat([context_x, target_x])[None], torch.cat([context_y, target_y])[None], steps, divergence
            )
            - self._joint_log_prob(context_x[None], context_y[None], steps, divergence)
            for context_x, context_y, target_x, target_y in self._tasks(inputs, values)
        ]
        return self._form.give_per_task(torch.cat(per_task) + self._units.log_det(inputs.shape[1]))

    def _inputs(self, x: Array) -> Float[Tensor, "B M D"]:
        return self._units.to_model_x(read_inputs_for(self._context, x))

    def _tasks(self, inputs: Tensor, values: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Context and target of each task, without the points that are masked."""
        for real, *task in zip(self._context.mask, self._context.x, self._context.y, inputs, values, strict=True):
            yield task[0][real], task[1][real], task[2], task[3]

    def _joint_log_prob(self, x: Tensor, y: Tensor, steps: int, divergence: Divergence) -> Float[Tensor, "1"]:
        if not x.shape[1]:
            return x.new_zeros(1, dtype=self._ndp.dtype)
        nothing = empty_context(x, self._ndp.num_outputs)
        denoise = joint_denoiser(self._ndp.network, self._ndp.prediction, nothing, x, self._ndp.dtype)
        with torch.no_grad():
            levels = likelihood.default_levels(y[0].numel(), steps)
            return likelihood.log_prob(denoise, y.to(self._ndp.dtype), levels, divergence=divergence)

    def _draw(
        self,
        inputs: Float[Tensor, "B M D"],
        num_samples: int,
        steps: int,
        repeats: int,
        variance: Variance,
        generator: torch.Generator | None,
    ) -> Float[Tensor, "S B M P"]:
        num_samples = check_num_samples(num_samples)
        if repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {repeats}")
        ndp, context = self._ndp, self._context
        noise = noise_from(generator)
        start = torch.empty(num_samples, *inputs.shape[:2], ndp.num_outputs, dtype=ndp.dtype, device=ndp.device)
        with torch.no_grad():
            draws = repaint(
                joint_denoiser(ndp.network, ndp.prediction, context, inputs, ndp.dtype),
                noise(start),
                context.y.to(ndp.dtype),
                level_of_ratio(context.noise).to(ndp.dtype),
                cosine(steps, dtype=ndp.dtype).to(ndp.device),
                noise=noise,
                repeats=repeats,
                variance=variance,
            )
        return self._units.from_model_y(draws)
