"""Gaussian processes with unknown hyperparameters, on a grid of them: exact, and in the form of every other process."""

import math
from collections.abc import Callable, Sequence
from typing import final

import gpytorch
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
    read_observation_noise,
    read_probabilities,
    read_values,
)
from ndp.core.randomness import normal
from ndp.core.statistics import HasMoments
from ndp.core.typing import Array, Moments
from ndp.facts.base import Fact
from ndp.facts.posterior import PARTICLES, GivenPosterior
from ndp.gp.exact import GP, GPPosterior
from ndp.gp.given import HasGiven, nothing_observed


@final
class GPMixture:
    """A function is a draw of one of K Gaussian processes, picked with probability `weights`."""

    num_outputs = 1

    def __init__(self, gps: Sequence[GP], weights: Float[Tensor, "K"]) -> None:
        if not gps or len(gps) != len(weights):
            raise ValueError(f"every process needs a weight: there are {len(gps)} and {len(weights)}")
        if bool((weights < 0).any()) or not weights.sum() > 0:
            raise ValueError("weights must not be negative, nor all zero")
        self.gps = tuple(gps)
        self.weights = (weights / weights.sum()).double()

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws of the prior at `x`: [S B N P]."""
        inputs = read_inputs(x, input_dims=None, device=self.gps[0].device)
        form = form_of_inputs(x, self.num_outputs)
        prior = GPMixturePosterior(self, empty_context(inputs, self.num_outputs), form)
        return prior.sample(x, num_samples, joint=joint, observation_noise=observation_noise, generator=generator)

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "GPMixturePosterior":
        """The posterior: every process given the context, weighed by how likely it makes it."""
        context, form = read_context(x, y, noise, mask, num_outputs=1, input_dims=None, device=self.gps[0].device)
        return GPMixturePosterior(self, context, form)

    def given(self, *facts: Fact, num_particles: int = PARTICLES) -> GivenPosterior:
        """The prior given facts of `ndp.facts`."""
        return self.condition(*nothing_observed(facts)).given(*facts, num_particles=num_particles)


@final
class GPMixturePosterior(HasGiven, HasMoments):
    """A mixture of Gaussian posteriors. `log_weights` are those of the processes given the context."""

    def __init__(self, mixture: GPMixture, context: Context, form: Form) -> None:
        self._context = context
        self._form = form
        self._parts = [GPPosterior(gp, context, form) for gp in mixture.gps]
        evidence = torch.stack([part.log_evidence() for part in self._parts], dim=-1)
        self.log_weights: Float[Tensor, "B K"] = torch.log_softmax(mixture.weights.log() + evidence, dim=-1)

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws at `x`, [S B M P]: each of one of the processes or, with `joint=False`, every value of its own."""
        noisy = _noisy(observation_noise)
        inputs = read_inputs_for(self._context, x)
        tasks, points = inputs.shape[:2]
        size = points + (1 if joint else points)  # the last numbers of a draw pick its processes
        noise = normal((check_num_samples(num_samples), tasks, size, 1), generator, like=inputs)
        draws, place = noise[:, :, :points].clone(), torch.special.ndtr(noise[:, :, points:, 0])
        place = place[..., 0] if joint else place
        ends = self.log_weights.exp().cumsum(-1)[:, :-1].contiguous()
        by_task = place.transpose(0, 1)
        picked = torch.searchsorted(ends, by_task.flatten(1).contiguous()).reshape(by_task.shape).transpose(0, 1)
        for index, part in enumerate(self._parts):
            chosen = (picked == index).nonzero(as_tuple=True)
            if not len(chosen[0]):
                continue
            if joint:
                mean, root = part.gaussian_root(inputs, observation_noise=noisy)
                draws[chosen] = mean[chosen[1]] + root[chosen[1]] @ draws[chosen]
            else:
                mean, variance = part.marginals(inputs, observation_noise=noisy)
                draws[chosen] = mean[chosen[1:]] + variance[chosen[1:]].clamp(min=0).sqrt() * draws[chosen]
        return self._form.give(draws if num_samples is not None else draws[0])

    def moments(self, x: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Moments:
        """Exact mean and standard deviation; the same for `joint` and independent values."""
        return self._moments(*self._marginals(x, observation_noise))

    def quantiles(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> Array:
        """Quantiles at every point, [Q B M P], by bisection."""
        return self._quantiles(probabilities, *self._marginals(x, observation_noise))

    def summary(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> tuple[Moments, Array]:
        """Moments and quantiles at every point."""
        marginals = self._marginals(x, observation_noise)
        return self._moments(*marginals), self._quantiles(probabilities, *marginals)

    def log_prob(
        self, x: Array, y: Array, *, joint: bool = True, observation_noise: bool | None = None, noise: float = 0.0
    ) -> Array:
        """Exact log-density of `y` at `x` in nats: [B] together, or with `joint=False` [B M P] of each value by itself.

        `noise` is a standard deviation with which `y` was observed, on top of the processes' own.
        """
        inputs = read_inputs_for(self._context, x)
        values = read_values(y, "y", inputs, num_outputs=1, batched=self._form.batched)
        if joint:
            noisy = _noisy(observation_noise)
            each = [part.log_prob_of(inputs, values, noise, observation_noise=noisy) for part in self._parts]
            return self._form.give_per_task(torch.logsumexp(self.log_weights + torch.stack(each, dim=-1), dim=-1))
        weights, means, stds = self._marginals(x, observation_noise)
        each_value = torch.distributions.Normal(means, (stds**2 + noise**2).sqrt()).log_prob(values.to(means))
        return self._form.give(torch.logsumexp(weights.log() + each_value, dim=0))

    def _weighted_parts(self) -> tuple[Float[Tensor, "K"], list[GPPosterior]]:
        return self.log_weights[0], self._parts

    def _moments(self, weights: Tensor, means: Tensor, stds: Tensor) -> Moments:
        mean = (weights * means).sum(0)
        variance = (weights * (stds**2 + (means - mean) ** 2)).sum(0)
        return Moments(self._form.give(mean), self._form.give(variance.sqrt()))

    def _quantiles(self, probabilities: Sequence[float], weights: Tensor, means: Tensor, stds: Tensor) -> Array:
        asked = read_probabilities(probabilities, means)[:, None, None, None]
        low = (means - 9 * stds).amin(0).expand(len(asked), *means.shape[1:])
        high = (means + 9 * stds).amax(0).expand(len(asked), *means.shape[1:])
        for _ in range(60):
            middle = (low + high) / 2
            below = (weights[:, None] * torch.special.ndtr((middle - means[:, None]) / stds[:, None])).sum(0)
            low, high = torch.where(below < asked, middle, low), torch.where(below < asked, high, middle)
        return self._form.give((low + high) / 2)

    def _marginals(self, x: Array, observation_noise: bool | None) -> tuple[Tensor, Tensor, Tensor]:
        """Weights [K B 1 1], means and standard deviations [K B M 1]."""
        inputs, noisy = read_inputs_for(self._context, x), _noisy(observation_noise)
        each = [part.marginals(inputs, observation_noise=noisy) for part in self._parts]
        means = torch.stack([mean for mean, _ in each])
        stds = torch.stack([variance.clamp(min=0).sqrt() for _, variance in each])
        return self.log_weights.exp().T[..., None, None], means, stds


def _noisy(observation_noise: bool | None) -> bool:
    return read_observation_noise(observation_noise, separates_noise=True)


def log_normal_lengthscales(
    kernel: Callable[[], gpytorch.kernels.Kernel], *, median: float, log_std: float, noise: float, nodes: int = 60
) -> tuple[GPMixture, Float[Tensor, "{nodes}"]]:
    """GPs whose lengthscale is log-normal about `median`, on `nodes` of them that are even on a log scale, and these.

    The nodes reach 3.5 standard deviations to either side.
    """
    place = torch.linspace(-3.5, 3.5, nodes, dtype=torch.float64)
    lengthscales = torch.exp(math.log(median) + log_std * place)
    gps = []
    for lengthscale in lengthscales.tolist():
        made = kernel().double()
        made.lengthscale = lengthscale
        gps.append(GP(made, noise=noise))
    return GPMixture(gps, torch.exp(-(place**2) / 2)), lengthscales
