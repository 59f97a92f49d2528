"""Lengthscales of draws: the exact process is at the distance of sampling noise, another is not."""

import pytest
import torch

from benchmarks.marginalisation import Sizes, context_of, lengthscales, likelihood, most_likely
from benchmarks.marginalisation_report import bin_edges, describe, picture, tables
from ndp.gp.exact import GP
from ndp.gp.mixture import GPMixture
from ndp.gp.named import marginalised_gp, matern32
from ndp.gp.parameters import MARGINAL_NOISE

SIZES = Sizes((0, 5), draws=400, exact_draws=4000, points=25, tasks=24, targets=8)


def test_contexts_grow() -> None:
    x, y = context_of(20)
    few = context_of(3)
    torch.testing.assert_close(few, (x[:, :3], y[:, :3]))


def test_the_fit_finds_the_lengthscale_of_a_long_function() -> None:
    mixture, nodes = marginalised_gp()
    kernel = matern32()
    kernel.lengthscale = 0.3
    x = torch.linspace(-4, 4, 120, dtype=torch.float64)[None, :, None]
    gp, generator = GP(kernel, noise=MARGINAL_NOISE), torch.Generator().manual_seed(0)
    draws = torch.as_tensor(gp.sample(x, 50, observation_noise=True, generator=generator))
    found = nodes[most_likely(mixture.gps, x, draws[:, 0, :, 0])]
    assert found.log().mean().exp().item() == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("observations", [0, 5])
def test_exact_draws_are_at_the_distance_of_sampling_noise_and_wrong_ones_are_not(observations: int) -> None:
    exact, _ = marginalised_gp()
    right = lengthscales(exact, observations, SIZES)
    assert right.noise.mean < 0.1
    assert right.distance.mean < right.noise.mean + 5 * right.distance.standard_error
    assert right.counts.sum() == 400
    assert right.posterior.sum().item() == pytest.approx(1)
    short = GPMixture(exact.gps[:15], torch.ones(15))
    assert lengthscales(short, observations, SIZES).distance.mean > 0.3


def test_exact_densities_lose_nothing_and_a_wrong_prior_or_a_point_estimate_does() -> None:
    exact, _ = marginalised_gp()
    stages: list[str] = []
    right = likelihood(exact, SIZES, stages.append)
    assert len(stages) == 2
    assert right.lost.mean == pytest.approx(0, abs=1e-12)
    assert right.lost_by_point_estimate.mean > 0
    assert likelihood(GPMixture(exact.gps[:15], torch.ones(15)), SIZES, stages.append).lost.mean > 0.05


def test_the_picture_and_the_tables_say_what_was_measured() -> None:
    exact, nodes = marginalised_gp()
    edges = bin_edges()
    assert edges[0] < nodes[0] < nodes[4] < edges[1] < nodes[5]
    found = [lengthscales(exact, size, SIZES) for size in SIZES.observations]
    scored = likelihood(exact, SIZES, lambda status: None)
    distances, losses = tables(found, scored)
    assert [row[0] for row in distances.rows] == ["0", "5"]
    assert losses.rows[1][2] == "0.0000 ± 0.0000"
    assert "less than the Gaussian process of the most likely lengthscale" in describe(found, scored)
    assert len(picture(found).axes) == 5, "four panels and a bar of colours"
