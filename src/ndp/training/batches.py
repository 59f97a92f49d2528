"""The inputs of every training step: functions, noise levels and noise, determined by seed, rank and step."""

import hashlib
from collections.abc import Iterator
from itertools import count
from operator import itemgetter

import torch
from torch import Tensor

from ndp.diffusion.levels import alpha, cosine, sigma
from ndp.diffusion.objective import (
    StepInputs,
    draw_levels,
    draw_levels_from,
    hold_context,
    hold_known,
    noise_one_or_both,
)
from ndp.priors.tasks import Batch, Source
from ndp.training.config import Recipe

# Steps of a source whose functions are drawn at once: one large batched Cholesky instead of many small ones.
CHUNK = 32


class TrainingInputs:
    """The inputs of every step. Sources are interleaved, one step each, and each draws the tasks of many steps at once.

    The size of Muon's moves does not shrink with the gradient. After many steps on one source, its momentum would outweigh
    other sources however large their loss; interleaved, momentum is an average over all of them.
    """

    def __init__(self, sources: list[Source], recipe: Recipe, device: torch.device, rank: int) -> None:
        self.sources, self._recipe, self._rank = sources, recipe, rank
        self._generator = torch.Generator(device)
        self._schedule = cosine(recipe.schedule) if recipe.schedule else None

    def after(self, step: int) -> Iterator[StepInputs]:
        """The inputs of all steps to come."""
        drawn: dict[int, list[StepInputs]] = {}
        for number in count(step):
            own_step, source = divmod(number, len(self.sources))
            chunk, index = divmod(own_step, CHUNK)
            if index == 0 or source not in drawn:
                drawn[source] = self.chunk(source, chunk)
            yield drawn[source][index]

    def chunk(self, source: int, number: int) -> list[StepInputs]:
        """The inputs of `CHUNK` steps of a source."""
        recipe, generator = self._recipe, self._generator
        generator.manual_seed(seed_of(recipe.seed, self._rank, number * len(self.sources) + source))
        batch = self.sources[source].draw(CHUNK * recipe.batch, generator=generator)
        if not recipe.use_context:
            batch = batch.without_context()
        x, y = batch.x, batch.y
        levels = self._levels(batch)
        noised = y.shape[-1] + (x.shape[-1] if recipe.joint else 0)
        eps = torch.randn((*y.shape[:2], noised), generator=generator, device=generator.device)
        values = x.float(), y.float(), levels.float(), eps
        posterior_mean = None
        if recipe.posterior_mean:
            level = values[2].double()
            y_t = alpha(level)[..., None] * y + sigma(level)[..., None] * eps
            posterior_mean = batch.posterior_mean(y_t, level).float()
        every = StepInputs(
            *values, batch.mask_if_needed, batch.num_context, batch.independent, batch.of_function, posterior_mean
        )
        return [every.map(itemgetter(slice(start, start + recipe.batch))) for start in range(0, len(x), recipe.batch)]

    def _levels(self, batch: Batch) -> Tensor:
        """Levels of every point: of the values or, for a joint model, of inputs and values."""
        recipe, generator = self._recipe, self._generator
        tasks, points = batch.x.shape[:2]
        if self._schedule is not None:
            level = draw_levels_from(self._schedule, tasks, generator=generator)
        elif batch.independent and not recipe.joint:  # each target has its own level
            asked = points - batch.num_context
            level = draw_levels(asked * tasks, groups=tasks, generator=generator, law=recipe.level_law)
            level = level.unflatten(0, (-1, asked))
        else:
            level = draw_levels(tasks, groups=CHUNK, generator=generator, law=recipe.level_law)
        if batch.known is not None:
            levels = hold_known(level, batch.known)
        else:
            share = recipe.noisy_share
            levels = hold_context(level, points, batch.num_context, generator=generator, noisy_share=share)
        if not recipe.joint:
            return levels
        return noise_one_or_both(levels, batch.num_context, generator=generator, joint_share=recipe.joint_share)


def seed_of(seed: int, rank: int, chunk: int) -> int:
    """Independent seeds for every rank and chunk."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{rank}/{chunk}".encode()).digest()[:7])
