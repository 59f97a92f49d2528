"""The optimiser: orthogonalised moves of matrices, AdamW for the rest, and fewer steps for the same loss."""

import pytest
import torch
from torch import nn

from ndp.training.muon import Muon, orthogonalised


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 16, 40), (2, 40, 16)])
def test_orthogonalised_matrices_keep_their_singular_vectors_and_have_singular_values_near_one(
    shape: tuple[int, int, int],
) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    near = orthogonalised(matrices)
    values = torch.linalg.svdvals(near)
    assert values.min() > 0.3  # of those that were tiny
    assert values.max() < 1.3
    u, _, vt = torch.linalg.svd(matrices, full_matrices=False)
    core = u.mT @ near @ vt.mT  # diagonal in the singular vectors of the matrix
    torch.testing.assert_close(core, torch.diag_embed(core.diagonal(dim1=-2, dim2=-1)), atol=1e-4, rtol=0)
    assert orthogonalised(torch.zeros(shape)).abs().max() == 0


def test_matrices_move_by_the_learning_rate_in_root_mean_square_whatever_the_gradient_and_vectors_as_in_adamw() -> None:
    torch.manual_seed(0)
    layer, narrow = nn.Linear(32, 96), nn.Linear(1, 32)
    before = [p.detach().clone() for p in (*layer.parameters(), *narrow.parameters())]
    gradients = [torch.randn_like(p) * 100 for p in before]
    for p, gradient in zip((*layer.parameters(), *narrow.parameters()), gradients, strict=True):
        p.grad = gradient.clone()
    optimiser = Muon([*layer.parameters(), *narrow.parameters()], lr=0.01, weight_decay=0.0)
    optimiser.step()
    moved = [p.detach() - b for p, b in zip((*layer.parameters(), *narrow.parameters()), before, strict=True)]
    for part in moved[0].split(32):  # three square layers, each on its own
        assert part.square().mean().sqrt() == pytest.approx(0.01, rel=0.2)
    for change, gradient in zip(moved[1:], gradients[1:], strict=True):
        torch.testing.assert_close(change, -0.01 * gradient.sign(), rtol=1e-4, atol=0)
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad, gradients[0])
    assert set(optimiser.state[layer.weight]) == {"exp_avg"}


def test_a_stretched_least_squares_is_solved_where_adamw_is_still_on_its_way() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(512, 32, generator=generator) * torch.logspace(0, -1.5, 32)
    target = inputs @ torch.randn(32, 32, generator=generator)
    losses = {}
    for name, kind in (("muon", Muon), ("adamw", torch.optim.AdamW)):
        weight = nn.Parameter(torch.zeros(32, 32))
        optimiser = kind([weight], lr=0.02, weight_decay=0.0)
        for step in range(200):
            optimiser.zero_grad()
            loss = (inputs @ weight - target).square().mean()
            loss.backward()
            optimiser.param_groups[0]["lr"] = 0.02 * (1 - step / 200)
            optimiser.step()
        losses[name] = loss.item()
    assert losses["muon"] < 0.5 * losses["adamw"]
