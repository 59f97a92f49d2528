"""The exact law of an input given its value, by another road: the joint density of all values, at every place in turn."""

import torch

from ndp.gp.inverse import ExactInputs, distribution_of_input, middles, shares
from ndp.gp.named import minima_gp
from ndp.models.metrics import total_variation

X = torch.tensor([[[-0.6], [0.1], [0.5]], [[-0.9], [-0.1], [0.2]]], dtype=torch.float64)
Y = torch.tensor([[[1.0], [-0.5], [0.3]], [[0.2], [-1.2], [1.5]]], dtype=torch.float64)
ASKED = torch.tensor([-0.8, 0.9], dtype=torch.float64)


def test_the_law_is_the_joint_density_of_all_values_scaled_to_sum_to_one() -> None:
    gp, cells = minima_gp(), 120
    prior = gp.condition(X[:, :0], Y[:, :0])
    density = []
    for place in middles(cells):
        x = torch.cat([X, place.expand(2, 1, 1)], dim=1)
        density.append(prior.log_prob(x, torch.cat([Y, ASKED[:, None, None]], dim=1), observation_noise=True))
    expected = torch.softmax(torch.stack(density, dim=-1), dim=-1)
    found = distribution_of_input(gp.condition(X, Y), ASKED, cells, fine=1)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-12)
    coarse = distribution_of_input(gp.condition(X, Y), ASKED, 12, fine=10)
    torch.testing.assert_close(coarse, expected.unflatten(-1, (12, 10)).sum(-1), rtol=1e-8, atol=1e-12)


def test_exact_draws_follow_the_law() -> None:
    posterior = ExactInputs(minima_gp()).condition(X[0], Y[0, :, 0])
    drawn = posterior.sample_inputs(-0.8, 4000, generator=torch.Generator().manual_seed(0))
    assert drawn.shape == (4000, 1)
    law = distribution_of_input(posterior.posterior, ASKED[:1], 20)
    assert total_variation(shares(drawn, 20), law).item() < 0.05  # about 0.03 by chance alone


def test_what_lies_outside_counts_for_the_nearest_bin() -> None:
    found = shares(torch.tensor([[-3.0], [-0.9], [0.1], [1.0]], dtype=torch.float64), 4)
    assert found.tolist() == [[0.5, 0.0, 0.25, 0.25]]
