"""Fitted Gaussian processes: they find the process that drew the data, and the larger of two maxima."""

import gpytorch
import pytest
import torch

from ndp.gp.fitting import fit_gp
from ndp.gp.named import regression_gp


def test_a_gp_is_fitted_to_its_lengthscale() -> None:
    x = torch.linspace(-2, 2, 60, dtype=torch.float64)[:, None]
    generator = torch.Generator().manual_seed(0)
    y = torch.as_tensor(regression_gp("se").sample(x, observation_noise=True, generator=generator))
    gp = fit_gp(gpytorch.kernels.RBFKernel(), x, y)
    assert gp.kernel.lengthscale.item() == pytest.approx(0.25, rel=0.15)
    assert gp.noise == pytest.approx(0.05, rel=0.35)


def test_of_two_maxima_of_the_marginal_likelihood_the_larger_counts() -> None:
    """Eight values have one maximum with noise 0.05 and one with noise 0.6; each start finds the nearer."""
    generator = torch.Generator().manual_seed(6)
    x = 4 * torch.rand(8, 1, generator=generator).double() - 2
    y = 0.8 * torch.sin(3 * x[:, 0]) + 0.5 * torch.randn(8, generator=generator).double()
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5))
    fits = {noises: fit_gp(kernel, x, y, noises=noises) for noises in ((1e-3,), (0.5,), (1e-3, 0.5))}
    evidence = {
        noises: float(gp.condition(x[:0], y[:0]).log_prob(x, y, observation_noise=True)) for noises, gp in fits.items()
    }
    assert evidence[(0.5,)] > evidence[(1e-3,)] + 0.1
    assert evidence[(1e-3, 0.5)] == evidence[(0.5,)]
