"""Gaussian processes fitted to one function: the point estimate that most users of GPs work with."""

from collections.abc import Sequence
from copy import deepcopy
from operator import itemgetter

import gpytorch
import torch
from jaxtyping import Float
from torch import Tensor

from ndp.gp.exact import GP


class _Regression(gpytorch.models.ExactGP):
    def __init__(self, x: Tensor, y: Tensor, kernel: gpytorch.kernels.Kernel) -> None:
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-6))
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = kernel

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def fit_gp(
    kernel: gpytorch.kernels.Kernel,
    x: Float[Tensor, "C D"],
    y: Float[Tensor, "C"],
    *,
    steps: int = 300,
    noises: Sequence[float] = (1e-3,),
) -> GP:
    """The GP whose kernel and noise have the greatest marginal likelihood of `y` at `x`, climbed to with GPyTorch and Adam.

    The climb starts from each of the variances `noises`, and the highest place that was reached counts.
    """
    return max((_climb(kernel, x.double(), y.double(), steps, noise) for noise in noises), key=itemgetter(0))[1]


def _climb(kernel: gpytorch.kernels.Kernel, x: Tensor, y: Tensor, steps: int, noise: float) -> tuple[float, GP]:
    """The log-likelihood that was reached, an observation, and its process."""
    regression = _Regression(x, y, deepcopy(kernel)).double()
    regression.likelihood.noise = noise
    regression.train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(regression.likelihood, regression)
    optimiser = torch.optim.Adam(regression.parameters(), lr=0.05)
    for _ in range(steps):
        optimiser.zero_grad()
        loss = -marginal(regression(regression.train_inputs[0]), regression.train_targets)
        loss.backward()
        optimiser.step()
    return -loss.item(), GP(regression.covar_module, noise=regression.likelihood.noise.sqrt().item())
