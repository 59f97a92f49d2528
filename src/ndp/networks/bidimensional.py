"""The paper's noise network: bi-dimensional attention, with a noise level of its own at every point.

Equivariant to the order of points, invariant to the order of input dimensions, and its weights know the number of neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from ndp.networks.attention import AttentionOverDimensions, AttentionOverPoints, Memory, PointAttention
from ndp.networks.embedding import LevelEmbedding, Rotation, log_spaced, sinusoids

# Frequencies for coordinates in a domain like [-2, 2], in radians a unit.
SLOWEST, FASTEST = 0.3, 30.0


class Inputs(StrEnum):
    """How coordinates enter.

    `ROTARY`: through differences only, so that the network is translation equivariant and has no range to leave.
    `RAW` (the paper's) and `FOURIER`: absolutely, for priors that are not stationary.
    """

    ROTARY = "rotary"
    RAW = "raw"
    FOURIER = "fourier"


class ContextAttention(StrEnum):
    """Whom context points read from.

    `FULL`: all points (the paper's). `SEPARATE`: the context only, so that its keys and values depend neither on the
    targets nor on the draw nor on the solver's step, and are computed once for a posterior.
    """

    FULL = "full"
    SEPARATE = "separate"


@dataclass(frozen=True)
class Encoding:
    """A context as targets see it: keys and values in every block."""

    memories: tuple[Memory, ...]
    mask: Bool[Tensor, "B C"] | None
    x: Float[Tensor, "B M D"]  # the targets' inputs, and how they turn features
    rotation: Rotation | None


@final
class BiDimensionalAttention(nn.Module):
    """Blocks of attention over dimensions and points; the sum of their skips, averaged over dimensions, is the output.

    The defaults are the library's. The paper's network is `attention="per_dimension", inputs="raw", context="full"`.
    """

    frequencies: Tensor

    def __init__(
        self,
        *,
        num_outputs: int = 1,
        width: int = 64,
        heads: int = 8,
        blocks: int = 4,
        attention: PointAttention | str = PointAttention.SUMMED,
        inputs: Inputs | str = Inputs.ROTARY,
        context: ContextAttention | str = ContextAttention.SEPARATE,
        level_width: int = 128,
    ) -> None:
        super().__init__()
        if width % (2 * heads):
            raise ValueError(
                f"width must be a multiple of twice the number of heads; {width} is not one of {2 * heads}"
            )
        self.config = {  # the arguments that make this network again
            "num_outputs": num_outputs,
            "width": width,
            "heads": heads,
            "blocks": blocks,
            "attention": str(PointAttention(attention)),
            "inputs": str(Inputs(inputs)),
            "context": str(ContextAttention(context)),
            "level_width": level_width,
        }
        self.num_outputs = num_outputs
        self.inputs = Inputs(inputs)
        self.context = ContextAttention(context)
        count = width // 2
        frequencies = log_spaced(count, SLOWEST, FASTEST)
        # Every head spans the whole range, and no two heads hold the same frequencies.
        self.register_buffer("frequencies", frequencies.reshape(-1, heads).T.contiguous(), persistent=False)
        features = {Inputs.ROTARY: 0, Inputs.RAW: 1, Inputs.FOURIER: 2 * count}[self.inputs]
        self.embed = nn.Linear(features + num_outputs, width)
        self.embed_level = LevelEmbedding(level_width)
        self.blocks = nn.ModuleList(
            BiDimensionalBlock(width, heads, level_width, PointAttention(attention)) for _ in range(blocks)
        )
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.out = nn.Linear(width, num_outputs)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    @property
    def translation_equivariant(self) -> bool:
        return self.inputs is Inputs.ROTARY

    @property
    def encodes_context(self) -> bool:
        """Whether `encode` and `decode` may stand in for one call with context and targets."""
        return self.context is ContextAttention.SEPARATE

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        y_t: Float[Tensor, "B N P"],
        level: Float[Tensor, "B N"],
        mask: Bool[Tensor, "B N"] | None = None,
        *,
        num_context: int = 0,
    ) -> Float[Tensor, "B N P"]:
        separate = num_context if self.context is ContextAttention.SEPARATE else 0
        return self._run(x, y_t, level, mask, mask, self._rotation(x, mask), separate=separate)[0]

    def encode(
        self,
        x: Float[Tensor, "B C D"],
        y: Float[Tensor, "B C P"],
        level: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
        x_target: Float[Tensor, "B M D"],
    ) -> Encoding:
        """What depends on the context and on where the targets are, but not on their values: once for all draws and steps."""
        memories = self._run(x, y, level, mask, mask, self._rotation(x, mask), separate=x.shape[1])[1]
        return Encoding(memories, mask, x_target, self._rotation(x_target))

    def decode(
        self, y_t: Float[Tensor, "R M P"], level: Float[Tensor, ""], encoding: Encoding
    ) -> Float[Tensor, "R M P"]:
        """The output at the targets of R = S * B rows: S draws for each of the B tasks that were encoded."""
        draws = y_t.shape[0] // encoding.x.shape[0]
        x = encoding.x.expand(draws, *encoding.x.shape).flatten(0, 1)
        mask = None
        if encoding.mask is not None:
            known = encoding.mask.expand(draws, *encoding.mask.shape).flatten(0, 1)
            mask = torch.cat([known, torch.ones_like(x[..., 0], dtype=torch.bool)], dim=1)
        memories = [memory.repeated(draws) for memory in encoding.memories]
        return self._run(x, y_t, level[None, None], None, mask, encoding.rotation, memories=memories)[0]

    def _run(
        self,
        x: Float[Tensor, "B N D"],
        y_t: Float[Tensor, "B N P"],
        level: Float[Tensor, "#B #N"],
        own_mask: Bool[Tensor, "B N"] | None,
        mask: Bool[Tensor, "B K"] | None,
        rotation: Rotation | None,
        *,
        separate: int = 0,
        memories: Sequence[Memory] | None = None,
    ) -> tuple[Float[Tensor, "B N P"], tuple[Memory, ...]]:
        if own_mask is not None:  # so that not even a NaN in a masked point gets through
            x, y_t = x.masked_fill(~own_mask[..., None], 0.0), y_t.masked_fill(~own_mask[..., None], 0.0)
            level = level.masked_fill(~own_mask, 0.0)
        s = gelu(self.embed(self._features(x, y_t)))
        embedded_level = self.embed_level(level)
        total = torch.zeros_like(s)
        left: list[Memory] = []
        for index, block in enumerate(self.blocks):
            memory = None if memories is None else memories[index]
            s, skip, own = block(s, embedded_level, rotation, mask, separate=separate, memory=memory)
            total = total + skip
            left.append(own)
        pooled = total.mean(dim=2) * len(self.blocks) ** -0.5
        return self.out(self.head(pooled)), tuple(left)

    def _rotation(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"] | None = None) -> Rotation | None:
        if self.inputs is not Inputs.ROTARY:
            return None
        return Rotation(x if mask is None else x.masked_fill(~mask[..., None], 0.0), self.frequencies)

    def _features(self, x: Float[Tensor, "B N D"], y_t: Float[Tensor, "B N P"]) -> Float[Tensor, "B N D F"]:
        """The values, replicated over the input dimensions, beside the coordinate of each."""
        values = y_t[:, :, None, :].expand(-1, -1, x.shape[-1], -1)
        match self.inputs:
            case Inputs.ROTARY:
                return values
            case Inputs.RAW:
                return torch.cat([x[..., None], values], dim=-1)
            case Inputs.FOURIER:
                return torch.cat([sinusoids(x, self.frequencies.flatten()), values], dim=-1)


class BiDimensionalBlock(nn.Module):
    """Attention over dimensions plus attention over points, a nonlinearity, and its halves as residual and skip."""

    def __init__(self, width: int, heads: int, level_width: int, attention: PointAttention) -> None:
        super().__init__()
        self.level = nn.Linear(level_width, width)
        self.over_dimensions = AttentionOverDimensions(width, 2 * width, heads)
        self.over_points = AttentionOverPoints(width, 2 * width, heads, attention)

    def forward(
        self,
        s: Float[Tensor, "B N D H"],
        level: Float[Tensor, "#B #N E"],
        rotation: Rotation | None,
        mask: Bool[Tensor, "B K"] | None,
        *,
        separate: int = 0,
        memory: Memory | None = None,
    ) -> tuple[Float[Tensor, "B N D H"], Float[Tensor, "B N D H"], Memory]:
        informed = s + self.level(level)[:, :, None, :]
        over_points, own = self.over_points(informed, rotation, mask, separate=separate, memory=memory)
        residual, skip = gelu(self.over_dimensions(informed) + over_points).chunk(2, dim=-1)
        return (s + residual) * 0.5**0.5, skip, own
