"""BoTorch's `SingleTaskGP`, fitted anew to every context, in the form of every other process. It needs the extra `botorch`."""

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
    read_probabilities,
    read_values,
)
from ndp.core.randomness import normal
from ndp.core.typing import Array, Moments
from ndp.gp.exact import gaussian_log_prob


@final
class RefittedGP:
    """`SingleTaskGP` as it is, its hyperparameters fitted by `fit_gpytorch_mll` whenever it is conditioned.

    Inputs are mapped from `domain` to the unit box, where its priors of hyperparameters belong. Draws are of the function,
    without the observation noise. With nothing observed there is nothing to fit, and no prior to draw from.
    """

    num_outputs = 1

    def __init__(self, *, domain: tuple[float, float] = (-1.0, 1.0), device: torch.device | str = "cpu") -> None:
        self.domain = domain
        self.device = torch.device(device)

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        """Draws with nothing observed, which this process refuses."""
        inputs = read_inputs(x, input_dims=None, device=self.device)
        empty = RefittedGPPosterior(self, empty_context(inputs, 1), form_of_inputs(x, 1))
        return empty.sample(x, num_samples, generator=generator)

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "RefittedGPPosterior":
        """Fit to `y` at `x`, each task by itself; the noise of observations is fitted too, and cannot be told."""
        context, form = read_context(x, y, noise, mask, num_outputs=1, input_dims=None, device=self.device)
        if bool((context.noise > 0).any()):
            raise ValueError("a refitted GP estimates the noise of its observations: it cannot be told")
        return RefittedGPPosterior(self, context, form)


@final
class RefittedGPPosterior:
    """A fitted GP for every task, given its context."""

    def __init__(self, process: RefittedGP, context: Context, form: Form) -> None:
        if not bool(context.mask.any(1).all()):
            raise ValueError("a refitted GP needs at least one observation")
        self._context = context
        self._form = form
        tasks = zip(context.x, context.y, context.mask, strict=True)
        self._fitted = [_fit(x[real], y[real], process.domain) for x, y, real in tasks]

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        """Coherent draws at `x`: [S B M P]."""
        count = check_num_samples(num_samples)
        inputs = read_inputs_for(self._context, x)
        noise = normal((count, *inputs.shape[:2], 1), generator, like=inputs)
        size = torch.Size((count,))
        with torch.no_grad(), _in_silence():
            drawn = [
                model.posterior(at).rsample_from_base_samples(size, noise[:, task, :, 0])
                for task, (model, at) in enumerate(zip(self._fitted, inputs, strict=True))
            ]
        draws = torch.stack(drawn, dim=1)
        return self._form.give(draws if num_samples is not None else draws[0])

    def moments(self, x: Array) -> Moments:
        """Exact mean and standard deviation."""
        mean, covariance = self._gaussian(read_inputs_for(self._context, x))
        return Moments(self._form.give(mean), self._form.give(_std(covariance)))

    def quantiles(self, x: Array, probabilities: Sequence[float]) -> Array:
        """Exact quantiles at every point: [Q B M P]."""
        mean, covariance = self._gaussian(read_inputs_for(self._context, x))
        z = torch.special.ndtri(read_probabilities(probabilities, mean))
        return self._form.give(mean + z[:, None, None, None] * _std(covariance))

    def log_prob(self, x: Array, y: Array) -> Array:
        """Joint log-density of `y` at `x` in nats, [B]."""
        inputs = read_inputs_for(self._context, x)
        values = read_values(y, "y", inputs, num_outputs=1, batched=self._form.batched)
        return self._form.give_per_task(gaussian_log_prob(values, *self._gaussian(inputs)))

    @torch.no_grad()
    def _gaussian(self, x: Float[Tensor, "B M D"]) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M M"]]:
        with _in_silence():
            laws = [model.posterior(at).distribution for model, at in zip(self._fitted, x, strict=True)]
        covariance = torch.stack([law.covariance_matrix for law in laws])
        return torch.stack([law.mean for law in laws])[..., None], covariance + 1e-8 * torch.eye(x.shape[1]).to(x)


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
