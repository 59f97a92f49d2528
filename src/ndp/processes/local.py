"""The posterior given a large table: every value is conditioned on the rows nearest to it.

The rows are split into regions, by the distance under the GP experts of a random part of them. The context of a region is the
256 rows nearest to its middle, with units and experts of its own. A prediction does not depend on what else is asked for.
Functions that change their nature from place to place are followed.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ndp.core.arrays import (
    Context,
    Form,
    check_num_samples,
    read_inputs_for,
    read_probabilities,
    read_target_values,
)
from ndp.core.increasing import IncreasingCurve
from ndp.core.randomness import normal
from ndp.core.statistics import HasMoments
from ndp.core.typing import Array, Moments
from ndp.core.units import ContextUnits, Units, standardised
from ndp.processes import single_values
from ndp.processes.conditioning import Diffusion, EncodedContext
from ndp.processes.dependence import ValuesByExperts
from ndp.processes.posterior import DENSITY_STEPS, INDEPENDENT_STEPS
from ndp.processes.regions import ROWS_IN_CONTEXT, Regions, nearest_to_any
from ndp.processes.standardised_experts import StandardisedExperts

AT_ONCE = {"cpu": 1, "cuda": 16}  # regions
MOST_KEPT = 32  # regions whose encodings are kept, of 16 to 32 MB each
ROWS_OF_COPULA = 512

Report = Callable[[int, int], None]  # called with the number of values that are done, and of all


@final
class LocalPosterior(HasMoments):
    """One function given many rows or many inputs, in the form of every other posterior.

    Of more inputs than `most_columns`, those are used on which the function depends most under the experts. Draws and densities
    of joint values depend on each other as the experts say, given the rows nearest to all of them. It has no `given`: facts are
    for contexts of one region.
    """

    def __init__(self, diffusion: Diffusion, context: Context, form: Form, most_columns: int) -> None:
        self._diffusion, self._context, self._form = diffusion, context, form
        size = context.x.shape[1]
        pilot = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:ROWS_IN_CONTEXT].sort().values
        relevance = StandardisedExperts.given(_rows(context, pilot[None])).relevance[0]
        spread = context.x[0].std(0, correction=0)
        self.columns: Int[Tensor, "D"] = (relevance * spread.square()).argsort(descending=True, stable=True)
        self.columns = self.columns[:most_columns].sort().values
        self._scale = relevance[self.columns].sqrt()
        self._used = replace(context, x=context.x[..., self.columns])
        self._regions = Regions.of(self._used.x[0] * self._scale)
        self._kept: OrderedDict[int, tuple[EncodedContext, Units]] = OrderedDict()
        self._lock = Lock()

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        steps: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws at `x`, [S B M P]; with `joint=False` values that are independent given the rows."""
        inputs, noisy = self._inputs(x), self._diffusion.reads_noise(observation_noise)
        noise = normal((check_num_samples(num_samples), 1, inputs.shape[1], 1), generator, like=inputs)
        curves = self._curves(inputs, noisy, steps)
        draws = self._together(inputs, curves, noisy).draw(noise) if joint else curves(noise[..., 0])[..., None]
        return self._form.give(draws if num_samples is not None else draws[0])

    def moments(
        self,
        x: Array,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        steps: int | None = None,
        report: Report | None = None,
    ) -> Moments:
        """Mean and standard deviation at every point; the same for joint and independent values."""
        mean, std, _ = self._summary(x, None, observation_noise, steps, report)
        return Moments(mean, std)

    def quantiles(
        self,
        x: Array,
        probabilities: Sequence[float],
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        steps: int | None = None,
        report: Report | None = None,
    ) -> Array:
        """Quantiles at every point, [Q B M P]; the same for joint and independent values."""
        return self._summary(x, probabilities, observation_noise, steps, report)[2]

    def summary(
        self,
        x: Array,
        probabilities: Sequence[float],
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        steps: int | None = None,
        report: Report | None = None,
    ) -> tuple[Moments, Array]:
        """Moments and quantiles, at the price of one of them."""
        mean, std, quantiles = self._summary(x, probabilities, observation_noise, steps, report)
        return Moments(mean, std), quantiles

    def log_prob(
        self,
        x: Array,
        y: Array,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        steps: int = DENSITY_STEPS,
    ) -> Array:
        """Log-density of `y` at `x` in nats: [B] of all values together, [B M P] of each by itself."""
        inputs, values = read_target_values(self._context, self._form, x, y)
        inputs, noisy = inputs[..., self.columns], self._diffusion.reads_noise(observation_noise)
        parts = []
        for place, encoded, units, asked, given in self._by_region(inputs[0], values[0]):
            log_p = single_values.log_prob(
                partial(encoded.single_values, observation_noise=noisy),
                self._diffusion,
                units.to_model_x(asked),
                units.to_model_y(given),
                steps,
            )
            parts.append((place, (log_p + units.log_det(1)[:, None, None])[None, ..., 0]))
        each = _in_order(parts, inputs)[0, ..., None]
        if not joint:
            return self._form.give(each)
        together = self._together(inputs, self._curves(inputs, noisy, None), noisy)
        return self._form.give_per_task(each.sum((1, 2)) + together.log_density(values))

    def _inputs(self, x: Array) -> Float[Tensor, "1 M D"]:
        return read_inputs_for(self._context, x)[..., self.columns]

    def _summary(
        self,
        x: Array,
        probabilities: Sequence[float] | None,
        observation_noise: bool | None,
        steps: int | None,
        report: Report | None,
    ) -> tuple[Array, Array, Array]:
        inputs, noisy = self._inputs(x), self._diffusion.reads_noise(observation_noise)
        wanted = inputs.new_zeros(0) if probabilities is None else read_probabilities(probabilities, inputs)
        steps = INDEPENDENT_STEPS if steps is None else steps
        parts, done = [], 0
        for place, encoded, units, asked in self._by_region(inputs[0]):
            denoiser = partial(encoded.single_values, observation_noise=noisy)
            mean, std, quantiles = single_values.summary(
                denoiser, self._diffusion, units.to_model_x(asked), wanted, units.y_sign(), steps
            )
            found = units.from_model_y(mean)[None], units.from_model_std(std)[None], units.from_model_y(quantiles)
            parts.append((place, torch.cat(found)[..., 0]))
            done += int((place < inputs.shape[1]).sum())
            if report is not None:
                report(done, inputs.shape[1])
        answers = _in_order(parts, inputs)[..., None]
        by_rank = answers[2:].sort(0).values[wanted.argsort().argsort()]
        return self._form.give(answers[0]), self._form.give(answers[1]), self._form.give(by_rank)

    def _curves(self, inputs: Float[Tensor, "1 M D"], noisy: bool, steps: int | None) -> IncreasingCurve:
        """Standard normal noise to values in the user's units, a curve for each value."""
        steps = INDEPENDENT_STEPS if steps is None else steps
        parts, places = [], inputs.new_zeros(0)
        for place, encoded, units, asked in self._by_region(inputs[0]):
            denoiser = partial(encoded.single_values, observation_noise=noisy)
            curves = single_values.curves(denoiser, self._diffusion, units.to_model_x(asked), steps)
            values = units.from_model_y(curves.values[..., None])[..., 0]
            rising = units.y_sign()[:, None] > 0
            parts.append((place, torch.where(rising, values, values.flip(0))))  # the places are symmetric
            places = curves.places
        return IncreasingCurve(places, _in_order(parts, inputs))

    def _together(self, inputs: Float[Tensor, "1 M D"], curves: IncreasingCurve, noisy: bool) -> ValuesByExperts:
        rows = nearest_to_any(self._used.x[0] * self._scale, inputs[0] * self._scale, ROWS_OF_COPULA)
        experts = StandardisedExperts.given(_rows(self._used, rows[None]))
        of_function = self._diffusion.separates_noise and not noisy
        return ValuesByExperts(curves, experts.copula(inputs, of_function=of_function))

    def _by_region(self, inputs: Float[Tensor, "M D"], *more: Float[Tensor, "M _"]) -> Iterator[tuple[Any, ...]]:
        """Values by regions, some regions at a time: their places [R m], the regions, and what belongs to the values.

        Rows are filled up with the place after the last one.
        """
        region = self._regions.find(inputs * self._scale)
        size = AT_ONCE.get(inputs.device.type, 1)
        filled = [torch.cat([values, values[:1]]) for values in (inputs, *more)]
        for group in (region // size).unique().tolist():
            mine = range(group * size, min((group + 1) * size, len(self._regions.rows)))
            places = [(region == one).nonzero()[:, 0] for one in mine]
            place = pad_sequence(places, batch_first=True, padding_value=len(inputs))
            encoded = self._encoded(group, self._regions.rows[mine.start : mine.stop])
            yield place, *encoded, *(values[place] for values in filled)

    def _encoded(self, group: int, rows: Int[Tensor, "R K"]) -> tuple[EncodedContext, Units]:
        with self._lock:
            found = self._kept.pop(group, None)
        if found is None:
            context = _rows(self._used, rows)
            units = ContextUnits().of(context)
            found = EncodedContext(self._diffusion, standardised(context, units)), units
        with self._lock:
            self._kept[group] = found
            while len(self._kept) > max(1, MOST_KEPT // len(rows)):
                self._kept.popitem(last=False)
        return found


def _rows(context: Context, rows: Int[Tensor, "R K"]) -> Context:
    """Some rows of one task as tasks of their own."""
    return Context(context.x[0, rows], context.y[0, rows], context.noise[0, rows], context.mask[0, rows])


def _in_order(
    parts: Sequence[tuple[Int[Tensor, "_ _"], Float[Tensor, "A _ _"]]], inputs: Tensor
) -> Float[Tensor, "A 1 M"]:
    """Answers in the order of the questions."""
    answers = inputs.new_zeros(len(parts[0][1]), 1, inputs.shape[1] + 1)
    for place, found in parts:
        answers[:, 0, place] = found.to(answers)
    return answers[..., :-1]


def check_one_task(context: Context) -> Context:
    """The context, if it is of one task with at least one point."""
    if len(context.x) != 1 or not context.x.shape[1]:
        raise ValueError(
            f"x must hold the rows of one table, [N, D]; it holds {len(context.x)} task(s) of {context.x.shape[1]}"
        )
    return context
