"""Gaussian processes fitted to one function: the point estimate that most users of GPs work with."""

from copy import deepcopy

import gpytorch
import torch
from jaxtyping import Float
from torch import Tensor

from ndp.gp import GP


class _Regression(gpytorch.models.ExactGP):
    def __init__(self, x: Tensor, y: Tensor, kernel: gpytorch.kernels.Kernel) -> None:
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-6))
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = kernel

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def fit_gp(kernel: gpytorch.kernels.Kernel, x: Float[Tensor, "C D"], y: Float[Tensor, "C"], *, steps: int = 300) -> GP:
    """The GP whose kernel and noise have the greatest marginal likelihood of `y` at `x`, climbed to with GPyTorch and Adam."""
    regression = _Regression(x.double(), y.double(), deepcopy(kernel)).double()
    regression.likelihood.noise = 1e-3
    regression.train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(regression.likelihood, regression)
    optimiser = torch.optim.Adam(regression.parameters(), lr=0.05)
    for _ in range(steps):
        optimiser.zero_grad()
        loss = -marginal(regression(regression.train_inputs[0]), regression.train_targets)
        loss.backward()
        optimiser.step()
    return GP(regression.covar_module, noise=regression.likelihood.noise.sqrt().item())
