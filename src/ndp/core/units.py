"""Units: the affine maps between a user's numbers and those that a network sees, always in float64.

    x_model = (x - x_shift) / x_scale        y_model = (y - y_shift) / y_scale

`Units` are the maps of a batch of tasks. A model has `FixedUnits`, the same for every task, or `ContextUnits`, which are
computed from the observations of each task. Everything that changes units does it here.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.arrays import Context
from ndp.core.messages import first_line, short

ROUNDING = 1e-9  # a sum this small against its parts is zero
LAST_DIGITS = (
    4 * torch.finfo(torch.float64).eps
)  # of a column's largest number: values closer than this differ by rounding
LEAST_SPREAD = 1e-300  # below it float64 has few digits, and none below 5e-324


@final
@dataclass(frozen=True)
class Units:
    """One map for each input dimension and output, of every task or of all (`B` is then 1). A negative scale mirrors."""

    x_shift: Float[Tensor, "B 1 D"]
    x_scale: Float[Tensor, "B 1 D"]
    y_shift: Float[Tensor, "B 1 P"]
    y_scale: Float[Tensor, "B 1 P"]

    def to_model_x(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N D"]:
        _check_axis(x, "x", self.x_shift)
        return (x.double() - self.x_shift) / self.x_scale

    def from_model_x(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N D"]:
        _check_axis(x, "x", self.x_shift)
        return x.double() * self.x_scale + self.x_shift

    def to_model_y(self, y: Float[Tensor, "*S N P"]) -> Float[Tensor, "*S N P"]:
        _check_axis(y, "y", self.y_shift)
        return (y.double() - self.y_shift) / self.y_scale

    def from_model_y(self, y: Float[Tensor, "*S N P"]) -> Float[Tensor, "*S N P"]:
        _check_axis(y, "y", self.y_shift)
        return y.double() * self.y_scale + self.y_shift

    def to_model_std(self, std: Float[Tensor, "*S N"]) -> Float[Tensor, "*S N"]:
        """Standard deviations of observation noise, one number a point. All outputs must then share a scale."""
        scales = self.y_scale.abs()
        if scales.shape[-1] > 1 and not bool((scales == scales[..., :1]).all()):
            raise ValueError(
                "noise is one number a point, and the outputs of this model have scales of their own: "
                f"{tuple(scales.flatten().tolist())}"
            )
        return std.double() / scales[..., 0]

    def from_model_std(self, std: Float[Tensor, "*S N P"]) -> Float[Tensor, "*S N P"]:
        """Standard deviations of function values: scaled, not shifted."""
        _check_axis(std, "y", self.y_shift)
        return std.double() * self.y_scale.abs()

    def log_det(self, num_points: int) -> Float[Tensor, "B"]:
        """The term that turns a joint log-density of `num_points` points in model units into one in the user's units.

        log p(y) = log p_model(y_model) - num_points * sum(log |y_scale|)
        """
        return -num_points * self.y_scale.abs().log().sum((-2, -1))

    def y_sign(self) -> Float[Tensor, "B"]:
        """1 where the user's values rise with the model's, -1 where they fall."""
        signs = self.y_scale.sign()
        if not bool((signs == signs[..., :1]).all()):
            raise ValueError("the outputs of this model have orientations of their own")
        return signs[:, 0, 0]


@runtime_checkable
class ModelUnits(Protocol):
    """How a model gets the units of a context."""

    def of(self, context: Context) -> Units: ...

    def as_dict(self) -> dict[str, Any]: ...


@final
@dataclass(frozen=True)
class FixedUnits:
    """The same affine maps for every task: one shift and one scale for each input dimension and each output."""

    x_shift: tuple[float, ...]
    x_scale: tuple[float, ...]
    y_shift: tuple[float, ...]
    y_scale: tuple[float, ...]

    def __post_init__(self) -> None:
        for letter, shift, scale in (("x", self.x_shift, self.x_scale), ("y", self.y_shift, self.y_scale)):
            if not shift or len(shift) != len(scale):
                raise ValueError(
                    f"{letter}_shift and {letter}_scale need one number each for every {_MEANING[letter]}; "
                    f"they have {len(shift)} and {len(scale)}"
                )
            if not all(math.isfinite(number) for number in (*shift, *scale)):
                raise ValueError(f"{letter}_shift and {letter}_scale must be finite, not {shift} and {scale}")
            if min(scale) <= 0:
                raise ValueError(f"{letter}_scale must be positive, not {scale}")

    def on(self, device: torch.device | str = "cpu") -> Units:
        """The maps as tensors, one task wide."""

        def tensor(numbers: tuple[float, ...]) -> Tensor:
            return torch.tensor(numbers, dtype=torch.float64, device=device)[None, None]

        return Units(tensor(self.x_shift), tensor(self.x_scale), tensor(self.y_shift), tensor(self.y_scale))

    def of(self, context: Context) -> Units:
        """The same maps whatever was observed."""
        return self.on(context.x.device)

    def as_dict(self) -> dict[str, Any]:
        return {field.name: list(getattr(self, field.name)) for field in fields(self)}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "FixedUnits":
        """The inverse of `as_dict`, for what a JSON file holds."""
        names = [field.name for field in fields(FixedUnits)]
        if not isinstance(values, Mapping) or set(values) != set(names):
            found = ", ".join(map(str, values)) if isinstance(values, Mapping) else short(values)
            raise ValueError(f"fixed units have {', '.join(names)}, and not: {first_line(found or 'nothing')}")
        return FixedUnits(**{name: _numbers(name, values[name]) for name in names})


@final
@dataclass(frozen=True)
class ContextUnits:
    """Units from the observations of each task: every input and output has mean 0, a spread of about 1, and an orientation.

    Predictions then follow any affine change of the targets, and of each input, exactly. Mirror images of the data give mirror
    images of the predictions, except where the data equal their own mirror image. A constant input keeps the user's unit around
    its value; a constant output has its own size for a unit. Without observations, all units are the user's. Values that differ
    by rounding only are constant, with a warning.
    """

    def of(self, context: Context) -> Units:
        x_shift, x_spread = _centre_and_spread_of("x", context.x, context.mask)
        y_shift, y_spread = _centre_and_spread_of("y", context.y, context.mask)
        size = torch.where(y_shift == 0, torch.ones_like(y_shift), y_shift.abs())
        x_scale, y_scale = torch.where(x_spread > 0, x_spread, 1.0), torch.where(y_spread > 0, y_spread, size)
        x_sign, y_sign = orientation((context.x - x_shift) / x_scale, (context.y - y_shift) / y_scale, context.mask)
        return Units(x_shift, x_sign * x_scale, y_shift, y_sign * y_scale)

    def as_dict(self) -> dict[str, Any]:
        return {"by": "context"}


def standardised(context: Context, units: Units) -> Context:
    """The context in model units."""
    return replace(
        context,
        x=units.to_model_x(context.x),
        y=units.to_model_y(context.y),
        noise=units.to_model_std(context.noise) if bool(context.noise.any()) else context.noise,
    )


def identity_units(context: Context) -> Units:
    """The user's units are the model's."""
    x, y = (
        torch.zeros_like(t[:1, :1]) if t.shape[1] else t.new_zeros(1, 1, t.shape[2]) for t in (context.x, context.y)
    )
    return Units(x.detach(), torch.ones_like(x), y.detach(), torch.ones_like(y))


def standard_units(x: Float[Tensor, "B N D"], y: Float[Tensor, "B N P"]) -> Units:
    """Mean 0 and standard deviation 1 for every input and output; a constant one is only shifted."""

    def units(values: Tensor) -> tuple[Tensor, Tensor]:
        values = values.double()
        centre, std = centre_and_std(values, torch.ones_like(values[..., 0], dtype=torch.bool))
        return centre, torch.where(std > 0, std, 1.0)

    return Units(*units(x), *units(y))


def box_units(
    low: Float[Tensor, "D"], high: Float[Tensor, "D"], y: Float[Tensor, "*B N 1"], domain: tuple[float, float]
) -> Units:
    """Inputs from the box [low, high] to [domain[0], domain[1]]^D, outputs standardised: what an optimiser needs."""
    scale = (high - low).double() / (domain[1] - domain[0])
    shift = low.double() - domain[0] * scale
    values = y.reshape(1, -1, 1) if y.ndim < 3 else y
    outputs = standard_units(values, values)
    return Units(shift[None, None], scale[None, None], outputs.y_shift, outputs.y_scale)


def centre_and_spread(
    values: Float[Tensor, "B N K"], mask: Bool[Tensor, "B N"]
) -> tuple[Float[Tensor, "B 1 K"], Float[Tensor, "B 1 K"]]:
    """Mean and spread over the real points of every task; a spread is 0 where there is none, or nothing but rounding.

    The spread of n points is 1 + 3 / (n - 1)^(3/2) times their standard deviation. Two or three similar points say little about
    the spread of others, and without the factor the variance of values in this unit would be infinite.
    """
    count = mask.sum(1)[:, None, None]
    centre, std = centre_and_std(values, mask)
    return centre, (1 + 3 / (count - 1).clamp(min=1) ** 1.5) * std


def centre_and_std(
    values: Float[Tensor, "B N K"], mask: Bool[Tensor, "B N"]
) -> tuple[Float[Tensor, "B 1 K"], Float[Tensor, "B 1 K"]]:
    """Mean and standard deviation over the real points; 0 is that of values which are equal, or differ by rounding only.

    Numbers are divided by a power of two first: the squares of those above 1e154 or below 1e-154 are no float64.
    """
    if not values.shape[1]:
        nothing = values.new_zeros(len(values), 1, values.shape[2])
        return nothing, nothing
    real = mask[..., None]
    values = values.masked_fill(~real, 0.0)
    size = values.detach().abs().amax(1, keepdim=True)
    unit = torch.where(size > 0, size / (2 * torch.frexp(size).mantissa), 1.0)
    scaled, count = values / unit, real.sum(1, keepdim=True).clamp(min=1)
    centre = scaled.sum(1, keepdim=True) / count
    away = (scaled - centre).masked_fill(~real, 0.0)
    std = (away.square().sum(1, keepdim=True) / count).sqrt()
    return centre * unit, torch.where(_range(scaled.detach(), real) > LAST_DIGITS * size / unit, std * unit, 0.0)


def _range(values: Float[Tensor, "B N K"], real: Bool[Tensor, "B N 1"]) -> Float[Tensor, "B 1 K"]:
    """Largest less smallest value over the real points of every task; negative where there are none."""
    high, low = values.masked_fill(~real, -math.inf), values.masked_fill(~real, math.inf)
    return high.amax(1, keepdim=True) - low.amin(1, keepdim=True)


def orientation(
    x: Float[Tensor, "B N D"], y: Float[Tensor, "B N P"], mask: Bool[Tensor, "B N"]
) -> tuple[Float[Tensor, "B 1 D"], Float[Tensor, "B 1 P"]]:
    """The sign of every input and every output of tasks with mean 0, so that data and their mirror image look alike.

    The sign of an output makes its extreme values positive. The sign of an input makes the outputs rise along it. Symmetric
    data keep their signs.
    """

    def sign(parts: Tensor) -> Tensor:
        parts = parts.masked_fill(~mask[..., None], 0.0)
        total, size = parts.sum(1, keepdim=True), parts.abs().sum(1, keepdim=True)
        return torch.where(total < -ROUNDING * size, -1.0, 1.0).to(parts.dtype)

    y_sign = sign(y**3)
    return sign(x * (y_sign * y).sum(-1, keepdim=True)), y_sign


def read_units(values: Mapping[str, Any] | None) -> ModelUnits | None:
    """The units in a model's configuration."""
    if values is None:
        return None
    return ContextUnits() if values == ContextUnits().as_dict() else FixedUnits.from_dict(values)


