"""The exact Gaussian process on any GPyTorch kernel, in the form of every other process here."""

import math
from collections.abc import Sequence
from copy import deepcopy
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
from ndp.gp.given import HasGiven, nothing_observed


@final
class GP:
    """y = f + e with f ~ GP(0, kernel) and e ~ N(0, noise^2) independent at every point; all algebra in float64.

    Observations `y` are conditioned on. What is sampled and scored is the function `f`, or with `observation_noise=True` new
    observations. `jitter` is the least variance on the diagonal: a noise-free kernel needs a little.
    """

    num_outputs = 1

    def __init__(self, kernel: gpytorch.kernels.Kernel, *, noise: float = 0.0, jitter: float = 1e-8) -> None:
        if noise < 0:
            raise ValueError(f"noise is a standard deviation and cannot be negative: {noise}")
        self.kernel = deepcopy(kernel).double().requires_grad_(False)
        self.noise = noise
        self.jitter = jitter

    @property
    def device(self) -> torch.device:
        return next((p.device for p in self.kernel.parameters()), torch.device("cpu"))

    def to(self, device: torch.device) -> "GP":
        """The same process with its kernel on `device`."""
        moved = GP(self.kernel, noise=self.noise, jitter=self.jitter)
        moved.kernel.to(device)
        return moved

    def covariance(self, x: Float[Tensor, "B N D"], *, observation_noise: bool = True) -> Float[Tensor, "B N N"]:
        """Covariance of observations at `x`, or of the function."""
        covariance = self.cross_covariance(x, x)
        floor = self.least_variance(observation_noise)
        return covariance + floor * torch.eye(x.shape[-2], dtype=covariance.dtype, device=covariance.device)

    def least_variance(self, observation_noise: bool) -> float:
        """What is added to the variance of the kernel: observation noise, and no less than the jitter."""
        return max(self.noise**2, self.jitter) if observation_noise else self.jitter

    def cross_covariance(self, x: Float[Tensor, "B N D"], z: Float[Tensor, "B M D"]) -> Float[Tensor, "B N M"]:
        """Covariance of `f` at `x` with `f` at `z`."""
        if 0 in (x.shape[-2], z.shape[-2]):
            return x.new_zeros(*x.shape[:-1], z.shape[-2], dtype=torch.float64)
        return self.kernel(x.double(), z.double()).to_dense()

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
        inputs = read_inputs(x, input_dims=None, device=self.device)
        form = form_of_inputs(x, self.num_outputs)
        prior = GPPosterior(self, empty_context(inputs, self.num_outputs), form)
        return prior.sample(x, num_samples, joint=joint, observation_noise=observation_noise, generator=generator)

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "GPPosterior":
        """The posterior given `y` at `x`; `noise` comes on top of the observation noise that the process has by itself."""
        context, form = read_context(x, y, noise, mask, num_outputs=1, input_dims=None, device=self.device)
        return GPPosterior(self, context, form)

    def given(self, *facts: Fact, num_particles: int = PARTICLES) -> GivenPosterior:
        """The prior given facts of `ndp.facts`."""
        return self.condition(*nothing_observed(facts)).given(*facts, num_particles=num_particles)


