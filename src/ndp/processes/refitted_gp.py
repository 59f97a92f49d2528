"""BoTorch's `SingleTaskGP`, fitted anew to every context, in the form of every other process."""

import warnings
from collections.abc import Sequence
from typing import Any, final

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
    read_target_values,
)
from ndp.core.randomness import normal
from ndp.core.statistics import HasMoments
from ndp.core.typing import Array, Moments
from ndp.gp.exact import gaussian_log_prob


@final
class RefittedGP:
    """`SingleTaskGP` as it is, its hyperparameters fitted by `fit_gpytorch_mll` whenever it is conditioned.

    Inputs are mapped from `domain` to the unit box, where its priors of hyperparameters belong. With nothing observed there is
    nothing to fit, and no prior to draw from.
    """

    num_outputs = 1

    def __init__(self, *, domain: tuple[float, float] = (-1.0, 1.0), device: torch.device | str = "cpu") -> None:
        self.domain = domain
        self.device = torch.device(device)

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws with nothing observed, which this process refuses."""
        inputs = read_inputs(x, input_dims=None, device=self.device)
        empty = RefittedGPPosterior(self, empty_context(inputs, 1), form_of_inputs(x, 1))
        return empty.sample(x, num_samples, joint=joint, observation_noise=observation_noise, generator=generator)

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "RefittedGPPosterior":
        """Fit to `y` at `x`, each task by itself; the noise of observations is fitted too, and cannot be told."""
        context, form = read_context(x, y, noise, mask, num_outputs=1, input_dims=None, device=self.device)
        if bool((context.noise > 0).any()):
            raise ValueError("a refitted GP estimates the noise of its observations: it cannot be told")
        return RefittedGPPosterior(self, context, form)


@final
class RefittedGPPosterior(HasMoments):
    """A fitted GP for every task, given its context."""

    def __init__(self, process: RefittedGP, context: Context, form: Form) -> None:
        if not bool(context.mask.any(1).all()):
            raise ValueError("a refitted GP needs at least one observation")
        self._context = context
        self._form = form
        tasks = zip(context.x, context.y, context.mask, strict=True)
        self._fitted = [_fit(x[real], y[real], process.domain) for x, y, real in tasks]

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws at `x`, [S B M P]: coherent functions or, `joint=False`, every value by itself."""
        count, noisy = check_num_samples(num_samples), _noisy(observation_noise)
        inputs = read_inputs_for(self._context, x)
        noise = normal((count, *inputs.shape[:2], 1), generator, like=inputs)
        if joint:
            size = torch.Size((count,))
            with torch.no_grad(), _in_silence():
                drawn = [
                    model.posterior(at, observation_noise=noisy).rsample_from_base_samples(size, noise[:, task, :, 0])
                    for task, (model, at) in enumerate(zip(self._fitted, inputs, strict=True))
                ]
            draws = torch.stack(drawn, dim=1)
        else:
            mean, covariance = self._gaussian(inputs, noisy)
            draws = mean + _std(covariance) * noise
        return self._form.give(draws if num_samples is not None else draws[0])

    def moments(self, x: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Moments:
        """Exact mean and standard deviation."""
        mean, covariance = self._gaussian(read_inputs_for(self._context, x), _noisy(observation_noise))
        return Moments(self._form.give(mean), self._form.give(_std(covariance)))

    def quantiles(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> Array:
        """Exact quantiles at every point: [Q B M P]."""
        return self.summary(x, probabilities, joint=joint, observation_noise=observation_noise)[1]

    def summary(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> tuple[Moments, Array]:
        """Exact moments and quantiles."""
        mean, covariance = self._gaussian(read_inputs_for(self._context, x), _noisy(observation_noise))
        z, std = torch.special.ndtri(read_probabilities(probabilities, mean)), _std(covariance)
        quantiles = mean + z[:, None, None, None] * std
        return Moments(self._form.give(mean), self._form.give(std)), self._form.give(quantiles)

    def log_prob(self, x: Array, y: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Array:
        """Log-density of `y` at `x` in nats: [B] of all values together, or [B M P] of each by itself."""
        inputs, values = read_target_values(self._context, self._form, x, y)
        mean, covariance = self._gaussian(inputs, _noisy(observation_noise))
        if joint:
            return self._form.give_per_task(gaussian_log_prob(values, mean, covariance))
        return self._form.give(torch.distributions.Normal(mean, _std(covariance)).log_prob(values))

    @torch.no_grad()
    def _gaussian(
        self, x: Float[Tensor, "B M D"], noisy: bool
    ) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M M"]]:
        with _in_silence():
            each = zip(self._fitted, x, strict=True)
            found = [model.posterior(at, observation_noise=noisy).distribution for model, at in each]
        covariance = torch.stack([one.covariance_matrix for one in found])
        return torch.stack([one.mean for one in found])[..., None], covariance + 1e-8 * torch.eye(x.shape[1]).to(x)


def _noisy(observation_noise: bool | None) -> bool:
    return read_observation_noise(observation_noise, separates_noise=True)


def _fit(x: Float[Tensor, "C D"], y: Float[Tensor, "C 1"], domain: tuple[float, float]) -> Any:
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    bounds = torch.tensor(domain, dtype=x.dtype, device=x.device)[:, None].expand(2, x.shape[1])
    with _in_silence():
        model = SingleTaskGP(x, y, input_transform=Normalize(x.shape[1], bounds=bounds), outcome_transform=None)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def _std(covariance: Float[Tensor, "B M M"]) -> Float[Tensor, "B M 1"]:
    return covariance.diagonal(dim1=-2, dim2=-1).sqrt()[..., None]


def _in_silence() -> warnings.catch_warnings:
    """BoTorch tells of outcomes that are not standardised, and of line searches that can do no better."""
    return warnings.catch_warnings(action="ignore")
