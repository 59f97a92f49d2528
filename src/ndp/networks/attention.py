"""Multi-head attention over the two axes of [B N D H]: over points, in two forms, and over input dimensions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ndp.networks.embedding import Rotation
from ndp.networks.linear import Linear, quick_linear


class PointAttention(StrEnum):
    """How points attend to points.

    `SUMMED`: logits are summed over the input dimensions, one N x N softmax a head: a head can see that two points are close
    in all dimensions at once, as a product kernel does. `PER_DIMENSION`: every input dimension attends on its own (the
    paper's form). At D = 1 the two are the same.
    """

    SUMMED = "summed"
    PER_DIMENSION = "per_dimension"


class Memory(NamedTuple):
    """Keys and values of a context in one block, in the layout of `AttentionOverPoints`; rows are tasks (times D)."""

    key: Float[Tensor, "R heads C F"]
    value: Float[Tensor, "R heads C F"]

    def points(self, part: slice) -> "Memory":
        """Some of the points."""
        return Memory(self.key[..., part, :], self.value[..., part, :])

    def repeated(self, draws: int) -> "Memory":
        """The same context for every draw."""
        key, value = (t.expand(draws, *t.shape).flatten(0, 1) for t in self)
        return Memory(key, value)


class AttentionOverPoints(nn.Module):
    """Each point reads from the real points that it may see: all of them, and of a separate context only the context."""

    def __init__(self, width: int, out_width: int, heads: int, form: PointAttention) -> None:
        super().__init__()
        self.heads = heads
        self.form = form
        self.project = Linear(width, 3 * width)
        self.out = Linear(width, out_width)

    def forward(
        self,
        s: Float[Tensor, "B N T H"],
        rotation: Rotation | None,
        mask: Bool[Tensor, "_ K"] | None,
        *,
        separate: int = 0,
        memory: Memory | None = None,
        independent: bool = False,
    ) -> tuple[Float[Tensor, "B N D O"], Memory]:
        """There is a token for every input dimension, or one for all of them, which a rotation tells apart (T = D or 1).

        `separate` points at the front read from each other only; `memory` holds points that came before.

        `mask` is over memory and points together. All other points read from everything or, `independent`, from the separate
        points or the memory and from themselves, as if each were the only one; `memory` and `mask` are then those of the tasks,
        of which there may be several draws.
        """
        projected = self.project(s).unflatten(-1, (3, self.heads, -1))
        if rotation is not None:
            projected = rotation.rotate(projected)
        dims = projected.shape[2]
        query, key, value = (self._to_rows(t) for t in projected.unbind(-3))
        own = Memory(key, value)
        if mask is not None and self.form is PointAttention.PER_DIMENSION:
            mask = mask.repeat_interleave(dims, dim=0)
        seen = None if mask is None else mask[:, None, None, :]
        if independent:
            known = own.points(slice(separate)) if memory is None else memory
            seen_known = None if mask is None else mask[:, : known.key.shape[-2]]
            read = _read_independently(query[..., separate:, :], own.points(slice(separate, None)), known, seen_known)
        else:
            if memory is not None:
                key, value = torch.cat([memory.key, key], dim=-2), torch.cat([memory.value, value], dim=-2)
            read = _read(query[..., separate:, :], key, value, seen)
        if separate:
            first = seen
            if first is not None:  # a point sees itself, so that no row of an empty context is without a key
                itself = torch.eye(separate, dtype=torch.bool, device=s.device)
                first = first[..., :separate] | itself
            read = torch.cat([_read(query[..., :separate, :], *own.points(slice(separate)), first), read], dim=-2)
        return self._received(self._from_rows(read, dims), rotation), own

    def _received(self, read: Float[Tensor, "B N D heads F"], rotation: Rotation | None) -> Float[Tensor, "B N D O"]:
        if rotation is not None:
            read = rotation.rotate_back(read)
        return self.out(read.flatten(-2))

    # A sum of dot products over dimensions is a dot product of concatenations, so both forms are one fused call.
    def _to_rows(self, t: Float[Tensor, "B N D heads F"]) -> Float[Tensor, "R heads N G"]:
        if self.form is PointAttention.SUMMED:
            return t.permute(0, 3, 1, 2, 4).flatten(-2)
        return t.permute(0, 2, 3, 1, 4).flatten(0, 1)

    def _from_rows(self, t: Float[Tensor, "R heads N G"], dims: int) -> Float[Tensor, "B N D heads F"]:
        if self.form is PointAttention.SUMMED:
            return t.unflatten(-1, (dims, -1)).permute(0, 2, 3, 1, 4)
        return t.unflatten(0, (-1, dims)).permute(0, 3, 1, 2, 4)


class AttentionOverDimensions(nn.Module):
    """Each input dimension of a point reads from all input dimensions of that point."""

    def __init__(self, width: int, out_width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = Linear(width, 3 * width)
        self.out = Linear(width, out_width)

    def forward(self, s: Float[Tensor, "B N D H"]) -> Float[Tensor, "B N D O"]:
        if s.shape[2] == 1:  # a softmax over one is one: what is read is the value itself
            start = 2 * self.project.out_features // 3
            value = quick_linear(s, self.project.weight[start:], self.project.bias[start:])
            return self.out(value)
        query, key, value = self.project(s).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        return self.out(_way_for_dimensions(query)(query, key, value).flatten(-2))


# On a GPU, fused kernels are slow on sequences as short as D. Milliseconds at D = 5 and 10, forward and backward in float16 on
# an H200: written out 1.6 and 5.3, by products 3.3 and 3.2, fused 9.0 and 10.1. A CPU is the other way round: 256 points at
# D = 5 and 10, forward in float32 on one core, take 1.2 and 11.8 written out, 1.2 and 3.2 by products, 0.9 and 1.9 fused.
MANY_DIMENSIONS, MANY_ON_CPU = 8, 5


def _way_for_dimensions(query: Tensor) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The quickest way to write attention over so many dimensions."""
    dims = query.shape[2]
    if query.device.type == "cuda":
        return dimensions_by_products if dims >= MANY_DIMENSIONS else dimensions_written_out
    return dimensions_fused if dims >= MANY_ON_CPU and not torch.is_grad_enabled() else dimensions_written_out


def dimensions_written_out(query: Tensor, key: Tensor, value: Tensor) -> Float[Tensor, "B N D heads F"]:
    """Attention over the third axis of [B N D heads F], without products of matrices."""
    logits = (query[:, :, :, None] * key[:, :, None]).sum(-1, keepdim=True) * query.shape[-1] ** -0.5
    return (logits.softmax(dim=3) * value[:, :, None]).sum(dim=3)


def dimensions_by_products(query: Tensor, key: Tensor, value: Tensor) -> Float[Tensor, "B N D heads F"]:
    """The same by batched products of D x F matrices."""
    query, key, value = (t.transpose(2, 3) for t in (query, key, value))
    weights = ((query * query.shape[-1] ** -0.5) @ key.mT).softmax(dim=-1)
    return (weights @ value).transpose(2, 3)


def dimensions_fused(query: Tensor, key: Tensor, value: Tensor) -> Float[Tensor, "B N D heads F"]:
    """The same by the fused kernel, without logits in memory."""
    q, k, v = (t.flatten(0, 1).transpose(1, 2) for t in (query, key, value))
    return scaled_dot_product_attention(q, k, v).transpose(1, 2).unflatten(0, query.shape[:2])


LOGITS_IN_CACHE = 2**20  # logits of a row that still fit a CPU's cache
WIDE_HEAD = 32  # from this width of heads on, the fused kernel is the quicker one for a single row
FEW_KEYS = 288  # up to which a GPU, too, is quicker with attention written out, where heads are narrow and in 32 bits


_in_half = False


@contextmanager
def attention_in_half() -> Iterator[None]:
    """Attention over points in float16, all else as it was, for kernels that are several times as quick in 16 bits.

    float16 has the 10 bits of TF32, with which networks train well; with the 7 of bfloat16 they diverge. Gradients must be
    scaled up on their way through it, for its smallest number is 6e-8.
    """
    global _in_half
    before, _in_half = _in_half, True
    try:
        yield
    finally:
        _in_half = before


def _read(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None) -> Tensor:
    if _in_half and query.dtype == torch.float32:
        return _read(query.half(), key.half(), value.half(), seen).to(query.dtype)
    if seen is None and _better_row_by_row(query, key):
        scaled = query * query.shape[-1] ** -0.5
        # Values times weights, both transposed, takes a third of the time of weights times values that are a few wide.
        rows = (v.mT @ torch.softmax(q @ k.mT, dim=-1).mT for q, k, v in zip(scaled, key, value, strict=True))
        return torch.stack(list(rows)).mT.contiguous()
    if _better_written_out(query, key):
        return read_written_out(query, key, value, seen)
    if seen is not None:
        seen = seen.expand(-1, 1, query.shape[-2], -1)
    return scaled_dot_product_attention(query, key, value, attn_mask=seen)


def read_written_out(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None) -> Tensor:
    """What the fused kernel answers, with all logits in memory."""
    logits = (query * query.shape[-1] ** -0.5) @ key.mT
    if seen is not None:
        logits = logits.masked_fill(~seen, float("-inf"))
    return logits.softmax(dim=-1) @ value


def _read_independently(query: Tensor, own: Memory, memory: Memory, seen: Bool[Tensor, "R C"] | None) -> Tensor:
    """Attention of every point to the memory and to itself. Draws of a task stand side by side, for they share a memory."""
    tasks = len(memory.key)

    def together(t: Tensor) -> Tensor:
        return t.unflatten(0, (-1, tasks)).permute(1, 2, 0, 3, 4).flatten(2, 3)

    # In 16 bits a large logit is infinite, and the softmax of that is not a number; a fused kernel has them in 32 bits too.
    precise = torch.float64 if query.dtype == torch.float64 else torch.float32
    with torch.autocast(query.device.type, enabled=False):
        scaled = query.to(precise) * query.shape[-1] ** -0.5
        to_memory = together(scaled) @ memory.key.to(precise).mT
        if seen is not None:
            to_memory = to_memory.masked_fill(~seen[:, None, None, :], float("-inf"))
        to_itself = together((scaled * own.key.to(precise)).sum(-1, keepdim=True))
        weights = torch.cat([to_memory, to_itself], dim=-1).softmax(dim=-1).to(own.value.dtype)
    read = weights[..., :-1] @ memory.value + weights[..., -1:] * together(own.value)
    return read.unflatten(2, (-1, query.shape[-2])).permute(2, 0, 1, 3, 4).flatten(0, 1)


def _better_written_out(query: Tensor, key: Tensor) -> bool:
    """Whether the GPU's fused kernel, which fills narrow heads up with zeros, is the slower one."""
    narrow = query.shape[-1] < WIDE_HEAD and key.shape[-2] <= FEW_KEYS
    return query.device.type == "cuda" and query.dtype == torch.float32 and narrow


def _better_row_by_row(query: Tensor, key: Tensor) -> bool:
    """Whether to write attention out: while drawing on a CPU, whose fused kernel is slow on heads as narrow as ours."""
    if query.device.type != "cpu" or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    if len(query) == 1 and query.shape[-1] >= WIDE_HEAD:
        return False
    return query.shape[1] * query.shape[2] * key.shape[2] <= LOGITS_IN_CACHE
