"""The Gaussian processes of the paper's experiments, by name."""

from typing import Any

import gpytorch
from torch import Tensor

from ndp.gp.exact import GP, ScaledToDimension
from ndp.gp.mixture import GPMixture, log_normal_lengthscales
from ndp.gp.parameters import (
    LENGTHSCALE,
    LOG_STD_OF_LENGTHSCALE,
    MARGINAL_NOISE,
    MEDIAN_LENGTHSCALE,
    MINIMA_LENGTHSCALE,
    OBSERVATION_NOISE,
    OPTIMISATION_LENGTHSCALE,
    OPTIMISATION_LOG_STD,
    OPTIMISATION_MEDIAN,
    OPTIMISATION_NOISE,
)


def matern32(**options: Any) -> gpytorch.kernels.Kernel:
    """A Matern-3/2 kernel of unit variance; `options` are GPyTorch's."""
    return gpytorch.kernels.MaternKernel(nu=1.5, **options)


def matern52(**options: Any) -> gpytorch.kernels.Kernel:
    """A Matern-5/2 kernel of unit variance; `options` are GPyTorch's."""
    return gpytorch.kernels.MaternKernel(nu=2.5, **options)


KERNELS = {
    "se": gpytorch.kernels.RBFKernel,
    "matern52": matern52,
}


def exact_process(prior: str) -> GP | None:
    """The Gaussian process that a prior is by its name, if it is one."""
    if prior in KERNELS:
        return regression_gp(prior)
    if prior == "minima":
        return minima_gp()
    return optimisation_gp() if prior == "bo-fixed" else None


def regression_gp(kernel: str) -> GP:
    """The paper's data: kernel "se" or "matern52" of lengthscale sqrt(D) / 4 and unit variance, noise 0.05."""
    if kernel not in KERNELS:
        raise ValueError(f"there is no kernel named {kernel!r}; there are: {', '.join(KERNELS)}")
    base = KERNELS[kernel]()
    base.lengthscale = LENGTHSCALE
    return GP(ScaledToDimension(base), noise=OBSERVATION_NOISE)


def optimisation_gp() -> GP:
    """The paper's process for Bayesian optimisation: Matern-5/2 of lengthscale 0.5 in every dimension."""
    kernel = matern52()
    kernel.lengthscale = OPTIMISATION_LENGTHSCALE
    return GP(kernel, noise=OPTIMISATION_NOISE)


def minima_gp() -> GP:
    """Functions with many minima, to be found on [-1, 1]^D: Matern-5/2 of lengthscale 0.15 D, noise 0.05."""
    kernel = matern52()
    kernel.lengthscale = MINIMA_LENGTHSCALE
    return GP(ScaledToDimension(kernel, power=1.0), noise=OBSERVATION_NOISE)


def marginalised_optimisation_gp(nodes: int = 24) -> GPMixture:
    """The same with one lengthscale for all dimensions that is log-normal, on a grid of it."""
    mixture, _ = log_normal_lengthscales(
        matern52, median=OPTIMISATION_MEDIAN, log_std=OPTIMISATION_LOG_STD, noise=OPTIMISATION_NOISE, nodes=nodes
    )
    return mixture


def marginalised_gp(nodes: int = 60) -> tuple[GPMixture, Tensor]:
    """The exact process of the paper's marginalisation experiment, with its lengthscales on a grid, and these."""
    return log_normal_lengthscales(
        matern32, median=MEDIAN_LENGTHSCALE, log_std=LOG_STD_OF_LENGTHSCALE, noise=MARGINAL_NOISE, nodes=nodes
    )
