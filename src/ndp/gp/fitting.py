"""Gaussian processes fitted to one function: the point estimate that most users of GPs work with."""

import warnings
from collections.abc import Sequence
from copy import deepcopy
from operator import itemgetter

import gpytorch
import torch
from jaxtyping import Float
from torch import Tensor

from ndp.gp.exact import GP


def fit_gp(
    kernel: gpytorch.kernels.Kernel,
    x: Float[Tensor, "C D"],
    y: Float[Tensor, "C"],
    *,
    noises: Sequence[float] = (1e-3,),
) -> GP:
    """The GP whose kernel and noise have the largest marginal likelihood of `y` at `x`, found by BoTorch's `fit_gpytorch_mll`.

    The fit starts from each of the variances `noises`, and the best counts: a marginal likelihood may have two maxima.
    """
    return max((_fit(kernel, x.double(), y.double(), noise) for noise in noises), key=itemgetter(0))[1]


def _fit(kernel: gpytorch.kernels.Kernel, x: Tensor, y: Tensor, noise: float) -> tuple[float, GP]:
    """The log marginal likelihood of an observation, and its process."""
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP

    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-6))
    likelihood.noise = noise
    with warnings.catch_warnings(action="ignore"):  # BoTorch warns of outcomes that are not standardised
        model = SingleTaskGP(
            *(x, y[:, None]),
            likelihood=likelihood,
            covar_module=deepcopy(kernel).double(),
            mean_module=gpytorch.means.ZeroMean(),
            outcome_transform=None,
        )
        marginal = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(marginal)
        model.train()
        with torch.no_grad():
            reached = marginal(model(*model.train_inputs), model.train_targets).item()
    return reached, GP(model.covar_module, noise=model.likelihood.noise.sqrt().item())
