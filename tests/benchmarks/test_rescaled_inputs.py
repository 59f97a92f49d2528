"""A process in another unit of x: rescaling the inputs of a Gaussian process rescales its lengthscale."""

import gpytorch
import numpy as np
import torch

import ndp
from benchmarks.rescaled_inputs import RescaledInputs
from ndp.gp.exact import GP


def squared_exponential(lengthscale: float) -> GP:
    kernel = gpytorch.kernels.RBFKernel()
    kernel.lengthscale = lengthscale
    return GP(kernel, noise=0.05)


def test_a_gaussian_process_of_rescaled_inputs_has_a_rescaled_lengthscale() -> None:
    rescaled, expected = RescaledInputs(squared_exponential(0.25), 2.0), squared_exponential(0.5)
    assert isinstance(rescaled, ndp.Process)
    x, y, at = np.array([[-0.4], [0.3]]), np.array([0.5, -1.0]), np.array([[0.0], [0.9]])
    ours, exact = (process.condition(x, y, noise=0.1) for process in (rescaled, expected))
    assert isinstance(ours, ndp.Posterior)
    for mine, true in zip(ours.moments(at), exact.moments(at), strict=True):
        np.testing.assert_allclose(mine, true, rtol=1e-5)  # GPyTorch keeps lengthscales in float32
    np.testing.assert_allclose(ours.quantiles(at, [0.1, 0.9]), exact.quantiles(at, [0.1, 0.9]), rtol=1e-5)
    np.testing.assert_allclose(ours.log_prob(at, y), exact.log_prob(at, y), rtol=1e-5)
    for one, other in ((ours, exact), (rescaled, expected)):
        mine, true = (process.sample(at, 3, generator=torch.Generator().manual_seed(0)) for process in (one, other))
        np.testing.assert_allclose(mine, true, rtol=1e-5)


def test_all_options_reach_the_process() -> None:
    rescaled, expected = RescaledInputs(squared_exponential(0.25), 2.0), squared_exponential(0.5)
    x, y, at = np.array([[-0.4], [0.3]]), np.array([0.5, -1.0]), np.array([[0.0], [0.9]])
    ours, exact = (process.condition(x, y) for process in (rescaled, expected))
    independent = {"joint": False, "observation_noise": True}
    np.testing.assert_allclose(ours.std(at, **independent), exact.std(at, **independent), rtol=1e-5)
    np.testing.assert_allclose(ours.log_prob(at, y, **independent), exact.log_prob(at, y, **independent), rtol=1e-5)
    (mine, _), quantiles = ours.summary(at, [0.2], **independent)
    (true, _), true_quantiles = exact.summary(at, [0.2], **independent)
    np.testing.assert_allclose(mine, true, rtol=1e-5)
    np.testing.assert_allclose(quantiles, true_quantiles, rtol=1e-5)
    for one, other in ((ours, exact), (rescaled, expected)):
        drawn, truly = (
            process.sample(at, 3, **independent, generator=torch.Generator().manual_seed(0)) for process in (one, other)
        )
        np.testing.assert_allclose(drawn, truly, rtol=1e-5)
