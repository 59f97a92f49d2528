"""Units: the affine maps between a user's numbers and those that a network sees, always in float64.

    x_model = (x - x_shift) / x_scale        y_model = (y - y_shift) / y_scale

`Units` are the maps of a batch of tasks. A model has `FixedUnits`, the same for every task, or `ContextUnits`, which are
computed from the observations of each task. Everything that changes units does it here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.arrays import Context

ROUNDING = 1e-9  # a sum this small against its parts is zero


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
        if sorted(values) != sorted(names):
            raise ValueError(
                f"fixed units have {', '.join(names)}, and not: {', '.join(map(str, values)) or 'nothing'}"
            )
        return FixedUnits(**{name: _numbers(name, values[name]) for name in names})


@final
@dataclass(frozen=True)
class ContextUnits:
    """Units from the observations of each task: every input and output has mean 0, a spread of about 1, and an orientation.

    Predictions then follow any affine change of the targets, and of each input, exactly. Mirror images of the data give mirror
    images of the predictions, except where the data equal their own mirror image. A constant input keeps the user's unit around
    its value; a constant output has its own size for a unit. Without observations, all units are the user's.
    """

    def of(self, context: Context) -> Units:
        x_shift, x_spread = centre_and_spread(context.x, context.mask)
        y_shift, y_spread = centre_and_spread(context.y, context.mask)
        size = torch.where(y_shift == 0, torch.ones_like(y_shift), y_shift.abs())
        x_scale, y_scale = torch.where(x_spread > 0, x_spread, 1.0), torch.where(y_spread > 0, y_spread, size)
        x_sign, y_sign = orientation((context.x - x_shift) / x_scale, (context.y - y_shift) / y_scale, context.mask)
        return Units(x_shift, x_sign * x_scale, y_shift, y_sign * y_scale)

    def as_dict(self) -> dict[str, Any]:
        return {"by": "context"}


def identity_units(context: Context) -> Units:
    """The user's units are the model's."""
    x, y = (
        torch.zeros_like(t[:1, :1]) if t.shape[1] else t.new_zeros(1, 1, t.shape[2]) for t in (context.x, context.y)
    )
    return Units(x.detach(), torch.ones_like(x), y.detach(), torch.ones_like(y))


def standard_units(x: Float[Tensor, "B N D"], y: Float[Tensor, "B N P"]) -> Units:
    """Mean 0 and standard deviation 1 for every input and output; a constant one is only shifted."""

    def centre_and_std(values: Tensor) -> tuple[Tensor, Tensor]:
        values = values.double()
        if not values.shape[1]:
            return values.new_zeros(len(values), 1, values.shape[2]), values.new_ones(len(values), 1, values.shape[2])
        std = values.std(1, keepdim=True, correction=0)
        centre = values.mean(1, keepdim=True)
        return centre, torch.where(std > 1e-12 * centre.abs(), std, 1.0)

    return Units(*centre_and_std(x), *centre_and_std(y))


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
    real = mask[..., None]
    count = real.sum(1, keepdim=True).clamp(min=1)
    few = 1 + 3 / (count - 1).clamp(min=1) ** 1.5
    centre = values.masked_fill(~real, 0.0).sum(1, keepdim=True) / count
    away = (values - centre).masked_fill(~real, 0.0)
    spread = (away.square().sum(1, keepdim=True) / count).sqrt()
    return centre, torch.where(spread > 1e-12 * centre.abs(), few * spread, 0.0)


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


def _check_axis(values: Tensor, letter: str, like: Tensor) -> None:
    if values.ndim < 2 or values.shape[-1] != like.shape[-1]:
        raise ValueError(
            f"the last axis of {letter} must have {like.shape[-1]} entries, one for each {_MEANING[letter]}; "
            f"its shape is {list(values.shape)}"
        )


def _numbers(name: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, list | tuple) or not all(type(value) in (int, float) for value in values):
        raise ValueError(f"{name} must be a list of numbers, not {values!r}")
    return tuple(float(value) for value in values)
