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
    read_probabilities,
    read_values,
)
from ndp.core.randomness import fresh_generator, normal
from ndp.core.typing import Array, Moments
from ndp.gp.exact import GP, GPPosterior


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

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        """Draws of the prior at `x`: [S B N P]."""
        inputs = read_inputs(x, input_dims=None, device=self.gps[0].device)
        form = form_of_inputs(x, self.num_outputs)
        prior = GPMixturePosterior(self, empty_context(inputs, self.num_outputs), form)
        return prior.sample(x, num_samples, generator=generator)

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "GPMixturePosterior":
        """The posterior: every process given the context, weighed by how likely it makes it."""
        context, form = read_context(x, y, noise, mask, num_outputs=1, input_dims=None, device=self.gps[0].device)
        return GPMixturePosterior(self, context, form)


@final
class GPMixturePosterior:
    """A mixture of Gaussian posteriors. `log_weights` are those of the processes given the context."""

    def __init__(self, mixture: GPMixture, context: Context, form: Form) -> None:
        self._context = context
        self._form = form
        self._parts = [GPPosterior(gp, context, form) for gp in mixture.gps]
        evidence = torch.stack([part.log_evidence() for part in self._parts], dim=-1)
        self.log_weights: Float[Tensor, "B K"] = torch.log_softmax(mixture.weights.log() + evidence, dim=-1)

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        """Coherent draws at `x`, each of one of the processes: [S B M P]."""
        generator = generator or fresh_generator()
        inputs = read_inputs_for(self._context, x)
        draws = normal((check_num_samples(num_samples), *inputs.shape[:2], 1), generator, like=inputs)
        place = torch.rand(draws.shape[:2], generator=generator, dtype=draws.dtype, device=generator.device).to(draws)
        ends = self.log_weights.exp().cumsum(-1)[:, :-1].contiguous()
        picked = torch.searchsorted(ends, place.T.contiguous()).T
        for index, part in enumerate(self._parts):
            draw, task = (picked == index).nonzero(as_tuple=True)
            if len(draw):
                mean, root = part.gaussian_root(inputs)
                draws[draw, task] = mean[task] + root[task] @ draws[draw, task]
        return self._form.give(draws if num_samples is not None else draws[0])

    def moments(self, x: Array) -> Moments:
        """Exact mean and standard deviation."""
        weights, means, stds = self._marginals(x)
        mean = (weights * means).sum(0)
        variance = (weights * (stds**2 + (means - mean) ** 2)).sum(0)
        return Moments(self._form.give(mean), self._form.give(variance.sqrt()))

    def quantiles(self, x: Array, probabilities: Sequence[float]) -> Array:
        """Quantiles at every point, [Q B M P], by halving an interval that holds them."""
        weights, means, stds = self._marginals(x)
        asked = read_probabilities(probabilities, means)[:, None, None, None]
        low = (means - 9 * stds).amin(0).expand(len(asked), *means.shape[1:])
        high = (means + 9 * stds).amax(0).expand(len(asked), *means.shape[1:])
        for _ in range(60):
            middle = (low + high) / 2
            below = (weights[:, None] * torch.special.ndtr((middle - means[:, None]) / stds[:, None])).sum(0)
            low, high = torch.where(below < asked, middle, low), torch.where(below < asked, high, middle)
        return self._form.give((low + high) / 2)

    def log_prob(self, x: Array, y: Array, *, noise: float = 0.0) -> Array:
        """Exact joint log-density of `y` at `x`, in nats, [B], observed with `noise` on top of the process's own."""
        inputs = read_inputs_for(self._context, x)
        values = read_values(y, "y", inputs, num_outputs=1, batched=self._form.batched)
        each = [part.log_prob_of(inputs, values, noise) for part in self._parts]
        return self._form.give_per_task(torch.logsumexp(self.log_weights + torch.stack(each, dim=-1), dim=-1))

    def log_prob_of_each(self, x: Array, y: Array) -> Array:
        """Exact log-density of every value by itself, in nats: [B M P]."""
        weights, means, stds = self._marginals(x)
        values = read_values(y, "y", read_inputs_for(self._context, x), num_outputs=1, batched=self._form.batched)
        each = torch.distributions.Normal(means, stds).log_prob(values.to(means))
        return self._form.give(torch.logsumexp(weights.log() + each, dim=0))

    def _marginals(self, x: Array) -> tuple[Tensor, Tensor, Tensor]:
        """Weights [K B 1 1], means and standard deviations [K B M 1]."""
        inputs = read_inputs_for(self._context, x)
        each = [part.gaussian(inputs) for part in self._parts]
        means = torch.stack([mean for mean, _ in each])
        stds = torch.stack([covariance.diagonal(dim1=-2, dim2=-1).sqrt()[..., None] for _, covariance in each])
        return self.log_weights.exp().T[..., None, None], means, stds


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
