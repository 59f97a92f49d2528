"""Single values: against exact distributions, without random numbers, and whatever else is asked for."""

import numpy as np
import pytest
import torch
from torch import Tensor

import ndp
from ndp.core.typing import Denoiser
from ndp.diffusion.levels import alpha, ratio
from ndp.diffusion.marginal_solver import Guess
from ndp.networks.bidimensional import BiDimensionalAttention
from ndp.processes import single_values

X, Y = np.array([[-1.2], [0.1], [0.7]]), np.array([0.5, -1.0, 0.3])
GRID = np.linspace(-2, 2, 9)[:, None]
NOISY = {"joint": False, "observation_noise": True}


def small_network(seed: int) -> BiDimensionalAttention:
    torch.manual_seed(seed)
    return BiDimensionalAttention(width=16, heads=2, blocks=2, level_width=8)


def test_moments_quantiles_and_densities_are_the_exact_ones() -> None:
    ours, exact = (ndp.load(f"{kind}-matern52").condition(X, Y) for kind in ("oracle", "gp"))
    mean, std = exact.moments(GRID, observation_noise=True)
    levels = [0.05, 0.5, 0.9]
    for steps in (1, 5, 20):  # the solver is exact for Gaussians
        found, quantiles = ours.summary(GRID, levels, joint=False, steps=steps)
        np.testing.assert_allclose(found.mean, mean, atol=1e-6)
        np.testing.assert_allclose(found.std, std, rtol=1e-6)
        np.testing.assert_allclose(quantiles, exact.quantiles(GRID, levels, observation_noise=True), atol=1e-6)
        np.testing.assert_array_equal(ours.moments(GRID, joint=False, steps=steps).std, found.std)
        np.testing.assert_array_equal(ours.quantiles(GRID, levels, joint=False, steps=steps), quantiles)
    at = np.asarray(mean) + 0.7 * np.asarray(std)
    np.testing.assert_allclose(ours.log_prob(GRID, at, joint=False), exact.log_prob(GRID, at, **NOISY), atol=2e-3)
    one_by_one = [
        float(exact.log_prob(x[None], y[None], observation_noise=True)) for x, y in zip(GRID, at, strict=True)
    ]
    np.testing.assert_allclose(exact.log_prob(GRID, at, **NOISY), one_by_one)


def test_an_answer_is_the_same_for_one_target_and_for_many() -> None:
    network = small_network(0)
    torch.nn.init.normal_(network.out.weight, std=0.1)
    posterior = ndp.NDP(network.double().requires_grad_(False)).condition(X, Y)
    grid = np.linspace(-2, 2, 200)[:, None]
    many = posterior.moments(grid, joint=False, steps=4)
    for index in (0, 130):
        one = posterior.moments(grid[index : index + 1], joint=False, steps=4)
        np.testing.assert_allclose([one.mean[0], one.std[0]], [many.mean[index], many.std[index]], rtol=1e-12)


def test_the_quantiles_of_a_law_with_two_peaks_are_where_its_distribution_function_says() -> None:
    """As many draws of the exact law lie below each quantile as its probability says; the density has two peaks."""
    centres, spread, probabilities = torch.tensor([-1.0, 1.0]).double(), 0.2, np.linspace(0.05, 0.95, 19)

    def denoiser(inputs: Tensor) -> tuple[Denoiser, Guess]:
        def denoise(y_t: Tensor, level: Tensor) -> Tensor:
            u, r = y_t / alpha(level)[..., None], ratio(level)[..., None]
            share = torch.softmax(-((u - centres) ** 2) / (2 * (spread**2 + r**2)), dim=-1)
            return (share * (r**2 * centres + spread**2 * u) / (spread**2 + r**2)).sum(-1, keepdim=True)

        return denoise, Guess.standard(inputs)

    diffusion = ndp.load("oracle-se").diffusion
    inputs = torch.zeros(1, 3, 1, dtype=torch.float64)
    asked, sign = torch.as_tensor(probabilities), torch.ones(1, dtype=torch.float64)
    _, _, quantiles = single_values.summary(denoiser, diffusion, inputs, asked, sign, 40)
    found = quantiles[:, 0, 0, 0]
    below = torch.special.ndtr((found[:, None] - centres) / spread).mean(1)
    np.testing.assert_allclose(below, probabilities, atol=0.01)
    mirrored = single_values.summary(denoiser, diffusion, inputs, asked, -sign, 40)[2][:, 0, 0, 0]
    np.testing.assert_allclose(mirrored, -found, atol=1e-9)


def test_quantiles_of_a_network_that_is_no_law_come_in_the_order_asked() -> None:
    """The slopes of a random network belong to no distribution: the values of probabilities are then put in order."""
    network = small_network(1)
    for weights in network.parameters():
        weights.data.mul_(3)
    torch.nn.init.normal_(network.out.weight, std=2.0)
    model = ndp.NDP(network.double().requires_grad_(False))
    posterior, grid = model.condition(X, Y), np.linspace(-3, 3, 50)[:, None]
    ordered = [0.01, 0.1, 0.3, 0.7, 0.9, 0.99]
    rising = np.asarray(posterior.quantiles(grid, ordered, joint=False, steps=3))
    solved = single_values.summary(
        posterior._single_denoiser(None),
        model.diffusion,
        torch.as_tensor(grid)[None],
        torch.tensor(ordered, dtype=torch.float64),
        torch.ones(1, dtype=torch.float64),
        3,
    )[2][:, 0, :, 0]
    assert (solved.diff(dim=0) < 0).any(), "some values of the solver cross"
    np.testing.assert_allclose(rising, solved.sort(0).values)
    shuffled = np.asarray(posterior.quantiles(grid, [0.7, 0.01, 0.99, 0.3, 0.9, 0.1], joint=False, steps=3))
    np.testing.assert_allclose(shuffled, rising[[3, 0, 5, 2, 4, 1]], rtol=1e-12)


def test_single_values_of_several_outputs_are_refused() -> None:
    model = ndp.NDP(BiDimensionalAttention(num_outputs=2, width=16, heads=2, blocks=1), num_outputs=2)
    posterior = model.condition(X, np.zeros((3, 2)))
    for ask in (posterior.moments, posterior.std):
        with pytest.raises(ValueError, match="joint=False needs values of one number, and this model has 2 outputs"):
            ask(GRID, joint=False)


def test_the_names_of_the_first_release_warn_and_give_the_same() -> None:
    posterior = ndp.load("universal").condition(X, Y)
    with pytest.warns(DeprecationWarning, match="posterior.marginals is deprecated: pass joint=False"):
        single = posterior.marginals
    np.testing.assert_array_equal(single.moments(GRID).std, posterior.moments(GRID, joint=False).std)
    with pytest.warns(DeprecationWarning, match="posterior.observations is deprecated: pass observation_noise=True"):
        noisy = posterior.observations
    with pytest.warns(DeprecationWarning, match="marginals is deprecated"):
        both = noisy.marginals
    np.testing.assert_array_equal(both.log_prob(X, Y), posterior.log_prob(X, Y, **NOISY))
    (_, std), quantiles = both.moments_and_quantiles(GRID, [0.2])
    np.testing.assert_array_equal(std, posterior.std(GRID, **NOISY))
    np.testing.assert_array_equal(quantiles, posterior.quantiles(GRID, [0.2], **NOISY))
