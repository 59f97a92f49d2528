"""A process in another unit of x: a Gaussian process stretched is the one whose lengthscale is stretched."""

import gpytorch
import numpy as np
import torch

import ndp
from benchmarks.stretched import Stretched
from ndp.gp.exact import GP


def squared_exponential(lengthscale: float) -> GP:
    kernel = gpytorch.kernels.RBFKernel()
    kernel.lengthscale = lengthscale
    return GP(kernel, noise=0.05)


def test_a_stretched_gaussian_process_has_a_stretched_lengthscale() -> None:
    stretched, expected = Stretched(squared_exponential(0.25), 2.0), squared_exponential(0.5)
    assert isinstance(stretched, ndp.Process)
    x, y, at = np.array([[-0.4], [0.3]]), np.array([0.5, -1.0]), np.array([[0.0], [0.9]])
    ours, exact = (process.condition(x, y, noise=0.1) for process in (stretched, expected))
    assert isinstance(ours, ndp.Posterior)
    for mine, true in zip(ours.moments(at), exact.moments(at), strict=True):
        np.testing.assert_allclose(mine, true, rtol=1e-5)  # GPyTorch keeps lengthscales in float32
    np.testing.assert_allclose(ours.quantiles(at, [0.1, 0.9]), exact.quantiles(at, [0.1, 0.9]), rtol=1e-5)
    np.testing.assert_allclose(ours.log_prob(at, y), exact.log_prob(at, y), rtol=1e-5)
    for one, other in ((ours, exact), (stretched, expected)):
        mine, true = (process.sample(at, 3, generator=torch.Generator().manual_seed(0)) for process in (one, other))
        np.testing.assert_allclose(mine, true, rtol=1e-5)
