"""The tools that judge solvers, judged themselves: against a known affine map and against plain sampling."""

import pytest
import torch

from ndp.diffusion.propagation import UncorrelatedNoise, affine_moments, ensemble_moments


def test_affine_moments_reads_off_mean_and_covariance() -> None:
    matrix = torch.tensor([[1.0, 2.0], [0.0, -1.0]], dtype=torch.float64)
    offset = torch.tensor([[0.5], [3.0]], dtype=torch.float64)
    mean, covariance = affine_moments(lambda z: matrix @ z + offset, torch.zeros(1, 2, 1, dtype=torch.float64))
    torch.testing.assert_close(mean, offset[None])
    torch.testing.assert_close(covariance, (matrix @ matrix.T)[None])


def test_an_ensemble_with_uncorrelated_noise_has_the_exact_covariance_of_a_random_walk() -> None:
    noise = UncorrelatedNoise()
    shrink = torch.tensor([[0.9, 0.1], [0.0, 0.5]], dtype=torch.float64)
    y = noise(torch.zeros(8, 1, 2, 1, dtype=torch.float64))
    covariance = torch.eye(2, dtype=torch.float64)
    for _ in range(20):
        y = shrink @ y
        y = y + 0.3 * noise(y)
        covariance = shrink @ covariance @ shrink.T + 0.09 * torch.eye(2, dtype=torch.float64)
    mean, found = ensemble_moments(y)
    torch.testing.assert_close(found[0], covariance)
    torch.testing.assert_close(mean, torch.zeros_like(mean), rtol=0, atol=1e-12)


def test_too_small_an_ensemble_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 7"):
        UncorrelatedNoise()(torch.zeros(7, 1, 3, 1, dtype=torch.float64))
