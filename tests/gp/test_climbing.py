"""Ascents reach the maximum, alone as in a batch, and points around it are draws whose density is known."""

import math

import torch
from torch import Tensor

from ndp.gp.climbing import Ascent, antithetic_normals, climb, laplace_draws
from ndp.gp.evidence import HyperPrior, Observations, Slope, slope


def parabola(theta: Tensor) -> Slope:
    """A normal density with correlated numbers, whose curvature is told too small by half."""
    precision = torch.tensor([[2.0, 0.6, 0.0], [0.6, 1.0, 0.3], [0.0, 0.3, 0.5]], dtype=torch.float64)
    off = theta - 3
    pull = off @ precision
    return Slope(-0.5 * (off * pull).sum(-1), -pull, 0.5 * precision.expand(*theta.shape, -1))


def starts(*places: float) -> Tensor:
    return torch.tensor(places, dtype=torch.float64)[None, None, :, None].expand(1, 1, -1, 3)


def test_the_maximum_is_found_and_the_secant_mends_a_wrong_curvature() -> None:
    start = starts(-4.0, 10.0)
    found = climb(parabola, Ascent.at(start, parabola(start)), 25)
    torch.testing.assert_close(found.theta, torch.full_like(start, 3.0), atol=1e-5, rtol=0)
    assert (found.value > -1e-9).all()


def test_steps_never_fall_and_what_is_not_finite_is_not_taken() -> None:
    def with_a_hole(theta: Tensor) -> Slope:
        fine = parabola(theta)
        hole = (theta > 0).any(-1)
        nothing = torch.where(hole, math.nan, 0.0)
        return Slope(fine.value + nothing, fine.gradient + nothing[..., None], fine.curvature)

    now = Ascent.at(starts(-4.0), with_a_hole(starts(-4.0)))
    for _ in range(12):
        then = climb(with_a_hole, now, 1)
        assert (then.value >= now.value).all()
        assert then.theta.isfinite().all()
        now = then
    assert now.theta.max() > -1  # near the edge of what is possible


def two_tables(tasks: int = 2, points: int = 25) -> Observations:
    x = torch.rand(tasks, points, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3.4 - 1.7
    noise = torch.randn(tasks, points, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    y = torch.sin(2 * x[..., 0]) + 0.5 * x[..., 1] + 0.1 * noise
    return Observations(x, y - y.mean(1, keepdim=True), torch.zeros_like(y), torch.ones_like(y, dtype=torch.bool))


def test_evidence_is_climbed_to_where_its_gradient_vanishes_whatever_else_is_in_the_batch() -> None:
    known, prior = two_tables(), HyperPrior()
    start = prior.mean(3, known.x).expand(2, 2, 2, -1) + torch.tensor([0.0, 1.0], dtype=torch.float64)[:, None]
    first = Ascent.at(start, slope(known, prior, start))
    found = climb(lambda theta: slope(known, prior, theta), first, 30)
    assert found.gradient.abs().max() < 1e-3
    lengthscales = found.theta[:, 0, 0, :3]  # of the squared exponential
    assert (lengthscales.argsort(-1)[:, :1] == 0).all()  # the function bends along the first input only
    assert (lengthscales[:, 2] > lengthscales[:, 0] + 1).all()
    one = known.split(1)[1]
    alone = climb(lambda theta: slope(one, prior, theta), Ascent.at(start[1:], slope(one, prior, start[1:])), 30)
    torch.testing.assert_close(alone.theta, found.theta[1:], atol=1e-6, rtol=0)


def test_draws_have_the_moments_and_the_density_of_the_laplace_approximation() -> None:
    start = torch.full((1, 1, 1, 3), 3.0, dtype=torch.float64)
    here = parabola(start)
    mode = Ascent.at(start, Slope(here.value, here.gradient, 2 * here.curvature))
    draws = laplace_draws(mode, 4096, widen=1.5)
    law = torch.distributions.MultivariateNormal(start[0, 0, 0], precision_matrix=2 * here.curvature[0, 0, 0] / 1.5**2)
    torch.testing.assert_close(draws.log_density[0, 0], law.log_prob(draws.theta[0, 0]))
    torch.testing.assert_close(draws.theta[0, 0].mean(0), start[0, 0, 0])
    torch.testing.assert_close(draws.theta[0, 0].T.cov(), law.covariance_matrix, atol=0.02, rtol=0.02)


def test_the_density_of_draws_is_that_of_all_modes_together() -> None:
    start = starts(3.0, 3.5)
    modes = Ascent.at(start, parabola(start))
    draws = laplace_draws(modes, 6, widen=1.0)
    laws = [
        torch.distributions.MultivariateNormal(start[0, 0, i], precision_matrix=modes.curvature[0, 0, i])
        for i in (0, 1)
    ]
    both = torch.stack([law.log_prob(draws.theta) for law in laws]).logsumexp(0) - math.log(2)
    torch.testing.assert_close(draws.log_density, both)


def test_the_order_of_inputs_is_that_of_the_draws() -> None:
    start = torch.tensor([[[[0.3, -0.4, -2.0]]]], dtype=torch.float64)
    here = Ascent.at(start, parabola(start))
    swapped = [1, 0, 2]
    there = Ascent.at(
        start[..., swapped], Slope(here.value, here.gradient, here.curvature[..., swapped, :][..., swapped])
    )
    torch.testing.assert_close(laplace_draws(there, 8, 1.1).theta, laplace_draws(here, 8, 1.1).theta[..., swapped])


def test_points_are_pairs_with_the_moments_of_a_normal_distribution() -> None:
    points = antithetic_normals(512, 5, like=torch.zeros(1, dtype=torch.float64))
    torch.testing.assert_close(points[:256], -points[256:])
    torch.testing.assert_close(points.T.cov(), torch.eye(5, dtype=torch.float64), atol=0.1, rtol=0)
