"""The paper's noise network: bi-dimensional attention, with a noise level of its own at every point.

Equivariant to the order of points, invariant to the order of input dimensions, and its weights know the number of neither.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from ndp.networks.attention import Memory, PointAttention
from ndp.networks.blocks import BiDimensionalBlocks
from ndp.networks.embedding import (
    WIDTHS,
    LevelEmbedding,
    PreciseLinear,
    Rotation,
    crowding_by_role,
    frequencies_of_heads,
    sinusoids,
    widths_of_crowding,
    without_masked,
)
from ndp.networks.experts import Advice, Trust, advise

DIMS_SCALE = 5.0  # of the number of input dimensions, so that what it tells is learned as fast as the rest


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
    x: Float[Tensor, "B M D"]  # the targets' inputs, how they turn features, and how crowded the targets are
    rotation: Rotation | None
    crowd: Float[Tensor, "B M W"] | None
    of_function: bool = False  # whether the targets are values of the function, and not observations
    alone: bool = False  # whether every target is asked for by itself
    advice: Advice | None = None


@final
class BiDimensionalAttention(nn.Module):
    """Blocks of attention over dimensions and points; the sum of their skips, averaged over dimensions, is the output.

    The defaults are the library's. The paper's network is `attention="per_dimension", inputs="raw", context="full",
    counts_neighbours=False`; for images, where the order of coordinates matters, it has one token a point that holds all
    of them, and no attention over dimensions: `ordered_dims=2`. The number of input dimensions is then fixed.
    A network that `counts_dims` is told how many input dimensions there are, and need not guess it from how far apart points
    lie; a number that it was not trained at is one more point of a line.
    A network that `tells_noise` has two kinds of targets, observations and, marked by a learned code, values of the function
    behind them; its context is observations.
    A network that is `advised` asks a bank of Gaussian processes about targets that are asked for alone (`Advice`).
    """

    frequencies: Tensor
    widths: Tensor

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
        counts_neighbours: bool = True,
        ordered_dims: int = 0,
        tells_noise: bool = False,
        counts_dims: bool = False,
        advised: bool = False,
        level_width: int = 128,
    ) -> None:
        super().__init__()
        if advised and (num_outputs != 1 or ContextAttention(context) is ContextAttention.FULL):
            raise ValueError('advice is about single values of one output, given a context="separate" from them')
        if ordered_dims and Inputs(inputs) is Inputs.ROTARY:
            raise ValueError('inputs whose order matters enter absolutely: inputs="raw" or inputs="fourier"')
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
            "counts_neighbours": counts_neighbours,
            "ordered_dims": ordered_dims,
            "tells_noise": tells_noise,
            "counts_dims": counts_dims,
            "advised": advised,
            "level_width": level_width,
        }
        self.num_outputs = num_outputs
        self.inputs = Inputs(inputs)
        self.context = ContextAttention(context)
        self.register_buffer("frequencies", frequencies_of_heads(width, heads), persistent=False)
        self.register_buffer("widths", widths_of_crowding(), persistent=False)
        features = {Inputs.ROTARY: 0, Inputs.RAW: 1, Inputs.FOURIER: width}[self.inputs]
        self.ordered_dims = ordered_dims
        self.embed = PreciseLinear(features * max(ordered_dims, 1) + num_outputs, width)
        self.counts_neighbours = counts_neighbours
        self.function_code = nn.Parameter(torch.randn(width)) if tells_noise else None
        self.embed_level = LevelEmbedding(level_width)
        self.dims_code = nn.Parameter(torch.zeros(level_width)) if counts_dims else None
        self.blocks = BiDimensionalBlocks(
            blocks,
            width,
            heads,
            level_width,
            PointAttention(attention),
            crowd_width=2 * WIDTHS if counts_neighbours else 0,
            over_dimensions=not ordered_dims,
        )
        self.head = nn.Sequential(PreciseLinear(width, width), nn.GELU())
        self.out = PreciseLinear(width, num_outputs)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.trust = Trust(width) if advised else None

    @property
    def translation_equivariant(self) -> bool:
        return self.inputs is Inputs.ROTARY

    @property
    def encodes_context(self) -> bool:
        """Whether `encode` and `decode` may stand in for one call with context and targets."""
        return self.context is ContextAttention.SEPARATE

    @property
    def tells_noise(self) -> bool:
        """Whether functions and observations of them can both be asked for."""
        return self.function_code is not None

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        y_t: Float[Tensor, "B N P"],
        level: Float[Tensor, "B N"],
        mask: Bool[Tensor, "B N"] | None = None,
        *,
        num_context: int = 0,
        of_function: Bool[Tensor, "B"] | None = None,
        alone: bool = False,
    ) -> Float[Tensor, "B N P"]:
        """`of_function` marks the tasks whose targets are values of the function; `alone`, none of them sees another."""
        if alone and not self.encodes_context:
            raise ValueError("targets are asked for alone where the context is separate from them")
        x, y_t, level = without_masked(mask, x, y_t, level)
        separate = num_context if self.context is ContextAttention.SEPARATE else 0
        crowd = self._crowd(x, mask, num_context, separate=separate, alone=alone)
        marked = None
        if of_function is not None:
            marked = of_function[:, None] & (torch.arange(x.shape[1], device=x.device) >= num_context)
        turned = self._rotation(x)
        advice = None
        if alone:
            seen = None if mask is None else mask[:, :num_context]
            x_known, y_known, level_known = (t[:, :num_context] for t in (x, y_t, level))
            advice = self._advice(x_known, y_known, level_known, seen, x[:, num_context:], of_function)
        return self._run(
            x, y_t, level, mask, crowd, turned, separate=separate, alone=alone, marked=marked, advice=advice
        )[0]

    def encode(
        self,
        x: Float[Tensor, "B C D"],
        y: Float[Tensor, "B C P"],
        level: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
        x_target: Float[Tensor, "B M D"],
        *,
        of_function: bool = False,
        alone: bool = False,
    ) -> Encoding:
        """What depends on the context and on where the targets are, but not on their values: once for all draws and steps.

        With `of_function` the targets are values of the function, and with `alone` each of them is asked for by itself: the
        same answers as from one call a target, at the price of one call for all.
        """
        x, y, level = without_masked(mask, x, y, level)
        known = x.shape[1]
        both = torch.cat([x, x_target], dim=1)
        mask_both = None if mask is None else torch.cat([mask, torch.ones_like(x_target[..., 0], dtype=torch.bool)], 1)
        crowd = self._crowd(both, mask_both, known, separate=known, alone=alone)
        of_context, of_targets = (None, None) if crowd is None else (crowd[:, :known], crowd[:, known:])
        memories = self._run(x, y, level, mask, of_context, self._rotation(x), separate=known)[1]
        of_each = torch.full((len(x),), of_function, device=x.device)
        advice = self._advice(x, y, level, mask, x_target, of_each) if alone else None
        return Encoding(memories, mask, x_target, self._rotation(x_target), of_targets, of_function, alone, advice)

    def decode(
        self, y_t: Float[Tensor, "R M P"], level: Float[Tensor, ""], encoding: Encoding
    ) -> Float[Tensor, "R M P"]:
        """The output at the targets of R = S * B rows: S draws for each of the B tasks that were encoded."""
        draws = y_t.shape[0] // encoding.x.shape[0]
        x = encoding.x.expand(draws, *encoding.x.shape).flatten(0, 1)
        mask, memories = encoding.mask, list(encoding.memories)
        if not encoding.alone:
            memories = [memory.repeated(draws) for memory in memories]
            if mask is not None:
                known = mask.expand(draws, *mask.shape).flatten(0, 1)
                mask = torch.cat([known, torch.ones_like(x[..., 0], dtype=torch.bool)], dim=1)
        return self._run(
            x,
            y_t,
            level[None, None],
            mask,
            encoding.crowd,
            encoding.rotation,
            memories=memories,
            alone=encoding.alone,
            marked=torch.ones_like(x[:1, :1, 0], dtype=torch.bool) if encoding.of_function else None,
            advice=encoding.advice,
        )[0]

    def _run(
        self,
        x: Float[Tensor, "R N D"],
        y_t: Float[Tensor, "R N P"],
        level: Float[Tensor, "#R #N"],
        mask: Bool[Tensor, "_ K"] | None,
        crowd: Float[Tensor, "B N W"] | None,
        rotation: Rotation | None,
        *,
        separate: int = 0,
        memories: Sequence[Memory] | None = None,
        alone: bool = False,
        marked: Bool[Tensor, "#R #N"] | None = None,
        advice: Advice | None = None,
    ) -> tuple[Float[Tensor, "R N P"], tuple[Memory, ...]]:
        s = gelu(self.embed(self._features(x, y_t)))
        if marked is not None:
            if self.function_code is None:
                raise ValueError("this network does not tell functions from observations")
            s = s + (marked[..., None, None] * self.function_code).to(s.dtype)
        levels = self.embed_level(level)
        if self.dims_code is not None:
            levels = levels + DIMS_SCALE * math.log(x.shape[-1]) * self.dims_code
        total, left = self.blocks(s, levels, crowd, rotation, mask, separate=separate, memories=memories, alone=alone)
        features = self.head(total.mean(dim=2))
        output = self.out(features)
        if advice is not None:  # about the targets, which are the last points
            assert self.trust is not None
            known = output.shape[1] - advice.mean.shape[-1]
            targets = (t[:, known:] for t in (output, features, y_t, level.expand(-1, output.shape[1])))
            output = torch.cat([output[:, :known], self.trust(*targets, advice)], dim=1)
        return output, left

    def _advice(
        self,
        x: Float[Tensor, "B C D"],
        y_t: Float[Tensor, "B C P"],
        level: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
        x_target: Float[Tensor, "B M D"],
        of_function: Bool[Tensor, "B"] | None,
    ) -> Advice | None:
        if self.trust is None:
            return None
        if mask is None:
            mask = torch.ones_like(level, dtype=torch.bool)
        if of_function is None:
            of_function = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        return advise(x, y_t[..., 0], level, mask, x_target, of_function)

    def _rotation(self, x: Float[Tensor, "B N D"]) -> Rotation | None:
        return Rotation(x[..., None, None] * self.frequencies) if self.inputs is Inputs.ROTARY else None

    def _crowd(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"] | None,
        num_context: int,
        *,
        separate: int,
        alone: bool = False,
    ) -> Float[Tensor, "B N W"] | None:
        if not self.counts_neighbours:
            return None
        return crowding_by_role(x, mask, self.widths, num_context=num_context, separate=separate, alone=alone)

    def _features(self, x: Float[Tensor, "B N D"], y_t: Float[Tensor, "B N P"]) -> Float[Tensor, "B N T F"]:
        """The values beside the coordinate of each input dimension, or beside all of them.

        Where coordinates enter as differences only, all dimensions of a point start alike, and one token stands for all of
        them (T = 1) until points that differ in them were read.
        """
        match self.inputs:
            case Inputs.ROTARY:
                places = x[:, :, :1, None][..., :0]
            case Inputs.RAW:
                places = x[..., None]
            case Inputs.FOURIER:
                places = sinusoids(x, self.frequencies.flatten())
        if self.ordered_dims:
            places = places.flatten(-2)[:, :, None]
        values = y_t[:, :, None, :].expand(-1, -1, places.shape[2], -1)
        return torch.cat([places, values], dim=-1)
