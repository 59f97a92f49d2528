"""The network for images: attention over points, which know the order of their coordinates. Nothing is of quadratic size.

Equivariant to the order of points, and its weights do not know their number: any resolution, any set of coordinates.
"""

from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ndp.networks.attention import AttentionOverPoints, PointAttention
from ndp.networks.embedding import (
    FASTEST,
    SLOWEST,
    LevelEmbedding,
    PreciseLinear,
    Rotation,
    log_spaced,
    sinusoids,
    without_masked,
)
from ndp.networks.linear import Linear
from ndp.networks.settings import check_settings

ABSOLUTE = 16  # frequencies by which a token knows where it is


@final
class ImageAttention(nn.Module):
    """Blocks of attention over points and a small network, each told the noise level of every point.

    Coordinates enter twice: absolutely, for a face has its eyes somewhere, and as rotary positions, one half of a head's
    features turned along each input dimension. Context points are points without noise among the others, and read from all.
    """

    frequencies: Tensor
    directions: Tensor

    def __init__(
        self,
        *,
        num_outputs: int = 1,
        dims: int = 2,
        width: int = 192,
        heads: int = 6,
        blocks: int = 6,
        expansion: int = 4,
        level_width: int = 64,
    ) -> None:
        super().__init__()
        self.config = {  # the arguments that make this network again
            "num_outputs": num_outputs,
            "dims": dims,
            "width": width,
            "heads": heads,
            "blocks": blocks,
            "expansion": expansion,
            "level_width": level_width,
        }
        check_settings(self.config)
        if width % (2 * heads * dims):
            raise ValueError(
                f"width must be a multiple of {2 * heads * dims}: pairs of features of {heads} heads, turned along {dims} "
                f"input dimensions; {width} is not"
            )
        self.num_outputs = num_outputs
        self.dims = dims
        # Along every dimension each head spans the whole range of frequencies, and no two heads hold the same.
        spectrum = log_spaced(width // (2 * dims), SLOWEST, FASTEST).reshape(-1, heads).T
        directions = (spectrum[:, None, :, None] * torch.eye(dims)[:, None]).flatten(1, 2)
        self.register_buffer("directions", directions, persistent=False)
        self.register_buffer("frequencies", log_spaced(ABSOLUTE, SLOWEST, FASTEST), persistent=False)
        self.embed = PreciseLinear(2 * ABSOLUTE * dims + num_outputs, width)
        self.embed_level = LevelEmbedding(level_width)
        self.blocks = nn.ModuleList(ImageBlock(width, heads, expansion, level_width) for _ in range(blocks))
        self.norm = LevelNorm(width, level_width)
        self.out = PreciseLinear(width, num_outputs)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    @property
    def translation_equivariant(self) -> bool:
        return False

    @property
    def encodes_context(self) -> bool:
        """Context and targets are denoised together, in one call."""
        return False

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        y_t: Float[Tensor, "B N P"],
        level: Float[Tensor, "B N"],
        mask: Bool[Tensor, "B N"] | None = None,
        *,
        num_context: int = 0,
    ) -> Float[Tensor, "B N P"]:
        if x.shape[-1] != self.dims:
            raise ValueError(f"this network is for {self.dims} ordered input dimensions, not {x.shape[-1]}")
        x, y_t, level = without_masked(mask, x, y_t, level)
        rotation = Rotation((x[:, :, None, None, None] * self.directions).sum(-1))
        places = sinusoids(x, self.frequencies).flatten(-2)
        s = self.embed(torch.cat([places, y_t], dim=-1))
        embedded_level = self.embed_level(level)
        for block in self.blocks:
            s = block(s, embedded_level, rotation, mask)
        return self.out(self.norm(s, embedded_level))


class ImageBlock(nn.Module):
    """Attention over points, then a network of two layers at each point; both add to what is there, at first nothing."""

    def __init__(self, width: int, heads: int, expansion: int, level_width: int) -> None:
        super().__init__()
        self.norm_points, self.norm_point = LevelNorm(width, level_width), LevelNorm(width, level_width)
        self.over_points = AttentionOverPoints(width, width, heads, PointAttention.SUMMED)
        self.at_point = nn.Sequential(Linear(width, expansion * width), nn.GELU(), Linear(expansion * width, width))
        for last in (self.over_points.out, self.at_point[-1]):
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(
        self,
        s: Float[Tensor, "B N H"],
        level: Float[Tensor, "B N E"],
        rotation: Rotation,
        mask: Bool[Tensor, "B N"] | None,
    ) -> Float[Tensor, "B N H"]:
        read, _ = self.over_points(self.norm_points(s, level)[:, :, None], rotation, mask)
        s = s + read[:, :, 0]
        return s + self.at_point(self.norm_point(s, level))


class LevelNorm(nn.Module):
    """Features of mean zero and variance one, then scaled and shifted by the noise level of their point."""

    def __init__(self, width: int, level_width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.level = nn.Linear(level_width, 2 * width)
        nn.init.zeros_(self.level.weight)
        nn.init.zeros_(self.level.bias)

    def forward(self, s: Float[Tensor, "B N H"], level: Float[Tensor, "B N E"]) -> Float[Tensor, "B N H"]:
        gain, shift = self.level(level).chunk(2, dim=-1)
        return self.norm(s) * (1 + gain) + shift
