"""What every step of a training run sees: functions, noise levels and noise, a function of seed, rank and number alone."""

import hashlib
from collections.abc import Iterator
from itertools import count
from operator import itemgetter

import torch

from ndp.diffusion.joint_objective import noise_one_or_both
from ndp.diffusion.levels import alpha, cosine, sigma
from ndp.diffusion.objective import draw_levels, draw_levels_from, hold_context, hold_known
from ndp.priors.tasks import Source
from ndp.training.config import JOINT_MODEL, Recipe
from ndp.training.update import StepInputs

# Turns of a source whose functions are drawn together: one large batched Cholesky instead of many small ones.
CHUNK = 32


class TrainingInputs:
    """The inputs of every step. Sources take turns, a step each, and each of them draws the tasks of many turns together.

    Muon's moves do not shrink with the gradient: were many steps of one source to follow each other, a source that disagrees
    with the others would be outvoted by them, however large its loss. So close together, momentum adds up what all of them say.
    """

    def __init__(self, sources: list[Source], recipe: Recipe, device: torch.device, rank: int) -> None:
        self.sources, self._recipe, self._rank = sources, recipe, rank
        self._generator = torch.Generator(device)
        self._schedule = cosine(recipe.schedule) if recipe.schedule else None

    def after(self, step: int) -> Iterator[StepInputs]:
        """The inputs of all steps to come."""
        drawn: dict[int, list[StepInputs]] = {}
        for number in count(step):
            turn, source = divmod(number, len(self.sources))
            chunk, index = divmod(turn, CHUNK)
            if index == 0 or source not in drawn:
                drawn[source] = self.chunk(source, chunk)
            yield drawn[source][index]

    def chunk(self, source: int, number: int) -> list[StepInputs]:
        """Many turns of a source."""
        recipe, generator = self._recipe, self._generator
        generator.manual_seed(seed_of(recipe.seed, self._rank, number * len(self.sources) + source))
        batch = self.sources[source].draw(CHUNK * recipe.batch, generator=generator)
        if not recipe.use_context:
            batch = batch.without_context()
        x, y, num_context = batch.x, batch.y, batch.num_context
        if (
            self._schedule is None and batch.independent and recipe.model != JOINT_MODEL
        ):  # each target at a level of its own
            asked = x.shape[1] - num_context
            level = draw_levels(asked * len(x), groups=len(x), generator=generator, law=recipe.level_law)
            level = level.unflatten(0, (-1, asked))
        elif self._schedule is None:
            level = draw_levels(CHUNK * recipe.batch, groups=CHUNK, generator=generator, law=recipe.level_law)
        else:
            level = draw_levels_from(self._schedule, CHUNK * recipe.batch, generator=generator)
        if batch.known is None:
            levels = hold_context(level, x.shape[1], num_context, generator=generator, noisy_share=recipe.noisy_share)
        else:
            levels = hold_known(level, batch.known)
        noised = y.shape[-1]
        if recipe.model == JOINT_MODEL:
            levels = noise_one_or_both(levels, num_context, generator=generator, together=recipe.together)
            noised += x.shape[-1]
        eps = torch.randn((*y.shape[:2], noised), generator=generator, device=generator.device)
        values = x.float(), y.float(), levels.float(), eps
        answer = None
        if recipe.expected:
            level = values[2].double()
            y_t = alpha(level)[..., None] * y + sigma(level)[..., None] * eps
            answer = batch.expected(y_t, level).float()
        every = StepInputs(*values, batch.mask_if_needed, num_context, batch.independent, batch.of_function, answer)
        return [every.map(itemgetter(slice(start, start + recipe.batch))) for start in range(0, len(x), recipe.batch)]


def seed_of(seed: int, rank: int, chunk: int) -> int:
    """Independent seeds for every rank and chunk."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{rank}/{chunk}".encode()).digest()[:7])
