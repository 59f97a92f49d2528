"""How noise levels and input coordinates enter a network, always in float32 or better.

bfloat16 resolves 0.008 near 1, which is coarser than the inputs of a regression task.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

# Frequencies for coordinates in a domain like [-2, 2], in radians a unit.
SLOWEST, FASTEST = 0.3, 30.0
# Neighbours are counted within these distances, in the same units.
NARROWEST, WIDEST, WIDTHS = 0.05, 4.0, 8


def log_spaced(count: int, smallest: float, largest: float) -> Float[Tensor, "count"]:
    """Frequencies from smallest to largest, equally spaced in their logarithm."""
    return torch.logspace(math.log10(smallest), math.log10(largest), count)


def frequencies_of_heads(width: int, heads: int) -> Float[Tensor, "{heads} half"]:
    """Every head spans the whole range, and no two heads hold the same frequencies."""
    return log_spaced(width // 2, SLOWEST, FASTEST).reshape(-1, heads).T.contiguous()


def density_widths() -> Float[Tensor, "W"]:
    return log_spaced(WIDTHS, NARROWEST, WIDEST)


class PreciseLinear(nn.Linear):
    """A layer in the precision of its weights, whatever the network around it computes in.

    It stands where values come in and go out: rounded to bfloat16, a value is off by as much as the least noise that is
    learned. What it gives is what blocks add to, so their sums are precise too.
    """

    def forward(self, values: Float[Tensor, "*shape I"]) -> Float[Tensor, "*shape O"]:
        with torch.autocast(values.device.type, enabled=False):
            return super().forward(values.to(self.weight.dtype))


class LevelEmbedding(nn.Module):
    """A 128-dimensional sinusoidal code of the noise level (the paper's, on a log scale) through a small network."""

    frequencies: Tensor

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"level_width must be even, for sines and cosines; {width} is not")
        self.register_buffer("frequencies", log_spaced(width // 2, 1e-4, 1.0), persistent=False)
        self.network = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU())

    def forward(self, level: Float[Tensor, "B N"]) -> Float[Tensor, "B N E"]:
        # The scale 5 level = -10 log(sigma / alpha) was measured: at 25 times that the network never learns.
        return self.network(sinusoids(5 * level, self.frequencies))


def sinusoids(values: Float[Tensor, "*shape"], frequencies: Float[Tensor, "F"]) -> Float[Tensor, "*shape F2"]:
    """Sine and cosine of the values at every frequency."""
    angles = values[..., None] * frequencies
    return torch.cat([torch.sin(angles), torch.cos(angles)], dim=-1)


def local_density(
    x: Float[Tensor, "B N D"],
    others: Float[Tensor, "B M D"],
    mask: Bool[Tensor, "B M"] | None,
    widths: Float[Tensor, "W"],
) -> Float[Tensor, "B N W"]:
    """The number of other points near each point, within each of the widths, on a log scale.

    Attention returns a mean and loses the number of points behind it. The number matters: it decides how much the neighbours
    weigh against a point's own noisy value.
    """
    squared = (x[:, :, None] - others[:, None]).square().sum(-1)
    if mask is not None:
        squared = squared.masked_fill(~mask[:, None], math.inf)
    near = [torch.exp(-squared / (2 * width**2)).sum(-1) for width in widths]
    return torch.log1p(torch.stack(near, dim=-1)) / 3


def density_by_role(
    x: Float[Tensor, "B N D"],
    mask: Bool[Tensor, "B N"] | None,
    widths: Float[Tensor, "W"],
    *,
    num_context: int,
    separate: int,
    independent: bool = False,
    rows: slice = slice(None),
) -> Float[Tensor, "B _ W2"]:
    """The local density of context and of targets around the points `rows`.

    A separate context sees no target. An independent target sees itself only.
    """
    halves = slice(None, num_context), slice(num_context, None)
    seen = [None if mask is None else mask[:, part] for part in halves]
    context = local_density(x[:, rows], x[:, :num_context], seen[0], widths)
    itself = torch.full_like(context, math.log(2) / 3)
    targets = itself if independent else local_density(x[:, rows], x[:, num_context:], seen[1], widths)
    first = max(separate - (rows.start or 0), 0)
    if first:
        targets = torch.cat([torch.zeros_like(targets[:, :first]), targets[:, first:]], dim=1)
    return torch.cat([context, targets], dim=-1)


def without_masked(mask: Bool[Tensor, "B N"] | None, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Zeros in place of masked points, so that not even a NaN in one gets through."""
    if mask is None:
        return tensors
    return tuple(t.masked_fill(~mask.reshape(mask.shape + (1,) * (t.ndim - 2)), 0.0) for t in tensors)


class Rotation:
    """Rotary position on real coordinates: each pair of features is rotated by an angle, frequency times coordinate.

    Queries and keys that their own points rotate meet in attention only through the difference of their coordinates, which
    makes the network translation equivariant. Values are rotated too, and rotated back at the point that receives them, so
    that the messages along different input dimensions differ.
    """

    def __init__(self, angles: Float[Tensor, "B N D heads half"]) -> None:
        cos, sin = torch.cos(angles), torch.sin(angles)
        self._cos, self._sin = torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)

    def rotate(self, features: Float[Tensor, "R N T *parts heads F"]) -> Float[Tensor, "R N D *parts heads F"]:
        """Rotate the features of every point; `parts`, such as queries and keys, are rotated alike.

        Features that all input dimensions of a point share (T = 1) are rotated by each of them.
        """
        return self._rotate(features, 1)

    def rotate_back(self, features: Float[Tensor, "R N D *parts heads F"]) -> Float[Tensor, "R N D *parts heads F"]:
        return self._rotate(features, -1)

    def _rotate(self, features: Tensor, sign: int) -> Tensor:
        # Rows of features may be several draws of the same tasks.
        rows = features.to(self._sin.dtype).unflatten(0, (-1, self._sin.shape[0]))
        parts = (1,) * (features.ndim - self._sin.ndim)
        cos, sin = (t.reshape(*t.shape[:3], *parts, *t.shape[3:]) for t in (self._cos, self._sin))
        # Whole rows of features at a time: halves of a head are too short for a CPU to be quick on.
        turned = (rows * cos).addcmul_(rows.roll(rows.shape[-1] // 2, -1), sin, value=sign)
        return turned.flatten(0, 1).to(features.dtype)
