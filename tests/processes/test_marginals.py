"""Marginal laws: against the exact Gaussian, without noise of sampling, and whatever else is asked for."""

import numpy as np
import pytest
import torch

import ndp
from ndp.networks.bidimensional import BiDimensionalAttention

X, Y = np.array([[-1.2], [0.1], [0.7]]), np.array([0.5, -1.0, 0.3])
GRID = np.linspace(-2, 2, 9)[:, None]


def test_moments_quantiles_and_densities_are_the_exact_ones() -> None:
    ours, exact = (ndp.load(f"{kind}-matern52").condition(X, Y) for kind in ("oracle", "gp"))
    mean, std = exact.moments(GRID)
    levels = [0.05, 0.5, 0.9]
    for steps in (1, 5, 20):  # the solver is exact on normal laws
        found, quantiles = ours.marginals.moments_and_quantiles(GRID, levels, steps=steps)
        np.testing.assert_allclose(found.mean, mean, atol=1e-6)
        np.testing.assert_allclose(found.std, std, rtol=1e-6)
        np.testing.assert_allclose(quantiles, exact.quantiles(GRID, levels), atol=1e-6)
        np.testing.assert_array_equal(ours.marginals.moments(GRID, steps=steps).std, found.std)
        np.testing.assert_array_equal(ours.marginals.quantiles(GRID, levels, steps=steps), quantiles)
    at = np.asarray(mean) + 0.7 * np.asarray(std)
    one_by_one = [float(exact.log_prob(x[None], y[None])) for x, y in zip(GRID, at, strict=True)]
    np.testing.assert_allclose(ours.marginals.log_prob(GRID, at), one_by_one, atol=2e-3)


def test_a_target_is_told_the_same_alone_and_among_others() -> None:
    torch.manual_seed(0)
    network = BiDimensionalAttention(width=16, heads=2, blocks=2, level_width=8)
    torch.nn.init.normal_(network.out.weight, std=0.1)
    marginals = ndp.NDP(network.double().requires_grad_(False)).condition(X, Y).marginals
    grid = np.linspace(-2, 2, 200)[:, None]
    together = marginals.moments(grid, steps=4)
    for index in (0, 130):
        alone = marginals.moments(grid[index : index + 1], steps=4)
        np.testing.assert_allclose(
            [alone.mean[0], alone.std[0]], [together.mean[index], together.std[index]], rtol=1e-12
        )


def test_quantiles_do_not_cross_and_come_in_the_order_asked() -> None:
    torch.manual_seed(1)
    network = BiDimensionalAttention(width=16, heads=2, blocks=2, level_width=8)
    for weights in network.parameters():  # an unruly one, whose slopes do not belong to any law
        weights.data.mul_(3)
    torch.nn.init.normal_(network.out.weight, std=2.0)
    marginals = ndp.NDP(network.double().requires_grad_(False)).condition(X, Y).marginals
    grid = np.linspace(-3, 3, 50)[:, None]
    rising = np.asarray(marginals.quantiles(grid, [0.01, 0.1, 0.3, 0.7, 0.9, 0.99], steps=3))
    assert (np.diff(rising, axis=0) >= 0).all()
    shuffled = np.asarray(marginals.quantiles(grid, [0.7, 0.01, 0.99, 0.3, 0.9, 0.1], steps=3))
    np.testing.assert_allclose(shuffled, rising[[3, 0, 5, 2, 4, 1]], rtol=1e-12)


def test_values_of_several_outputs_are_refused() -> None:
    model = ndp.NDP(BiDimensionalAttention(num_outputs=2, width=16, heads=2, blocks=1), num_outputs=2)
    with pytest.raises(ValueError, match="2 outputs"):
        _ = model.condition(X, np.zeros((3, 2))).marginals
