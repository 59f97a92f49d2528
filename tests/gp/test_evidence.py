"""The evidence is that of a multivariate t distribution, its gradient autograd's, its curvature the average information."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_t
from torch import Tensor

from ndp.gp.evidence import (
    FAMILIES,
    IMPOSSIBLE,
    LEAST_NOISE,
    MEAN,
    RATE,
    SHAPE,
    HyperPrior,
    Observations,
    cross_kernels,
    factorise,
    factorise_each,
    slope,
)


def table(tasks: int = 2, points: int = 12, dim: int = 3) -> Observations:
    """Sines with a little noise; in the second task three points are left out."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(tasks, points, dim, dtype=torch.float64, generator=generator)
    y = torch.sin(2 * x[..., 0]) + 0.1 * torch.randn(tasks, points, dtype=torch.float64, generator=generator)
    mask = torch.arange(points).expand(tasks, -1) < points - 3 * torch.arange(tasks)[:, None]
    variance = torch.full_like(y, 0.01)
    variance[:, 0] = 0.2
    return Observations(x.masked_fill(~mask[..., None], 0.0), y.masked_fill(~mask, 0.0), variance, mask)


def some_theta(known: Observations, number: int = 3) -> Tensor:
    shape = len(known.x), len(FAMILIES), number, known.x.shape[-1] + 1
    theta = 0.5 * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    theta[..., -1] -= 2
    return theta


def test_evidence_is_that_of_a_multivariate_t_distribution() -> None:
    known = table()
    theta = some_theta(known)
    found = factorise(known, theta).log_evidence
    for task in range(2):
        real = known.mask[task].numpy()
        x, y = known.x[task].numpy()[real], known.y[task].numpy()[real]
        for family in range(2):
            expected = []
            for one in theta[task, family].numpy():
                r = np.linalg.norm((x[:, None] - x[None]) / np.exp(one[:-1]), axis=-1)
                kernel = np.exp(-(r**2) / 2) if family == 0 else (1 + math.sqrt(3) * r) * np.exp(-math.sqrt(3) * r)
                own = np.exp(2 * one[-1]) + LEAST_NOISE + known.variance[task].numpy()[real]
                shape = (RATE / SHAPE) * (kernel + MEAN + np.diag(own))
                expected.append(multivariate_t(np.zeros(len(x)), shape, df=2 * SHAPE).logpdf(y))
            up_to_a_constant = np.array(expected) - found[task, family].numpy()
            np.testing.assert_allclose(up_to_a_constant, up_to_a_constant[0], rtol=1e-9)


def test_gradients_are_those_of_autograd() -> None:
    known, prior = table(), HyperPrior()
    theta = some_theta(known)
    traced = theta.clone().requires_grad_()
    value = factorise(known, traced).log_evidence + prior.log_prob(traced)
    (expected,) = torch.autograd.grad(value.sum(), traced)
    found = slope(known, prior, theta)
    torch.testing.assert_close(found.value, value.detach())
    torch.testing.assert_close(found.gradient, expected, rtol=1e-8, atol=1e-8)


def test_curvature_is_the_average_of_observed_and_expected_information_of_a_linear_covariance() -> None:
    """Of the noise's variance alone, in which K is linear, if all else is the same: by second differences and by traces."""
    known, prior = table(tasks=1), HyperPrior()
    theta = some_theta(known, number=1)
    found = slope(known, prior, theta)
    noise = torch.exp(2 * theta[..., -1])
    count = known.mask.sum()
    for family in range(2):
        factors = factorise(known, theta)
        root = factors.root[0, family, 0]
        inverse = torch.cholesky_inverse(root)
        solved = inverse @ known.y[0]
        gain = (SHAPE + count / 2) / (RATE + factors.size[0, family, 0] / 2)
        moved = 2 * noise[0, family, 0] * solved  # dK s by the logarithm of n
        whole = 0.5 * gain * (moved @ inverse @ moved - gain / (count + 2 * SHAPE) * (solved @ moved) ** 2)
        expected = whole + 1 / prior.noise_spread**2
        torch.testing.assert_close(found.curvature[0, family, 0, -1, -1], expected)
    assert (torch.linalg.eigvalsh(found.curvature) > 0).all()


@pytest.mark.parametrize("dim", [1, 4])
def test_the_prior_is_a_normal_density(dim: int) -> None:
    prior = HyperPrior()
    like = torch.zeros(1, dtype=torch.float64)
    precision = prior.precision(dim, like)
    covariance = torch.linalg.inv(precision)
    torch.testing.assert_close(covariance[0, 0].item(), prior.own**2 + prior.shared**2)
    if dim > 1:
        torch.testing.assert_close(covariance[0, 1].item(), prior.shared**2)
    theta = torch.randn(5, dim + 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    law = torch.distributions.MultivariateNormal(prior.mean(dim, like), precision_matrix=precision)
    torch.testing.assert_close(prior.log_prob(theta), law.log_prob(theta))


def test_kernels_chosen_by_data_are_those_of_their_families() -> None:
    known = table()
    theta = some_theta(known)
    family = torch.arange(2)[:, None].expand(2, 2, 3).flatten(1)
    each = factorise_each(known, theta.flatten(1, 2), family)
    for found, expected in zip(vars(each).values(), vars(factorise(known, theta)).values(), strict=True):
        torch.testing.assert_close(found, expected.flatten(1, 2))
    prior = cross_kernels(known.x[:1, :1], known.x[:1, :1], theta[:1].flatten(1, 2), family[:1])
    torch.testing.assert_close(prior, torch.full_like(prior, 1 + MEAN))


def test_what_cannot_be_factorised_is_impossible_and_finite() -> None:
    known = table()
    broken = Observations(known.x, known.y, torch.full_like(known.variance, -5.0), known.mask)
    found = factorise(broken, some_theta(known))
    assert (found.log_evidence == IMPOSSIBLE).all()
    assert found.white.isfinite().all()
    assert slope(broken, HyperPrior(), some_theta(known)).value.isfinite().all()
