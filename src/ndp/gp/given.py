"""Exact Gaussian processes and their mixtures given facts: constrained GPs."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.arrays import Context, Form, read_observation_noise
from ndp.facts.base import Fact
from ndp.facts.law import Law
from ndp.facts.posterior import PARTICLES, GivenPosterior, PosteriorBeneath, nothing_observed

__all__ = ["HasGiven", "nothing_observed"]


class HasGiven:
    """A posterior of Gaussians, with `given`."""

    _context: Context
    _form: Form

    @abstractmethod
    def _weighted_parts(self) -> tuple[Float[Tensor, "K"], Sequence[Any]]:
        """The Gaussian posteriors of one task, and their log-weights."""

    def given(self, *facts: Fact, num_particles: int = PARTICLES) -> GivenPosterior:
        """The posterior given facts of `ndp.facts` about the function: exact in the limit of particles."""
        return GivenPosterior(_Gaussians(self), facts, num_particles)


@final
class _Gaussians(PosteriorBeneath):
    """The Gaussians beneath facts."""

    separates_noise = True

    def __init__(self, posterior: HasGiven) -> None:
        self._posterior = posterior

    def context_and_form(self) -> tuple[Context, Form]:
        return self._posterior._context, self._posterior._form

    def reads_noise(self, observation_noise: bool | None) -> bool:
        return read_observation_noise(observation_noise, separates_noise=True)

    @torch.no_grad()
    def beneath(self, places: Float[Tensor, "P D"], more: Float[Tensor, "M D"], noisy: bool) -> Law:
        log_weight, parts = self._posterior._weighted_parts()
        every = torch.cat([places, more])[None]
        means, covariances = [], []
        for part in parts:
            mean, covariance = part.gaussian(every, observation_noise=False)
            if noisy:
                left = part.least_variance(True) - part.least_variance(False)
                again = torch.arange(every.shape[1], device=covariance.device) >= len(places)
                covariance = covariance + torch.diag(left * again)
            means.append(mean[0, :, 0].cpu())
            covariances.append(covariance[0].cpu())
        return Law(log_weight.cpu(), torch.stack(means), torch.stack(covariances))
