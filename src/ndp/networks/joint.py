"""The network that denoises inputs and outputs together: the same blocks, a noise level for each of the two, and two heads.

What it says of inputs is equivariant to the order of points and of input dimensions; what it says of outputs is equivariant to
the order of points and invariant to that of dimensions. With every input at CLEAN it is a network of outputs (`KnownInputs`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from ndp.core.typing import JointNetwork
from ndp.diffusion.levels import CLEAN, NOISE, alpha, sigma
from ndp.networks.attention import Memory, PointAttention
from ndp.networks.blocks import BiDimensionalBlocks
from ndp.networks.embedding import (
    WIDTHS,
    LevelEmbedding,
    PreciseLinear,
    Rotation,
    crowding,
    frequencies_of_heads,
    widths_of_crowding,
    without_masked,
)


@dataclass(frozen=True)
class JointEncoding:
    """A context as targets see it: keys and values in every block, and where its points are."""

    memories: tuple[Memory, ...]
    mask: Bool[Tensor, "B C"] | None
    place: Float[Tensor, "B C D"]


@final
class JointAttention(nn.Module):
    """Blocks of attention over dimensions and points, with one head for each point and one for each of its coordinates.

    A coordinate enters as a number and, `rotary`, turns features as well. The context reads from itself only.

    The law of an input is wide and has many modes where functions have many inverses: to know it is to know the function
    everywhere. So the box [-1, 1]^D is looked at through about `scouts` points of a grid, whose places are known and whose
    values are not: points like all others, encoded once with the context. In the first half of the blocks they listen; in the
    second half they are heard as well, and a target that asks where a value may be finds candidates to attend to. The paper's
    network is `attention="per_dimension", rotary=False, counts_neighbours=False, scouts=0`.
    """

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
        counts_neighbours: bool = True,
        scouts: int = 64,
        level_width: int = 128,
    ) -> None:
        super().__init__()
        if width % (2 * heads):
            raise ValueError(
                f"width must be a multiple of twice the number of heads; {width} is not one of {2 * heads}"
            )
        if scouts < 0:
            raise ValueError(f"there cannot be {scouts} scouts")
        self.config = {  # the arguments that make this network again
            "num_outputs": num_outputs,
            "width": width,
            "heads": heads,
            "blocks": blocks,
            "attention": str(PointAttention(attention)),
            "rotary": rotary,
            "counts_neighbours": counts_neighbours,
            "scouts": scouts,
            "level_width": level_width,
        }
        self.num_outputs, self.rotary = num_outputs, rotary
        self.counts_neighbours, self.scouts = counts_neighbours, scouts
        self.register_buffer("frequencies", frequencies_of_heads(width, heads), persistent=False)
        self.register_buffer("widths", widths_of_crowding(), persistent=False)
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
            crowd_width=2 * WIDTHS if counts_neighbours else 0,
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
        alone: bool = False,
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B N P"]]:
        x_t, y_t, level_x, level_y = without_masked(mask, x_t, y_t, level_x, level_y)
        place, y_t, level_x, level_y, mask = self._with_scouts(self._place(x_t, level_x), y_t, level_x, level_y, mask)
        scouts = place.shape[1] - x_t.shape[1]
        known = scouts + num_context
        context, targets = place[:, :known], place[:, known:]
        mask_context = None if mask is None else mask[:, :known]
        crowd = None
        if self.counts_neighbours:
            mask_targets = None if mask is None else mask[:, known:]
            of_context = self._crowd_of_context(context, mask_context)
            crowd = torch.cat([of_context, self._crowd(targets, mask_targets, context, mask_context, alone)], dim=1)
        out_x, out_y, _ = self._run(place, y_t, level_x, level_y, mask, crowd, separate=known, alone=alone)
        return out_x[:, scouts:], out_y[:, scouts:]

    def encode(
        self,
        x: Float[Tensor, "B C D"],
        y: Float[Tensor, "B C P"],
        level_x: Float[Tensor, "B C"],
        level_y: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
    ) -> JointEncoding:
        """What depends on the context only: once for all targets, draws and steps."""
        x, y, level_x, level_y = without_masked(mask, x, y, level_x, level_y)
        place, y, level_x, level_y, mask = self._with_scouts(self._place(x, level_x), y, level_x, level_y, mask)
        crowd = self._crowd_of_context(place, mask) if self.counts_neighbours else None
        _, _, memories = self._run(place, y, level_x, level_y, mask, crowd, separate=place.shape[1])
        return JointEncoding(memories, mask, place)

    def decode(
        self,
        x_t: Float[Tensor, "Q M D"],
        y_t: Float[Tensor, "R M P"],
        level_x: Float[Tensor, ""],
        level_y: Float[Tensor, ""],
        encoding: JointEncoding,
        *,
        alone: bool = False,
    ) -> tuple[Float[Tensor, "R M D"], Float[Tensor, "R M P"]]:
        """The outputs at the targets of R = S * B rows: S draws for each of the B tasks that were encoded.

        `x_t` has a row for each of them, or one a task where inputs are the same for all draws.
        """
        tasks = encoding.place.shape[0]
        place = self._place(x_t, level_x[None, None])

        def repeated(of_tasks: Tensor, rows: int) -> Tensor:
            return of_tasks.expand(rows // tasks, *of_tasks.shape).flatten(0, 1)

        known, mask = encoding.mask, None
        if known is not None:
            rows = repeated(known, len(y_t))
            mask = torch.cat([rows, rows.new_ones(y_t.shape[:2])], dim=1)
        crowd = None
        if self.counts_neighbours:
            known = None if known is None else repeated(known, len(x_t))
            crowd = self._crowd(place, None, repeated(encoding.place, len(x_t)), known, alone)
        memories = [memory.repeated(len(y_t) // tasks) for memory in encoding.memories]
        levels = level_x[None, None], level_y[None, None]
        return self._run(place, y_t, *levels, mask, crowd, memories=memories, alone=alone)[:2]

    def _run(
        self,
        place: Float[Tensor, "Q N D"],
        y_t: Float[Tensor, "R N P"],
        level_x: Float[Tensor, "#R #N"],
        level_y: Float[Tensor, "#R #N"],
        mask: Bool[Tensor, "R K"] | None,
        crowd: Float[Tensor, "Q N W"] | None,
        *,
        separate: int = 0,
        memories: Sequence[Memory] | None = None,
        alone: bool = False,
    ) -> tuple[Float[Tensor, "R N D"], Float[Tensor, "R N P"], tuple[Memory, ...]]:
        coordinates = place.expand(len(y_t) // len(place), *place.shape).flatten(0, 1)[..., None]
        values = y_t[:, :, None, :].expand(-1, -1, place.shape[-1], -1)
        s = gelu(self.embed(torch.cat([coordinates, values], dim=-1)))
        rotation = Rotation(place[..., None, None] * self.frequencies) if self.rotary else None
        keys = place.shape[1] + (0 if memories is None else memories[0].key.shape[-2])
        level = self.embed_level(level_y) + self.embed_level_of_inputs(level_x)
        total, left = self.blocks(
            s,
            level,
            crowd,
            rotation,
            mask,
            separate=separate,
            memories=memories,
            alone=alone,
            early_mask=self._without_scouts(mask, place.shape[-1], rows=len(y_t), keys=keys),
        )
        out_x = self.out_of_inputs(self.head_of_inputs(total))[..., 0]
        return out_x, self.out(self.head(total.mean(dim=2))), left

    def _place(self, x_t: Float[Tensor, "Q N D"], level: Float[Tensor, "#Q #N"]) -> Float[Tensor, "Q N D"]:
        """Where a noised input is, as far as it says: E[x0 | x_t] for Gaussian x0 as wide as the box (variance 1/3)."""
        if not self.rotary:  # as in the paper
            return x_t
        a, s = alpha(level)[..., None], sigma(level)[..., None]
        return a * x_t / (a**2 + 3 * s**2)

    def _with_scouts(
        self, place: Tensor, y_t: Tensor, level_x: Tensor, level_y: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Scouts in front of all points: their places CLEAN, and of their values nothing."""
        if not self.scouts:
            return place, y_t, level_x, level_y, mask
        tasks, _, dim = place.shape
        scouts = grid_of_box(self.scouts, dim, like=place).expand(tasks, -1, -1)

        def before(those: Tensor, value: float) -> Tensor:
            return torch.cat([those.new_full((*scouts.shape[:2], *those.shape[2:]), value), those], dim=1)

        mask = None if mask is None else torch.cat([mask.new_ones(scouts.shape[:2]), mask], dim=1)
        place = torch.cat([scouts, place], dim=1)
        return place, before(y_t, 0.0), before(level_x, CLEAN), before(level_y, NOISE), mask

    def _without_scouts(
        self, mask: Bool[Tensor, "R K"] | None, dim: int, *, rows: int, keys: int
    ) -> Bool[Tensor, "R K"] | None:
        """Whom points see at first: scouts, who know nothing yet, would only drown the rest."""
        if not self.scouts:
            return None
        heard = torch.arange(keys, device=self.widths.device) >= _side(self.scouts, dim) ** dim
        return heard.expand(rows, -1) if mask is None else mask & heard

    def _crowd_of_context(
        self, context: Float[Tensor, "B C D"], mask: Bool[Tensor, "B C"] | None
    ) -> Float[Tensor, "B C W"]:
        near = crowding(context, context, mask, self.widths)
        return torch.cat([near, torch.zeros_like(near)], dim=-1)

    def _crowd(
        self,
        targets: Float[Tensor, "Q M D"],
        mask_targets: Bool[Tensor, "Q M"] | None,
        context: Float[Tensor, "Q C D"],
        mask_context: Bool[Tensor, "Q C"] | None,
        alone: bool,
    ) -> Float[Tensor, "Q M W"]:
        """How many of the context and of the targets are near each target; who is alone has itself for company."""
        by_context = crowding(targets, context, mask_context, self.widths)
        if alone:
            by_targets = torch.full_like(by_context, math.log(2) / 3)
        else:
            by_targets = crowding(targets, targets, mask_targets, self.widths)
        return torch.cat([by_context, by_targets], dim=-1)