@final
class GPPosterior(HasGiven, HasMoments):
    """A GP given a context: Gaussian, in closed form."""

    def __init__(self, gp: GP, context: Context, form: Form) -> None:
        self._gp = gp
        self._context = context
        self._form = form
        real = context.mask
        # A masked point becomes a unit-variance variable of its own, seen at zero and related to nothing.
        covariance = gp.covariance(context.x) * (real[:, :, None] & real[:, None, :])
        diagonal = torch.where(real, context.noise**2, 1.0)
        self._cholesky = _cholesky(covariance + torch.diag_embed(diagonal), "context", gp.jitter)
        self._weights = torch.cholesky_solve(context.y, self._cholesky)

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws at `x`: [S B M P]; coherent functions, or with `joint=False` every value by itself."""
        count, noisy = check_num_samples(num_samples), _noisy(observation_noise)
        inputs = read_inputs_for(self._context, x)
        noise = normal((count, *inputs.shape[:2], 1), generator, like=inputs)
        if joint:
            mean, root = self.gaussian_root(inputs, observation_noise=noisy)
            draws = mean + root @ noise
        else:
            mean, variance = self.marginals(inputs, observation_noise=noisy)
            draws = mean + variance.sqrt() * noise
        return self._form.give(draws if num_samples is not None else draws[0])

    def moments(self, x: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Moments:
        """Exact mean and standard deviation; the same for `joint` and independent values."""
        return self.summary(x, (), joint=joint, observation_noise=observation_noise)[0]

    def quantiles(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> Array:
        """Exact quantiles at every point: [Q B M P]."""
        asked = read_probabilities(probabilities, torch.zeros((), dtype=torch.float64))
        return self.summary(x, asked.tolist(), joint=joint, observation_noise=observation_noise)[1]

    def summary(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> tuple[Moments, Array]:
        """Exact moments and quantiles at every point."""
        noisy = _noisy(observation_noise)
        mean, variance = self.marginals(read_inputs_for(self._context, x), observation_noise=noisy)
        std = variance.clamp(min=0).sqrt()
        z = torch.special.ndtri(read_probabilities(probabilities, mean)) if len(probabilities) else mean.new_zeros(0)
        quantiles = mean + z[:, None, None, None] * std
        return Moments(self._form.give(mean), self._form.give(std)), self._form.give(quantiles)

    def log_prob(
        self, x: Array, y: Array, *, joint: bool = True, observation_noise: bool | None = None, noise: float = 0.0
    ) -> Array:
        """Exact log-density of `y` at `x` in nats: [B] together, or with `joint=False` [B M P] of each value by itself.

        `noise` is a standard deviation with which `y` was observed, on top of the process's own.
        """
        inputs = read_inputs_for(self._context, x)
        values = read_values(y, "y", inputs, num_outputs=1, batched=self._form.batched)
        noisy = _noisy(observation_noise)
        if joint:
            return self._form.give_per_task(self.log_prob_of(inputs, values, noise, observation_noise=noisy))
        mean, variance = self.marginals(inputs, observation_noise=noisy)
        return self._form.give(torch.distributions.Normal(mean, (variance + noise**2).sqrt()).log_prob(values))

    def log_evidence(self) -> Float[Tensor, "B"]:
        """Log-density of the context under the prior, in nats."""
        real = self._context.mask.sum(1)
        squares = (self._context.y * self._weights).sum((1, 2))
        volume = 2 * self._cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return -(squares + volume + real * math.log(2 * math.pi)) / 2

    def gaussian(
        self, x: Float[Tensor, "B M D"], *, observation_noise: bool
    ) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M M"]]:
        """Mean and covariance of the values at `x`, jointly."""
        mean, half = self._given(x)
        return mean, self._gp.covariance(x, observation_noise=observation_noise) - half.mT @ half

    def marginals(
        self, x: Float[Tensor, "B M D"], *, observation_noise: bool
    ) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M 1"]]:
        """Mean and variance of every value by itself, at many points."""
        mean, half = self._given(x)
        prior = self._gp.kernel(x.double(), diag=True) + self._gp.least_variance(observation_noise)
        return mean, (prior - half.square().sum(-2))[..., None]

    def gaussian_root(
        self, x: Float[Tensor, "B M D"], *, observation_noise: bool
    ) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M M"]]:
        """Mean and Cholesky factor of the covariance."""
        mean, covariance = self.gaussian(x, observation_noise=observation_noise)
        return mean, _cholesky(covariance, "targets", self._gp.jitter)

    def log_prob_of(
        self, x: Float[Tensor, "B M D"], y: Float[Tensor, "B M 1"], noise: float = 0.0, *, observation_noise: bool
    ) -> Float[Tensor, "B"]:
        """`log_prob` of values that have all their axes."""
        mean, covariance = self.gaussian(x, observation_noise=observation_noise)
        return gaussian_log_prob(y, mean, covariance + noise**2 * torch.eye(x.shape[1]).to(covariance))

    def least_variance(self, observation_noise: bool) -> float:
        """What is added to the variance of the kernel."""
        return self._gp.least_variance(observation_noise)

    def _weighted_parts(self) -> tuple[Float[Tensor, "1"], "list[GPPosterior]"]:
        return torch.zeros(1, dtype=torch.float64), [self]

    def _given(self, x: Float[Tensor, "B M D"]) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B C M"]]:
        """The mean at `x`, and the part of the prior covariance that the context explains, as a root."""
        cross = self._gp.cross_covariance(self._context.x, x) * self._context.mask[:, :, None]
        return cross.mT @ self._weights, torch.linalg.solve_triangular(self._cholesky, cross, upper=False)


def _noisy(observation_noise: bool | None) -> bool:
    return read_observation_noise(observation_noise, separates_noise=True)


def gaussian_log_prob(
    y: Float[Tensor, "B M 1"], mean: Float[Tensor, "B M 1"], covariance: Float[Tensor, "B M M"]
) -> Float[Tensor, "B"]:
    """log N(y; mean, covariance)."""
    root = _cholesky(covariance, "targets", 0.0)
    return torch.distributions.MultivariateNormal(mean[..., 0], scale_tril=root).log_prob(y[..., 0])


class ScaledToDimension(gpytorch.kernels.Kernel):
    """The kernel `base` on inputs divided by a power of D: one lengthscale for any number of input dimensions.

    With lengthscale 1/4 and the root of D it is the paper's choice of sqrt(D) / 4.
    """

    def __init__(self, base: gpytorch.kernels.Kernel, *, power: float = 0.5) -> None:
        super().__init__()
        self.base, self.power = base, power

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: object) -> Tensor:
        scale = x1.shape[-1] ** -self.power
        return self.base.forward(x1 * scale, x2 * scale, diag=diag, **params)


def _cholesky(covariance: Float[Tensor, "B N N"], what: str, jitter: float) -> Float[Tensor, "B N N"]:
    root, info = torch.linalg.cholesky_ex(covariance)
    failed = info > 0
    if bool(failed.any()):
        if not bool(torch.isfinite(covariance).all()):
            raise ValueError(f"the kernel gives NaN or infinity at the {what}")
        below_zero = torch.linalg.eigvalsh(covariance[failed])[..., 0].min().clamp(max=0).abs().item()
        raise ValueError(
            f"the covariance of the {what} is not positive definite: its smallest eigenvalue is {-below_zero:.2g}. Two "
            f"inputs are the same or nearly so, or the kernel is not a covariance. A jitter of "
            f"{max(2 * below_zero, 10 * jitter, 1e-10):.1g} would help (it is {jitter:g}), or more noise"
        )
    return root
