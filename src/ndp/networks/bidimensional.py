"""The paper's noise network: bi-dimensional attention, with a noise level of its own at every point.

Equivariant to the order of points, invariant to the order of input dimensions, and its weights know the number of neither.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from ndp.core.messages import short
from ndp.core.typing import LevelOfRows
from ndp.networks.adaptive_experts import ADAPTIVE, AdaptiveExperts, experts_at_targets, experts_given
from ndp.networks.attention import Memory, PointAttention
from ndp.networks.blocks import BiDimensionalBlocks, Layout
from ndp.networks.embedding import (
    WIDTHS,
    LevelEmbedding,
    PreciseLinear,
    Rotation,
    density_by_role,
    density_widths,
    frequencies_of_heads,
    sinusoids,
    without_masked,
)
from ndp.networks.experts import ExpertPosterior, ExpertPredictions, Gate
from ndp.networks.settings import check_settings

INPUT_COUNT_SCALE = 5.0  # so that the code of the number of inputs is learned as fast as the rest


class Inputs(StrEnum):
    """How coordinates enter.

    `ROTARY`: through differences only, so that the network is translation equivariant and has no range to leave.
    `RAW` (the paper's) and `FOURIER`: absolutely, for priors that are not stationary.
    """

    ROTARY = "rotary"
    RAW = "raw"
    FOURIER = "fourier"


class ContextAttention(StrEnum):
    """Which points the context reads from.

    `FULL`: all points (the paper's). `SEPARATE`: the context only, so that its keys and values depend neither on the
    targets nor on the draw nor on the solver's step, and are computed once for a posterior.
    """

    FULL = "full"
    SEPARATE = "separate"


@dataclass(frozen=True)
class ContextEncoding:
    """A context as all targets see it: its points, its keys and values in every block, and the experts given it."""

    x: Float[Tensor, "B C D"]
    y_t: Float[Tensor, "B C P"]
    level: Float[Tensor, "B C"]
    mask: Bool[Tensor, "B C"] | None
    memories: tuple[Memory, ...]
    adaptive: bool = False  # whether the experts adapt to the table

    @cached_property
    def experts(self) -> ExpertPosterior | AdaptiveExperts:
        """Computed when the first independent targets are asked for, and kept."""
        return experts_given(self.x, self.y_t[..., 0], self.level, self.mask, adaptive=self.adaptive).kept()


@dataclass(frozen=True)
class TargetEncoding:
    """Targets that were placed beside a context: everything of theirs that depends neither on values nor on levels."""

    memories: tuple[Memory, ...]
    mask: Bool[Tensor, "B C"] | None
    x: Float[Tensor, "B M D"]
    rotation: Rotation | None
    density: Float[Tensor, "B M W"] | None
    of_function: bool = False  # whether the targets are values of the function, and not observations
    independent: bool = False  # whether the targets are independent of each other, given the context
    experts: ExpertPredictions | None = None


@final
class BiDimensionalAttention(nn.Module):
    """Blocks of attention over dimensions and points; the sum of their skips, averaged over dimensions, is the output.

    The defaults are the library's. The paper's network is `attention="per_dimension", inputs="raw", context="full",
    local_density=False`; for images, where the order of coordinates matters, it has one token a point that holds all
    of them, and no attention over dimensions: `ordered_dims=2`. The number of input dimensions is then fixed.

    `local_density` gives every point the number of its neighbours at several distances. `input_count` gives the network the
    number of input dimensions, and works for numbers between those of training. A network that `separates_noise` has two kinds
    of targets: observations, and values of the function without observation noise, which a learned code marks; its context is
    observations. With `experts`, a gate mixes in the predictions of GP experts for independent targets: True is a fixed grid,
    and with "adaptive" there are also experts whose lengthscales and noise adapt to the context.
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
        local_density: bool = True,
        ordered_dims: int = 0,
        separates_noise: bool = False,
        input_count: bool = False,
        experts: bool | str = False,
        level_width: int = 128,
    ) -> None:
        super().__init__()
        self.config = {  # the arguments that make this network again
            "num_outputs": num_outputs,
            "width": width,
            "heads": heads,
            "blocks": blocks,
            "attention": str(PointAttention(attention)),
            "inputs": str(Inputs(inputs)),
            "context": str(ContextAttention(context)),
            "local_density": local_density,
            "ordered_dims": ordered_dims,
            "separates_noise": separates_noise,
            "input_count": input_count,
            "experts": experts,
            "level_width": level_width,
        }
        check_settings(self.config, switches=("local_density", "separates_noise", "input_count"))
        if experts not in (False, True, ADAPTIVE):
            raise ValueError(f'experts must be true, false or "{ADAPTIVE}", not {short(experts)}')
        if experts and (num_outputs != 1 or ContextAttention(context) is ContextAttention.FULL):
            raise ValueError('experts need one output and context="separate": they predict single values')
        if ordered_dims and Inputs(inputs) is Inputs.ROTARY:
            raise ValueError('inputs whose order matters enter absolutely: inputs="raw" or inputs="fourier"')
        if width % (2 * heads):
            raise ValueError(
                f"width must be a multiple of twice the number of heads; {width} is not one of {2 * heads}"
            )
        self.num_outputs = num_outputs
        self.inputs = Inputs(inputs)
        self.context = ContextAttention(context)
        self.register_buffer("frequencies", frequencies_of_heads(width, heads), persistent=False)
        self.register_buffer("widths", density_widths(), persistent=False)
        features = {Inputs.ROTARY: 0, Inputs.RAW: 1, Inputs.FOURIER: width}[self.inputs]
        self.ordered_dims = ordered_dims
        self.embed = PreciseLinear(features * max(ordered_dims, 1) + num_outputs, width)
        self.local_density = local_density
        self.function_code = nn.Parameter(torch.randn(width)) if separates_noise else None
        self.embed_level = LevelEmbedding(level_width)
        self.input_count_code = nn.Parameter(torch.zeros(level_width)) if input_count else None
        self.blocks = BiDimensionalBlocks(
            blocks,
            width,
            heads,
            level_width,
            PointAttention(attention),
            density_width=2 * WIDTHS if local_density else 0,
            over_dimensions=not ordered_dims,
        )
        self.head = nn.Sequential(PreciseLinear(width, width), nn.GELU())
        self.out = PreciseLinear(width, num_outputs)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.gate = Gate(width) if experts else None
        self.adaptive = experts == ADAPTIVE

    @property
    def translation_equivariant(self) -> bool:
        return self.inputs is Inputs.ROTARY

    @property
    def encodes_context(self) -> bool:
        """Whether the context does not depend on the targets, so that `encode_context` can be called once for all of them."""
        return self.context is ContextAttention.SEPARATE

    @property
    def separates_noise(self) -> bool:
        """Whether targets can be function values or new observations."""
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
        independent: bool = False,
    ) -> Float[Tensor, "B N P"]:
        """`of_function` marks tasks whose targets are values of the function; `independent` targets see the context only."""
        if independent and not self.encodes_context:
            raise ValueError('independent targets need context="separate": the context must not depend on them')
        x, y_t, level = without_masked(mask, x, y_t, level)
        separate = num_context if self.context is ContextAttention.SEPARATE else 0
        density = self._density(x, mask, num_context, separate=separate, independent=independent)
        marked = None
        if of_function is not None:
            marked = of_function[:, None] & (torch.arange(x.shape[1], device=x.device) >= num_context)
        experts = None
        if independent and self.gate is not None:
            points = x, y_t[..., 0], level, mask
            experts = experts_at_targets(*points, num_context, of_function, adaptive=self.adaptive)
        layout = Layout(self._rotation(x), density, mask, separate=separate, independent=independent)
        return self._run(x, y_t, level, layout, marked=marked, experts=experts)[0]

    def encode_context(
        self,
        x: Float[Tensor, "B C D"],
        y_t: Float[Tensor, "B C P"],
        level: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
    ) -> ContextEncoding:
        """Everything that depends on the context alone: computed once for all targets, draws and steps of a solver."""
        x, y_t, level = without_masked(mask, x, y_t, level)
        known = x.shape[1]
        density = self._density(x, mask, known, separate=known)
        memories = self._run(x, y_t, level, Layout(self._rotation(x), density, mask, separate=known))[1]
        return ContextEncoding(x, y_t, level, mask, memories, self.adaptive)

    def encode_targets(
        self, context: ContextEncoding, x: Float[Tensor, "B M D"], *, joint: bool = True, observation_noise: bool = True
    ) -> TargetEncoding:
        """Everything that depends on where the targets are: computed once for all draws and steps of a solver.

        With `joint=False` all targets are denoised in one call, and each as if it were the only one.
        """
        of_function = self.separates_noise and not observation_noise
        known = context.x.shape[1]
        both = torch.cat([context.x, x], dim=1)
        mask = context.mask
        mask = None if mask is None else torch.cat([mask, torch.ones_like(x[..., 0], dtype=torch.bool)], 1)
        density = self._density(both, mask, known, separate=known, independent=not joint, rows=slice(known, None))
        experts = None
        if not joint and self.gate is not None:
            experts = context.experts.predict(x, torch.full((len(x),), of_function, device=x.device))
        return TargetEncoding(
            context.memories, context.mask, x, self._rotation(x), density, of_function, not joint, experts
        )

    def denoise(
        self, targets: TargetEncoding, y_t: Float[Tensor, "R M P"], level: LevelOfRows
    ) -> Float[Tensor, "R M P"]:
        """The output at R = S * B rows: S draws for each of the B tasks that were encoded."""
        draws = y_t.shape[0] // targets.x.shape[0]
        x = targets.x.expand(draws, *targets.x.shape).flatten(0, 1)
        mask, memories = targets.mask, list(targets.memories)
        if not targets.independent:
            memories = [memory.repeated(draws) for memory in memories]
            if mask is not None:
                known = mask.expand(draws, *mask.shape).flatten(0, 1)
                mask = torch.cat([known, torch.ones_like(x[..., 0], dtype=torch.bool)], dim=1)
        layout = Layout(targets.rotation, targets.density, mask, memories=memories, independent=targets.independent)
        marked = torch.ones_like(x[:1, :1, 0], dtype=torch.bool) if targets.of_function else None
        return self._run(x, y_t, level.reshape(level.shape or (1, 1)), layout, marked=marked, experts=targets.experts)[
            0
        ]

    def _run(
        self,
        x: Float[Tensor, "R N D"],
        y_t: Float[Tensor, "R N P"],
        level: Float[Tensor, "#R #N"],
        layout: Layout,
        *,
        marked: Bool[Tensor, "#R #N"] | None = None,
        experts: ExpertPredictions | None = None,
    ) -> tuple[Float[Tensor, "R N P"], tuple[Memory, ...]]:
        """The output, and the keys and values of every block. `marked` points are values of the function."""
        s = gelu(self.embed(self._features(x, y_t)))
        if marked is not None:
            if self.function_code is None:
                raise ValueError("this network has one kind of values: it does not separate functions from their noise")
            s = s + (marked[..., None, None] * self.function_code).to(s.dtype)
        levels = self.embed_level(level)
        if self.input_count_code is not None:
            levels = levels + INPUT_COUNT_SCALE * math.log(x.shape[-1]) * self.input_count_code
        total, left = self.blocks(s, levels, layout)
        features = self.head(total.mean(dim=2))
        output = self.out(features)
        if experts is not None:  # for the targets, which are the last points
            assert self.gate is not None
            known = output.shape[1] - experts.mean.shape[-1]
            targets = (t[:, known:] for t in (output, features, y_t, level.expand(-1, output.shape[1])))
            output = torch.cat([output[:, :known], self.gate(*targets, experts)], dim=1)
        return output, left

    def _rotation(self, x: Float[Tensor, "B N D"]) -> Rotation | None:
        return Rotation(x[..., None, None] * self.frequencies) if self.inputs is Inputs.ROTARY else None

    def _density(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"] | None,
        num_context: int,
        *,
        separate: int,
        independent: bool = False,
        rows: slice = slice(None),
    ) -> Float[Tensor, "B _ W"] | None:
        if not self.local_density:
            return None
        return density_by_role(
            x, mask, self.widths, num_context=num_context, separate=separate, independent=independent, rows=rows
        )

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
