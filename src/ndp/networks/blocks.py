"""The bi-dimensional attention block, and the stack of them that all networks here are made of."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from ndp.networks.attention import AttentionOverDimensions, AttentionOverPoints, Memory, PointAttention
from ndp.networks.embedding import Rotation


@dataclass(frozen=True)
class Layout:
    """Where the points of a call are, and which of them read from which.

    `separate`, `memories` and `independent` are those of `AttentionOverPoints`; `memories` has one for each block. The first
    half of the blocks has `early_mask`, if given, in place of `mask`: points that it leaves out read, and are not read yet.
    """

    rotation: Rotation | None
    density: Float[Tensor, "B N W"] | None
    mask: Bool[Tensor, "_ K"] | None
    separate: int = 0
    memories: Sequence[Memory] | None = None
    independent: bool = False
    early_mask: Bool[Tensor, "_ K"] | None = None


class BiDimensionalBlocks(nn.ModuleList):
    """Blocks one after another; the sum of their skips, scaled to keep its size, is what a head reads."""

    def __init__(
        self,
        count: int,
        width: int,
        heads: int,
        level_width: int,
        attention: PointAttention,
        *,
        density_width: int,
        over_dimensions: bool = True,
    ) -> None:
        super().__init__(
            BiDimensionalBlock(
                width,
                heads,
                level_width,
                attention,
                density_width=density_width,
                over_dimensions=over_dimensions,
            )
            for _ in range(count)
        )

    def forward(
        self, s: Float[Tensor, "R N T H"], level: Float[Tensor, "#R #N E"], layout: Layout
    ) -> tuple[Float[Tensor, "R N D H"], tuple[Memory, ...]]:
        """What a head reads, and the keys and values of every block. `level` is embedded."""
        total = s.new_zeros(())
        left: list[Memory] = []
        for index, block in enumerate(self):
            early = layout.early_mask is not None and index < len(self) // 2
            s, skip, own = block(
                s,
                level,
                layout,
                mask=layout.early_mask if early else layout.mask,
                memory=None if layout.memories is None else layout.memories[index],
            )
            total = total + skip
            left.append(own)
        return total * len(self) ** -0.5, tuple(left)


class BiDimensionalBlock(nn.Module):
    """Attention over dimensions plus attention over points, a nonlinearity, and its halves as residual and skip."""

    def __init__(
        self,
        width: int,
        heads: int,
        level_width: int,
        attention: PointAttention,
        *,
        density_width: int,
        over_dimensions: bool = True,
    ) -> None:
        super().__init__()
        self.level = nn.Linear(level_width, width)
        self.density = nn.Linear(density_width, width, bias=False) if density_width else None
        self.over_dimensions = AttentionOverDimensions(width, 2 * width, heads) if over_dimensions else None
        self.over_points = AttentionOverPoints(width, 2 * width, heads, attention)

    def forward(
        self,
        s: Float[Tensor, "R N T H"],
        level: Float[Tensor, "#R #N E"],
        layout: Layout,
        *,
        mask: Bool[Tensor, "_ K"] | None,
        memory: Memory | None,
    ) -> tuple[Float[Tensor, "R N D H"], Float[Tensor, "R N D H"], Memory]:
        informed = s + self.level(level)[:, :, None, :]
        if self.density is not None and layout.density is not None:  # rows may be several draws of the same tasks
            density = self.density(layout.density)[:, :, None]
            informed = (informed.unflatten(0, (-1, len(density))) + density).flatten(0, 1)
        over_points, own = self.over_points(
            informed,
            layout.rotation,
            mask,
            separate=layout.separate,
            memory=memory,
            independent=layout.independent,
        )
        both = over_points if self.over_dimensions is None else self.over_dimensions(informed) + over_points
        residual, skip = gelu(both).chunk(2, dim=-1)
        return (s + residual) * 0.5**0.5, skip, own
