"""The network that denoises inputs and outputs together: the same blocks, a noise level for each of the two, and two heads.

What it says of inputs is equivariant to the order of points and of input dimensions; what it says of outputs is equivariant to
the order of points and invariant to that of dimensions. Regression is the case of known inputs: `encode_targets` and `denoise`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from ndp.core.typing import LevelOfRows
from ndp.diffusion.levels import CLEAN, NOISE, alpha, sigma
from ndp.networks.attention import Memory, PointAttention
from ndp.networks.blocks import BiDimensionalBlocks, Layout
from ndp.networks.embedding import (
    WIDTHS,
    LevelEmbedding,
    PreciseLinear,
    Rotation,
    density_widths,
    frequencies_of_heads,
    local_density,
    without_masked,
)
from ndp.networks.settings import check_settings


@dataclass(frozen=True)
class JointEncoding:
    """A context as targets see it: keys and values in every block, and where its points are."""

    memories: tuple[Memory, ...]
    mask: Bool[Tensor, "B C"] | None
    place: Float[Tensor, "B C D"]


@dataclass(frozen=True)
class KnownInputs:
    """Targets whose inputs are known, beside a context, and whether they are independent of each other."""

    context: JointEncoding
    x: Float[Tensor, "B M D"]
    independent: bool


@final
class JointAttention(nn.Module):
    """Blocks of attention over dimensions and points, with one head for each point and one for each of its coordinates.

    A coordinate enters as a number and, `rotary`, turns features as well. The context reads from itself only.

    The distribution of an input given its value is wide and has many modes: it depends on the function everywhere. So the
    network has about `anchor_points` points of a grid over the box [-1, 1]^D, whose places are known and whose values are not.
    They are encoded once with the context. In the first half of the blocks they only read; in the second half other points
    read from them too, so that a target finds candidate inputs to attend to. The paper's network is
    `attention="per_dimension", rotary=False, local_density=False, anchor_points=0`.
    """

    translation_equivariant = False
    encodes_context = True
    separates_noise = False

    frequencies: Tensor
    widths: Tensor

    def __init__(
        self,
        *,
        num_outputs: int = 1,
        width: int = 64,
        heads: int = 8,
        blocks: int = 5,
        attention: PointAttention | str = PointAttention.SUMMED,
        rotary: bool = True,
        local_density: bool = True,
        anchor_points: int = 64,
        level_width: int = 128,
    ) -> None:
        super().__init__()
        self.config = {  # the arguments that make this network again
            "num_outputs": num_outputs,
            "width": width,
            "heads": heads,
            "blocks": blocks,
            "attention": str(PointAttention(attention)),
            "rotary": rotary,
            "local_density": local_density,
            "anchor_points": anchor_points,
            "level_width": level_width,
        }
        check_settings(self.config, switches=("rotary", "local_density"))
        if width % (2 * heads):
            raise ValueError(
                f"width must be a multiple of twice the number of heads; {width} is not one of {2 * heads}"
            )
        self.num_outputs, self.rotary = num_outputs, rotary
        self.local_density, self.anchor_points = local_density, anchor_points
        self.register_buffer("frequencies", frequencies_of_heads(width, heads), persistent=False)
        self.register_buffer("widths", density_widths(), persistent=False)
        # Sines and cosines of the coordinate in its place drown the value: such a network never came to use its context.
        self.embed = PreciseLinear(1 + num_outputs, width)
        self.embed_level = LevelEmbedding(level_width)
        self.embed_level_of_inputs = LevelEmbedding(level_width)
        self.blocks = BiDimensionalBlocks(
            blocks,
            width,
            heads,
            level_width,
            PointAttention(attention),
            density_width=2 * WIDTHS if local_density else 0,
        )
        self.head = nn.Sequential(PreciseLinear(width, width), nn.GELU())
        self.out = PreciseLinear(width, num_outputs)
        self.head_of_inputs = nn.Sequential(PreciseLinear(width, width), nn.GELU())
        self.out_of_inputs = PreciseLinear(width, 1)
        for out in (self.out, self.out_of_inputs):
            nn.init.zeros_(out.weight)
            nn.init.zeros_(out.bias)

    def forward(
        self,
        x_t: Float[Tensor, "B N D"],
        y_t: Float[Tensor, "B N P"],
        level_x: Float[Tensor, "B N"],
        level_y: Float[Tensor, "B N"],
        mask: Bool[Tensor, "B N"] | None = None,
        *,
        num_context: int = 0,
        independent: bool = False,
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B N P"]]:
        x_t, y_t, level_x, level_y = without_masked(mask, x_t, y_t, level_x, level_y)
        place, y_t, level_x, level_y, mask = self._with_anchors(self._place(x_t, level_x), y_t, level_x, level_y, mask)
        anchors = place.shape[1] - x_t.shape[1]
        known = anchors + num_context
        context, targets = place[:, :known], place[:, known:]
        mask_context = None if mask is None else mask[:, :known]
        density = None
        if self.local_density:
            mask_targets = None if mask is None else mask[:, known:]
            of_context = self._density_of_context(context, mask_context)
            density = torch.cat(
                [of_context, self._density(targets, mask_targets, context, mask_context, independent)], dim=1
            )
        out_x, out_y, _ = self._run(
            place, y_t, level_x, level_y, mask, density, separate=known, independent=independent
        )
        return out_x[:, anchors:], out_y[:, anchors:]

    def encode_context(
        self,
        x: Float[Tensor, "B C D"],
        y_t: Float[Tensor, "B C P"],
        level: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
    ) -> JointEncoding:
        """What depends on the context only, whose inputs are known: computed once for all targets, draws and steps."""
        x, y_t, level = without_masked(mask, x, y_t, level)
        known = torch.full_like(level, CLEAN)
        place, y_t, level_x, level, mask = self._with_anchors(self._place(x, known), y_t, known, level, mask)
        density = self._density_of_context(place, mask) if self.local_density else None
        _, _, memories = self._run(place, y_t, level_x, level, mask, density, separate=place.shape[1])
        return JointEncoding(memories, mask, place)

    def encode_targets(
        self, context: JointEncoding, x: Float[Tensor, "B M D"], *, joint: bool = True, observation_noise: bool = True
    ) -> KnownInputs:
        """Targets whose inputs are known, which is regression. There is one kind of values, whatever `observation_noise` is."""
        return KnownInputs(context, x, independent=not joint)

    def denoise(self, targets: KnownInputs, y_t: Float[Tensor, "R M P"], level: LevelOfRows) -> Float[Tensor, "R M P"]:
        """The output for values at known inputs."""
        clean = level.new_full((), CLEAN)
        return self.denoise_points(targets.context, targets.x, y_t, clean, level, independent=targets.independent)[1]

    def denoise_points(
        self,
        context: JointEncoding,
        x_t: Float[Tensor, "Q M D"],
        y_t: Float[Tensor, "R M P"],
        level_x: Float[Tensor, ""],
        level_y: LevelOfRows,
        *,
        independent: bool = False,
    ) -> tuple[Float[Tensor, "R M D"], Float[Tensor, "R M P"]]:
        """The outputs for inputs and values at R = S * B rows: S draws for each of the B tasks that were encoded.

        `x_t` has a row for each of them, or one a task where inputs are the same for all draws. Targets are independent of each
        other where they are `independent`.
        """
        tasks = context.place.shape[0]
        place = self._place(x_t, level_x[None, None])

        def repeated(of_tasks: Tensor, rows: int) -> Tensor:
            return of_tasks.expand(rows // tasks, *of_tasks.shape).flatten(0, 1)

        known, mask = context.mask, None
        if known is not None:
            rows = repeated(known, len(y_t))
            mask = torch.cat([rows, rows.new_ones(y_t.shape[:2])], dim=1)
        density = None
        if self.local_density:
            known = None if known is None else repeated(known, len(x_t))
            density = self._density(place, None, repeated(context.place, len(x_t)), known, independent)
        memories = [memory.repeated(len(y_t) // tasks) for memory in context.memories]
        levels = level_x[None, None], level_y.reshape(level_y.shape or (1, 1))
        return self._run(place, y_t, *levels, mask, density, memories=memories, independent=independent)[:2]

    def _run(
        self,
        place: Float[Tensor, "Q N D"],
        y_t: Float[Tensor, "R N P"],
        level_x: Float[Tensor, "#R #N"],
        level_y: Float[Tensor, "#R #N"],
        mask: Bool[Tensor, "R K"] | None,
        density: Float[Tensor, "Q N W"] | None,
        *,
        separate: int = 0,
        memories: Sequence[Memory] | None = None,
        independent: bool = False,
    ) -> tuple[Float[Tensor, "R N D"], Float[Tensor, "R N P"], tuple[Memory, ...]]:
        coordinates = place.expand(len(y_t) // len(place), *place.shape).flatten(0, 1)[..., None]
        values = y_t[:, :, None, :].expand(-1, -1, place.shape[-1], -1)
        s = gelu(self.embed(torch.cat([coordinates, values], dim=-1)))
        rotation = Rotation(place[..., None, None] * self.frequencies) if self.rotary else None
        keys = place.shape[1] + (0 if memories is None else memories[0].key.shape[-2])
        level = self.embed_level(level_y) + self.embed_level_of_inputs(level_x)
        early = self._without_anchors(mask, place.shape[-1], rows=len(y_t), keys=keys)
        layout = Layout(rotation, density, mask, separate, memories, independent, early)
        total, left = self.blocks(s, level, layout)
        out_x = self.out_of_inputs(self.head_of_inputs(total))[..., 0]
        return out_x, self.out(self.head(total.mean(dim=2))), left

    def _place(self, x_t: Float[Tensor, "Q N D"], level: Float[Tensor, "#Q #N"]) -> Float[Tensor, "Q N D"]:
        """Where a noised input is, as far as it says: E[x0 | x_t] for Gaussian x0 as wide as the box (variance 1/3)."""
        if not self.rotary:  # as in the paper
            return x_t
        a, s = alpha(level)[..., None], sigma(level)[..., None]
        return a * x_t / (a**2 + 3 * s**2)

    def _with_anchors(
        self, place: Tensor, y_t: Tensor, level_x: Tensor, level_y: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Anchor points in front of all points: their places are CLEAN, their values all noise."""
        if not self.anchor_points:
            return place, y_t, level_x, level_y, mask
        tasks, _, dim = place.shape
        anchors = grid_of_box(self.anchor_points, dim, like=place).expand(tasks, -1, -1)

        def before(those: Tensor, value: float) -> Tensor:
            return torch.cat([those.new_full((*anchors.shape[:2], *those.shape[2:]), value), those], dim=1)

        mask = None if mask is None else torch.cat([mask.new_ones(anchors.shape[:2]), mask], dim=1)
        place = torch.cat([anchors, place], dim=1)
        return place, before(y_t, 0.0), before(level_x, CLEAN), before(level_y, NOISE), mask

    def _without_anchors(
        self, mask: Bool[Tensor, "R K"] | None, dim: int, *, rows: int, keys: int
    ) -> Bool[Tensor, "R K"] | None:
        """The points that others read from in the first half of the blocks: all but anchor points, which know nothing yet."""
        if not self.anchor_points:
            return None
        read = torch.arange(keys, device=self.widths.device) >= _side(self.anchor_points, dim) ** dim
        return read.expand(rows, -1) if mask is None else mask & read

    def _density_of_context(
        self, context: Float[Tensor, "B C D"], mask: Bool[Tensor, "B C"] | None
    ) -> Float[Tensor, "B C W"]:
        near = local_density(context, context, mask, self.widths)
        return torch.cat([near, torch.zeros_like(near)], dim=-1)

    def _density(
        self,
        targets: Float[Tensor, "Q M D"],
        mask_targets: Bool[Tensor, "Q M"] | None,
        context: Float[Tensor, "Q C D"],
        mask_context: Bool[Tensor, "Q C"] | None,
        independent: bool,
    ) -> Float[Tensor, "Q M W"]:
        """The local density of context and targets around each target; an independent target counts itself only."""
        by_context = local_density(targets, context, mask_context, self.widths)
        if independent:
            by_targets = torch.full_like(by_context, math.log(2) / 3)
        else:
            by_targets = local_density(targets, targets, mask_targets, self.widths)
        return torch.cat([by_context, by_targets], dim=-1)


def grid_of_box(count: int, dim: int, *, like: Tensor) -> Float[Tensor, "G {dim}"]:
    """About `count` points of a regular grid in [-1, 1]^dim, each in the middle of its cell; kind and device of `like`."""
    side = _side(count, dim)
    middle = (2 * torch.arange(side, dtype=like.dtype, device=like.device) + 1) / side - 1
    return torch.cartesian_prod(*[middle] * dim).reshape(-1, dim)


def _side(count: int, dim: int) -> int:
    return max(1, round(count ** (1 / dim)))