_MEANING = {"x": "input dimension", "y": "output"}


def _centre_and_spread_of(
    name: str, values: Float[Tensor, "B N K"], mask: Bool[Tensor, "B N"]
) -> tuple[Float[Tensor, "B 1 K"], Float[Tensor, "B 1 K"]]:
    """`centre_and_spread` of what a user handed in, with an error or a warning for columns that float64 cannot hold."""
    centre, spread = centre_and_spread(values, mask)
    columns = [f"column {column} of {name} (counted from 0)" for column in range(values.shape[2])]
    tiny = ((spread > 0) & (spread < LEAST_SPREAD)).flatten(0, 1).any(0)
    if bool(tiny.any()):
        column = int(tiny.nonzero()[0])
        raise ValueError(
            f"{columns[column]} has values that differ by less than {LEAST_SPREAD:g}, too little for float64; multiply them "
            "by a constant first"
        )
    if not values.shape[1]:
        return centre, spread
    rounded = ((spread == 0) & (_range(values, mask[..., None]) > 0)).flatten(0, 1).any(0)
    for column in rounded.nonzero().flatten().tolist():
        warnings.warn(
            f"{columns[column]} has values that differ by rounding only, and counts as constant: about "
            f"{centre[0, 0, column].item():.3g}. If the differences are real, subtract a constant first",
            UserWarning,
            stacklevel=5,
        )
    return centre, spread


def _check_axis(values: Tensor, letter: str, like: Tensor) -> None:
    if values.ndim < 2 or values.shape[-1] != like.shape[-1]:
        raise ValueError(
            f"the last axis of {letter} must have {like.shape[-1]} entries, one for each {_MEANING[letter]}; "
            f"its shape is {list(values.shape)}"
        )


def _numbers(name: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, list | tuple) or not all(type(value) in (int, float) for value in values):
        raise ValueError(f"{name} must be a list of numbers, not {short(values)}")
    return tuple(float(value) for value in values)
