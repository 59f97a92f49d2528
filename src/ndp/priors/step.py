"""Functions with one jump at an unknown place: the paper's example of what no Gaussian process can be."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.arrays import (
    Context,
    Form,
    check_num_samples,
    empty_context,
    form_of_inputs,
    read_context,
    read_inputs,
    read_inputs_for,
    read_probabilities,
    read_target_values,
)
from ndp.core.randomness import read_generator
from ndp.core.statistics import HasMoments
from ndp.core.typing import Array, Moments


@final
@dataclass(frozen=True)
class Step:
    """f(x) = 0 for x_1 <= u and 1 for x_1 > u, with u uniform in [low, high]."""

    low: float = -1.0
    high: float = 1.0

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws of the prior at `x`. There is no noise: observations are values of the function."""
        device = x.device if isinstance(x, Tensor) else torch.device("cpu")
        nothing = empty_context(read_inputs(x, input_dims=None, device=device), 1)
        prior = StepPosterior(self, nothing, form_of_inputs(x, 1))
        return prior.sample(x, num_samples, joint=joint, generator=generator)

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "StepPosterior":
        """The exact posterior: u is uniform between the last 0 and the first 1."""
        if noise is not None:
            raise ValueError("steps are observed without noise")
        device = x.device if isinstance(x, Tensor) else torch.device("cpu")
        context, form = read_context(x, y, None, mask, num_outputs=1, input_dims=None, device=device)
        return StepPosterior(self, context, form)


@final
class StepPosterior(HasMoments):
    """A step given values on either side of it. `bracket` holds the ends of the interval [B] that the jump lies in."""

    def __init__(self, prior: Step, context: Context, form: Form) -> None:
        self._context = context
        self._form = form
        place, high = context.x[..., 0], context.y[..., 0] > 0.5
        ends = place.new_tensor([prior.low, prior.high]).expand(len(place), 1, 2)
        last_zero = torch.where(context.mask & ~high, place, prior.low)
        first_one = torch.where(context.mask & high, place, prior.high)
        self.bracket = (
            torch.cat([ends[..., 0], last_zero], dim=1).amax(1),
            torch.cat([ends[..., 1], first_one], dim=1).amin(1),
        )
        if bool((self.bracket[0] >= self.bracket[1]).any()):
            raise ValueError("no step from 0 to 1 goes through these values")

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Steps at `x`, [S B M 1]; with `joint=False` every value is of a step of its own."""
        place = read_inputs_for(self._context, x)[..., :1]
        low, high = (end[:, None, None] for end in self.bracket)
        generator = read_generator(generator)
        shape = (check_num_samples(num_samples), len(low), 1 if joint else place.shape[1], 1)
        share = torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device).to(place)
        draws = (place > low + (high - low) * share).to(place)
        return self._form.give(draws if num_samples is not None else draws[0])

    def moments(self, x: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Moments:
        """Exact mean, the probability of a 1, and standard deviation."""
        one = self.probability_of_one(x)
        return Moments(self._form.give(one), self._form.give((one * (1 - one)).sqrt()))

    def quantiles(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> Array:
        """0 up to the probability of a 0, 1 above it: [Q B M 1]."""
        one = self.probability_of_one(x)
        asked = read_probabilities(probabilities, one)[:, None, None, None]
        return self._form.give((asked > 1 - one).to(one))

    def summary(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> tuple[Moments, Array]:
        """Moments and quantiles."""
        return self.moments(x), self.quantiles(x, probabilities)

    def log_prob(self, x: Array, y: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Array:
        """Logarithm of the probability of these zeros and ones: a mass and not a density, for steps have none.

        [B] of all together, or with `joint=False` [B M 1] of each by itself.
        """
        inputs, values = read_target_values(self._context, self._form, x, y)
        low, high = self.bracket
        one = values[..., 0] > 0.5
        if not joint:
            probability = self.probability_of_one(x)
            return self._form.give(torch.where(one[..., None], probability, 1 - probability).log())
        last_zero = torch.where(one, low[:, None], inputs[..., 0]).amax(1)
        first_one = torch.where(one, inputs[..., 0], high[:, None]).amin(1)
        left = torch.minimum(first_one, high) - torch.maximum(last_zero, low)
        return self._form.give_per_task((left.clamp(min=0) / (high - low)).log())

    def probability_of_one(self, x: Array) -> Float[Tensor, "B M 1"]:
        """P(f(x) = 1) at every point: how much of the bracket lies below it."""
        low, high = (end[:, None, None] for end in self.bracket)
        return ((read_inputs_for(self._context, x)[..., :1] - low) / (high - low)).clamp(0, 1)
