"""Images as functions from coordinates to colours: a set of pictures as training data.

The first coordinate runs down and the second to the right, both over [-2, 2]; a pixel's place is its centre. Between the
pixels an image is what bilinear interpolation makes of it.
"""

from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn.functional import grid_sample

from ndp.core.io.images import Part, read_image_set
from ndp.core.units import FixedUnits
from ndp.priors.registry import IMAGE_SETS
from ndp.priors.tasks import Batch

EDGE = 2.0
MOST_KNOWN = 0.95
HELD_OUT = 1000  # training pictures that are kept for validation, at most a tenth of them


def read_set(name: str, data_dir: str, part: Part) -> UInt8[Tensor, "T H W P"]:
    """The pictures of a named set, from where a user has them."""
    spec = IMAGE_SETS[name]
    if not data_dir:
        raise ValueError(f"{name} needs its pictures: --data-dir FOLDER with {spec.source}")
    try:
        return torch.from_numpy(read_image_set(data_dir, part, spec.size, spec.channels).copy())
    except ValueError as error:
        raise ValueError(f"{error}. {name} is {spec.source}") from error


def read_training_set(name: str, data_dir: str) -> tuple[UInt8[Tensor, "T H W P"], UInt8[Tensor, "V H W P"]]:
    """Pictures to train on, and some of the training part to validate with; the test part is not touched."""
    pictures = read_set(name, data_dir, "train")
    if len(pictures) < 2:
        raise ValueError(f"{data_dir} holds {len(pictures)} picture to train with; a model of images needs many")
    kept = min(HELD_OUT, max(len(pictures) // 10, 1))
    return pictures[:-kept], pictures[-kept:]


def units_of_images(pictures: UInt8[Tensor, "T H W P"]) -> FixedUnits:
    """Values from 0 to 1 to mean 0 in every colour and variance 1 over all: one scale, for noise is one number a point."""
    values = pictures.float() / 255
    mean = values.mean((0, 1, 2))
    scale = max((values - mean).square().mean().sqrt().item(), 1e-3)
    channels = pictures.shape[-1]
    return FixedUnits((0.0, 0.0), (1.0, 1.0), tuple(mean.tolist()), (scale,) * channels)


def pixel_grid(height: int, width: int) -> Float[Tensor, "N 2"]:
    """Places of the pixels, row by row: the centres of height x width equal parts of [-2, 2]^2."""
    down, right = (EDGE * ((2 * torch.arange(count, dtype=torch.float64) + 1) / count - 1) for count in (height, width))
    return torch.cartesian_prod(down, right)


@final
@dataclass(frozen=True)
class ImageSource:
    """Tasks made of pictures, in model units: all pixels of one, or `points` places anywhere in a window of it.

    Windows are of sides from a quarter to the whole, so that a network meets coordinates between the pixels, and points from
    four times less to four times more dense than in the picture where they are a quarter of its pixels.
    """

    pictures: UInt8[Tensor, "T H W P"]
    units: FixedUnits
    mirrored: bool = False
    points: int | None = None
    _copies: dict[torch.device, Tensor] = field(init=False, repr=False, compare=False, default_factory=dict)

    def draw(self, tasks: int, *, generator: torch.Generator) -> Batch:
        device = generator.device
        if device not in self._copies:
            self._copies[device] = self.pictures.to(device)
        which = torch.randint(len(self.pictures), (tasks,), generator=generator, device=device)
        pictures = self._copies[device][which]
        if self.mirrored:
            mirrored = torch.rand(tasks, 1, 1, 1, generator=generator, device=device) < 0.5
            pictures = torch.where(mirrored, pictures.flip(2), pictures)
        if self.points is None:
            x = pixel_grid(*pictures.shape[1:3]).float().to(device).expand(tasks, -1, -1)
            values = pictures.flatten(1, 2) / 255
        else:
            x = _windows(tasks, self.points, generator)
            values = interpolate(pictures, x)
        y = self.units.on(values.device).to_model_y(values)
        everywhere = torch.ones(x.shape[:2], dtype=torch.bool, device=device)
        return Batch(x, y, everywhere, 0, everywhere, draw_known(x, generator))


def training_sources(
    name: str, pictures: UInt8[Tensor, "T H W P"], units: FixedUnits, *, varied: bool
) -> list[ImageSource]:
    """Three times whole pictures, and where they are `varied` a fourth source of a quarter as many places anywhere."""
    spec = IMAGE_SETS[name]
    whole = ImageSource(pictures, units, spec.mirrored)
    if not varied:
        return [whole]
    return [whole, whole, whole, ImageSource(pictures, units, spec.mirrored, points=spec.size**2 // 4)]


def interpolate(pictures: UInt8[Tensor, "B H W P"], x: Float[Tensor, "B N 2"]) -> Float[Tensor, "B N P"]:
    """Values from 0 to 1 at any places, by bilinear interpolation."""
    values = (pictures / 255).permute(0, 3, 1, 2)
    places = (x / EDGE).flip(-1)[:, :, None].to(values)  # torch puts the coordinate to the right first
    return grid_sample(values, places, padding_mode="border", align_corners=False)[..., 0].mT


def draw_known(x: Float[Tensor, "B N D"], generator: torch.Generator) -> Bool[Tensor, "B N"]:
    """Which points of each task are its context.

    In seven tasks of ten a random share of the points, from none to 95 % and more often few; in two all points in a box
    or all outside of one, whose sides may lie outside of the image: halves, corners, strips, holes; in one none.
    """
    tasks, points, dims = x.shape

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=generator.device)

    share = MOST_KNOWN * uniform(tasks, 1).square()
    scattered = uniform(tasks, points).argsort(dim=1) < share * points
    sides = EDGE * (2 * uniform(2, tasks, 1, dims) - 1)
    far = uniform(2, tasks, 1, dims) < 0.5
    low = sides.amin(0).masked_fill(far[0], -torch.inf)
    high = sides.amax(0).masked_fill(far[1], torch.inf)
    boxed = ((x > low) & (x < high)).all(-1) ^ (uniform(tasks, 1) < 0.5)
    kind = uniform(tasks, 1)
    return torch.where(kind < 0.7, scattered, boxed & (kind < 0.9))


def _windows(tasks: int, points: int, generator: torch.Generator) -> Float[Tensor, "{tasks} {points} 2"]:
    """Places uniform in a random square of each task."""
    place, corner = (torch.rand(tasks, count, 2, generator=generator, device=generator.device) for count in (points, 1))
    side = 0.25 + 0.75 * torch.rand(tasks, 1, 1, generator=generator, device=generator.device)
    return EDGE * (2 * (corner * (1 - side) + side * place) - 1)