def grid_of_box(count: int, dim: int, *, like: Tensor) -> Float[Tensor, "G {dim}"]:
    """About `count` points of a regular grid in [-1, 1]^dim, each in the middle of its cell; kind and device of `like`."""
    side = _side(count, dim)
    middle = (2 * torch.arange(side, dtype=like.dtype, device=like.device) + 1) / side - 1
    return torch.cartesian_prod(*[middle] * dim).reshape(-1, dim)


def _side(count: int, dim: int) -> int:
    return max(1, round(count ** (1 / dim)))


@dataclass(frozen=True)
class _KnownPlaces:
    """A context that was encoded, where the targets are, and whether each of them is asked for by itself."""

    context: object
    x: Float[Tensor, "B M D"]
    alone: bool


@final
class KnownInputs(nn.Module):
    """A joint network whose inputs are all known: the network of a regression NDP, which is this special case."""

    translation_equivariant = False
    encodes_context = True

    def __init__(self, joint: JointNetwork) -> None:
        super().__init__()
        self.joint = joint

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        y_t: Float[Tensor, "B N P"],
        level: Float[Tensor, "B N"],
        mask: Bool[Tensor, "B N"] | None = None,
        *,
        num_context: int = 0,
    ) -> Float[Tensor, "B N P"]:
        return self.joint(x, y_t, torch.full_like(level, CLEAN), level, mask, num_context=num_context)[1]

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
    ) -> _KnownPlaces:
        if of_function:
            raise ValueError("this network does not tell functions from observations")
        return _KnownPlaces(self.joint.encode(x, y, torch.full_like(level, CLEAN), level, mask), x_target, alone)

    def decode(
        self, y_t: Float[Tensor, "R M P"], level: Float[Tensor, ""], encoding: _KnownPlaces
    ) -> Float[Tensor, "R M P"]:
        places = encoding.x, y_t, torch.full_like(level, CLEAN), level
        return self.joint.decode(*places, encoding.context, alone=encoding.alone)[1]
