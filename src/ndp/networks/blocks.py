"""The bi-dimensional attention block, and the stack of them that all networks here are made of."""

from collections.abc import Sequence

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from ndp.networks.attention import AttentionOverDimensions, AttentionOverPoints, Memory, PointAttention
from ndp.networks.embedding import Rotation


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
        self,
        s: Float[Tensor, "R N T H"],
        level: Float[Tensor, "#R #N E"],
        density: Float[Tensor, "B N W"] | None,
        rotation: Rotation | None,
        mask: Bool[Tensor, "_ K"] | None,
        *,
        separate: int = 0,
        memories: Sequence[Memory] | None = None,
        independent: bool = False,
        early_mask: Bool[Tensor, "_ K"] | None = None,
    ) -> tuple[Float[Tensor, "R N D H"], tuple[Memory, ...]]:
        """`level` is embedded; `separate`, `memories` and `independent` say who reads from whom (`AttentionOverPoints`).

        The first half of the blocks has `early_mask`, if given, in place of `mask`: who is not in it listens, and is not
        heard yet.
        """
        total = s.new_zeros(())
        left: list[Memory] = []
        for index, block in enumerate(self):
            memory = None if memories is None else memories[index]
            seen = early_mask if early_mask is not None and index < len(self) // 2 else mask
            s, skip, own = block(
                s, level, density, rotation, seen, separate=separate, memory=memory, independent=independent
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
        density: Float[Tensor, "B N W"] | None,
        rotation: Rotation | None,
        mask: Bool[Tensor, "_ K"] | None,
        *,
        separate: int = 0,
        memory: Memory | None = None,
        independent: bool = False,
    ) -> tuple[Float[Tensor, "R N D H"], Float[Tensor, "R N D H"], Memory]:
        informed = s + self.level(level)[:, :, None, :]
        if self.density is not None and density is not None:  # rows may be several draws of the same tasks
            informed = (informed.unflatten(0, (-1, len(density))) + self.density(density)[:, :, None]).flatten(0, 1)
        over_points, own = self.over_points(
            informed, rotation, mask, separate=separate, memory=memory, independent=independent
        )
        both = over_points if self.over_dimensions is None else self.over_dimensions(informed) + over_points
        residual, skip = gelu(both).chunk(2, dim=-1)
        return (s + residual) * 0.5**0.5, skip, own
