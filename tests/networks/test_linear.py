"""The quick linear layer gives the numbers of the ordinary one, and leaves gradients, precisions and small inputs to it."""

import pytest
import torch
from torch.nn.functional import linear

from ndp.networks.linear import ROWS, Linear


@pytest.mark.parametrize("rows", [1, ROWS - 1, ROWS, 3000])
def test_it_gives_the_numbers_of_the_ordinary_layer(rows: int) -> None:
    torch.manual_seed(0)
    layer = Linear(96, 160)
    values = torch.randn(rows, 2, 96)[:, 1]  # with gaps between rows
    with torch.no_grad():
        torch.testing.assert_close(layer(values), linear(values, layer.weight, layer.bias), rtol=1e-5, atol=1e-5)


def test_gradients_and_other_precisions_are_as_ever() -> None:
    torch.manual_seed(0)
    layer = Linear(8, 4)
    values = torch.randn(5, ROWS, 8, requires_grad=True)
    layer(values).square().sum().backward()
    assert values.grad is not None
    assert layer.weight.grad is not None
    assert bool(values.grad.any())
    assert bool(layer.weight.grad.any())
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert layer(values).dtype == torch.bfloat16
    precise = layer.double()(values.detach().double())
    torch.testing.assert_close(precise, linear(values.detach().double(), layer.weight, layer.bias))
