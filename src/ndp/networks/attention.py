"""Multi-head attention over the two axes of [B N D H]: over points, in two forms, and over input dimensions."""

from enum import StrEnum

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ndp.networks.embedding import Rotation


class PointAttention(StrEnum):
    """How points attend to points.

    `SUMMED`: logits are summed over the input dimensions, one N x N softmax a head: a head can see that two points are close
    in all dimensions at once, as a product kernel does. `PER_DIMENSION`: every input dimension attends on its own (the
    paper's form). At D = 1 the two are the same.
    """

    SUMMED = "summed"
    PER_DIMENSION = "per_dimension"


class AttentionOverPoints(nn.Module):
    """Each point reads from all real points."""

    def __init__(self, width: int, out_width: int, heads: int, form: PointAttention) -> None:
        super().__init__()
        self.heads = heads
        self.form = form
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, out_width)

    def forward(
        self, s: Float[Tensor, "B N D H"], rotation: Rotation | None, mask: Bool[Tensor, "B N"] | None
    ) -> Float[Tensor, "B N D O"]:
        batch, points, dims, _ = s.shape
        query, key, value = self.project(s).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        if rotation is not None:
            query, key, value = rotation.turn(query), rotation.turn(key), rotation.turn(value)
        # A sum of dot products is a dot product of concatenations, so both forms are one fused call.
        if self.form is PointAttention.SUMMED:
            query, key, value = (t.permute(0, 3, 1, 2, 4).flatten(-2) for t in (query, key, value))
        else:
            query, key, value = (t.permute(0, 2, 3, 1, 4).flatten(0, 1) for t in (query, key, value))
            mask = None if mask is None else mask.repeat_interleave(dims, dim=0)
        seen = None if mask is None else mask[:, None, None, :].expand(-1, 1, points, -1)
        read = scaled_dot_product_attention(query, key, value, attn_mask=seen)
        if self.form is PointAttention.SUMMED:
            read = read.unflatten(-1, (dims, -1)).permute(0, 2, 3, 1, 4)
        else:
            read = read.unflatten(0, (batch, dims)).permute(0, 3, 1, 2, 4)
        if rotation is not None:
            read = rotation.turn_back(read)
        return self.out(read.flatten(-2))


class AttentionOverDimensions(nn.Module):
    """Each input dimension of a point reads from all input dimensions of that point."""

    def __init__(self, width: int, out_width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, out_width)

    def forward(self, s: Float[Tensor, "B N D H"]) -> Float[Tensor, "B N D O"]:
        query, key, value = self.project(s).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        # Written out: fused kernels are many times slower on sequences as short as D.
        logits = torch.einsum("bndhf,bnehf->bnhde", query, key) * query.shape[-1] ** -0.5
        read = torch.einsum("bnhde,bnehf->bndhf", logits.softmax(-1), value)
        return self.out(read.flatten(-2))
