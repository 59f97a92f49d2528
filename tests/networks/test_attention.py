"""Attention in the forms that different devices are quick with: all of them answer the same."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ndp.networks.attention import read_written_out


def some(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_written_out_is_attention(masked: bool) -> None:
    query, key, value = some(3, 2, 5, 8, seed=0), some(3, 2, 7, 8, seed=1), some(3, 2, 7, 8, seed=2)
    seen = torch.arange(7) < torch.tensor([7, 4, 1])[:, None, None, None] if masked else None
    expected = scaled_dot_product_attention(
        query, key, value, attn_mask=None if seen is None else seen.expand(-1, 1, 5, -1)
    )
    torch.testing.assert_close(read_written_out(query, key, value, seen), expected)
