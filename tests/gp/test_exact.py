"""The exact GP against textbook formulas, and scikit-learn's implementation of them."""

import re

import gpytorch
import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern

from ndp.gp.exact import GP, ScaledToDimension
from ndp.gp.named import regression_gp


def data(dim: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (8, dim))
    return x, np.sin(x.sum(1)), rng.uniform(-2, 2, (6, dim))


@pytest.mark.parametrize("kernel", ["se", "matern52"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_posterior_equals_scikit_learns(kernel: str, dim: int) -> None:
    """Also checks the paper's lengthscale of sqrt(D) / 4."""
    x, y, x_new = data(dim)
    lengthscale = dim**0.5 / 4
    reference = RBF(lengthscale) if kernel == "se" else Matern(lengthscale, nu=2.5)
    regressor = GaussianProcessRegressor(reference, alpha=0.05**2, optimizer=None).fit(x, y)
    mean, covariance = regressor.predict(x_new, return_cov=True)
    gp = regression_gp(kernel)
    posterior = gp.condition(x, y)
    values = torch.linspace(-1, 1, 6, dtype=torch.float64)
    for observation_noise, variance in ((None, gp.jitter), (False, gp.jitter), (True, 0.05**2)):
        ours = posterior.moments(x_new, observation_noise=observation_noise)
        np.testing.assert_allclose(ours.mean, mean, atol=1e-8)
        np.testing.assert_allclose(ours.std, np.sqrt(np.diag(covariance) + variance), atol=1e-8)
        joint = torch.distributions.MultivariateNormal(
            torch.as_tensor(mean), torch.as_tensor(covariance) + variance * torch.eye(6, dtype=torch.float64)
        )
        found = posterior.log_prob(x_new, values.numpy(), observation_noise=observation_noise)
        assert found == pytest.approx(joint.log_prob(values).item(), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("observation_noise", [False, True])
def test_draws_have_the_posteriors_mean_and_covariance(observation_noise: bool) -> None:
    x, y, x_new = data()
    posterior = GP(ScaledToDimension(gpytorch.kernels.MaternKernel(nu=2.5)), noise=0.5).condition(x, y)
    draws = posterior.sample(
        x_new, 20_000, observation_noise=observation_noise, generator=torch.Generator().manual_seed(0)
    )
    mean, covariance = posterior.gaussian(torch.as_tensor(x_new)[None], observation_noise=observation_noise)
    error = draws.mean(0) - mean[0, :, 0].numpy()
    assert (np.abs(error) < 4.5 * np.sqrt(np.diag(covariance[0]) / 20_000)).all()
    np.testing.assert_allclose(np.cov(draws.T), covariance[0], atol=0.05)


def test_extra_noise_widens_each_observation_by_its_own() -> None:
    """Two observations of one value: their average is weighted by precision."""
    gp = GP(gpytorch.kernels.ConstantKernel(), noise=0.0, jitter=1e-10)
    x, y, noise = np.zeros((2, 1)), np.array([1.0, 3.0]), np.array([0.5, 1.0])
    kernel_variance = gp.cross_covariance(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1)).item()
    precision = 1 / noise**2
    expected = (precision * y).sum() / (precision.sum() + 1 / kernel_variance)
    assert gp.condition(x, y, noise=noise).moments(x).mean == pytest.approx(expected, rel=1e-6)


def test_the_kernel_is_copied_so_that_training_it_later_changes_nothing() -> None:
    kernel = gpytorch.kernels.RBFKernel()
    gp = GP(kernel, noise=0.1)
    before = gp.condition(*data()[:2]).moments(data()[2]).mean
    kernel.lengthscale = 5.0
    np.testing.assert_array_equal(gp.condition(*data()[:2]).moments(data()[2]).mean, before)


def test_quantiles_are_those_of_a_normal() -> None:
    x, y, x_new = data()
    posterior = regression_gp("se").condition(x, y)
    for observation_noise in (False, True):
        mean, std = posterior.moments(x_new, observation_noise=observation_noise)
        quantiles = posterior.quantiles(x_new, [0.025, 0.5], observation_noise=observation_noise)
        np.testing.assert_allclose(quantiles, [mean - 1.959964 * std, mean], atol=1e-6)


def test_a_singular_covariance_is_told_plainly() -> None:
    gp = GP(gpytorch.kernels.RBFKernel(), noise=0.0, jitter=0.0)
    with pytest.raises(ValueError, match=r"not positive definite.*Two inputs are the same or nearly so"):
        gp.condition(np.zeros((2, 1)), np.array([0.0, 1.0]))


class NotACovariance(gpytorch.kernels.Kernel):
    """Distance itself: its matrices have negative eigenvalues."""

    def forward(self, x1, x2, diag=False, **params):
        return self.covar_dist(x1, x2, diag=diag)


def test_for_a_kernel_that_is_not_one_the_jitter_that_would_help_is_named_and_helps() -> None:
    x = np.linspace(-1, 1, 4)[:, None]
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -.*A jitter of") as told:
        GP(NotACovariance()).sample(x, 3)
    jitter = float(re.search(r"jitter of ([\d.e+-]+) would", str(told.value)).group(1))
    assert np.isfinite(GP(NotACovariance(), jitter=jitter).sample(x, 3)).all()


class NotANumber(gpytorch.kernels.Kernel):
    def forward(self, x1, x2, diag=False, **params):
        return self.covar_dist(x1, x2, diag=diag) * float("nan")


def test_a_kernel_that_gives_nan_is_told_so() -> None:
    with pytest.raises(ValueError, match="NaN"):
        GP(NotANumber()).sample(np.zeros((3, 1)), 2)


def test_negative_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be negative"):
        GP(gpytorch.kernels.RBFKernel(), noise=-0.1)


def test_scaled_kernel_divides_inputs_by_the_root_of_the_dimension() -> None:
    base = gpytorch.kernels.RBFKernel()
    x = torch.rand(5, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ScaledToDimension(base)(x).to_dense(), base(x / 2).to_dense())


def test_marginals_are_the_diagonal_of_the_joint_law() -> None:
    gp = regression_gp("matern52")
    x = torch.linspace(-1, 1, 4, dtype=torch.float64)[None, :, None]
    posterior = gp.condition(x, x**2, mask=torch.tensor([[True, True, False, True]]))
    at = torch.linspace(-2, 2, 9, dtype=torch.float64)[None, :, None]
    for observation_noise in (False, True):
        mean, variance = posterior.marginals(at, observation_noise=observation_noise)
        expected, covariance = posterior.gaussian(at, observation_noise=observation_noise)
        torch.testing.assert_close(mean, expected)
        torch.testing.assert_close(variance[..., 0], covariance.diagonal(dim1=-2, dim2=-1))
