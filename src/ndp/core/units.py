"""From a user's units to those a model was trained in, and back: fixed ones, or those that a context itself sets."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.arrays import Context

ROUNDING = 1e-9  # a sum this small against its parts is zero


@runtime_checkable
class Units(Protocol):
    """The maps between a user's units and a model's."""

    def to_model_x(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]: ...

    def to_model_y(self, y: Float[Tensor, "B N P"]) -> Float[Tensor, "B N P"]: ...

    def from_model_y(self, y: Float[Tensor, "*S B N P"]) -> Float[Tensor, "*S B N P"]: ...

    def to_model_noise(self, noise: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]: ...

    def log_det(self, num_points: int) -> float | Float[Tensor, "B"]: ...

    def y_turn(self) -> float | Float[Tensor, "B"]:
        """Whether values rise (1) or fall (-1) as the model's do."""
        ...


@final
@dataclass(frozen=True)
class Scaling:
    """Affine maps, one for each input dimension and each output.

        x_model = (x - x_shift) / x_scale        y_model = (y - y_shift) / y_scale

    Numbers are mapped in the precision they come in: time stamps need float64.
    """

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

    def to_model_x(self, x: Float[Tensor, "*S D"]) -> Float[Tensor, "*S D"]:
        _check_axis(x, "x", len(self.x_shift))
        return (x - x.new_tensor(self.x_shift)) / x.new_tensor(self.x_scale)

    def to_model_y(self, y: Float[Tensor, "*S P"]) -> Float[Tensor, "*S P"]:
        _check_axis(y, "y", len(self.y_shift))
        return (y - y.new_tensor(self.y_shift)) / y.new_tensor(self.y_scale)

    def from_model_y(self, y: Float[Tensor, "*S P"]) -> Float[Tensor, "*S P"]:
        _check_axis(y, "y", len(self.y_shift))
        return y * y.new_tensor(self.y_scale) + y.new_tensor(self.y_shift)

    def to_model_noise(self, noise: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """Standard deviations of observations. One number a point stands for all outputs: they must share a scale."""
        if len(set(self.y_scale)) > 1:
            raise ValueError(
                f"noise is one number a point, and the outputs of this model have scales of their own: {self.y_scale}"
            )
        return noise / self.y_scale[0]

    def from_model_std(self, std: Float[Tensor, "*S P"]) -> Float[Tensor, "*S P"]:
        """Standard deviations of function values: scaled, not shifted."""
        _check_axis(std, "y", len(self.y_shift))
        return std * std.new_tensor(self.y_scale)

    def log_det(self, num_points: int) -> float:
        """What to add to the joint log-density of `num_points` points in model units to have it in the user's units.

        log p(y) = log p_model(y_model) - num_points * sum(log y_scale)
        """
        return -num_points * sum(math.log(scale) for scale in self.y_scale)

    def y_turn(self) -> float:
        return 1.0

    def as_dict(self) -> dict[str, list[float]]:
        return {field.name: list(getattr(self, field.name)) for field in fields(self)}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Scaling":
        """The inverse of `as_dict`, for what a JSON file holds."""
        names = [field.name for field in fields(Scaling)]
        if sorted(values) != sorted(names):
            raise ValueError(f"a scaling has {', '.join(names)}, and not: {', '.join(map(str, values)) or 'nothing'}")
        return Scaling(**{name: _numbers(name, values[name]) for name in names})


@final
class Unscaled:
    """The user's units are the model's."""

    def to_model_x(self, x: Float[Tensor, "*S D"]) -> Float[Tensor, "*S D"]:
        return x

    def to_model_y(self, y: Float[Tensor, "*S P"]) -> Float[Tensor, "*S P"]:
        return y

    def from_model_y(self, y: Float[Tensor, "*S P"]) -> Float[Tensor, "*S P"]:
        return y

    def to_model_noise(self, noise: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        return noise

    def log_det(self, num_points: int) -> float:
        return 0.0

    def y_turn(self) -> float:
        return 1.0


@final
@dataclass(frozen=True)
class ScaledByContext:
    """A context sets its own units: every input and every output has mean 0 and a spread of about 1 over it, and a direction.

    So an answer follows any affine change of the targets, and of each input, exactly, and mirror images too (but for data that
    are their own). Where there is no spread to go by, a constant input is in the user's unit about its value, a constant output
    in units of its own size; with nothing observed all is in the user's units.
    """

    def of(self, context: Context) -> "TaskUnits":
        x_shift, x_spread = centre_and_spread(context.x, context.mask)
        y_shift, y_spread = centre_and_spread(context.y, context.mask)
        size = torch.where(y_shift == 0, torch.ones_like(y_shift), y_shift.abs())
        x_scale, y_scale = torch.where(x_spread > 0, x_spread, 1.0), torch.where(y_spread > 0, y_spread, size)
        x_turn, y_turn = turns((context.x - x_shift) / x_scale, (context.y - y_shift) / y_scale, context.mask)
        return TaskUnits(x_shift, x_turn * x_scale, y_shift, y_turn * y_scale)

    def as_dict(self) -> dict[str, str]:
        return {"by": "context"}


@final
@dataclass(frozen=True)
class TaskUnits:
    """Affine maps of their own for every task. Values come back in float64: a large offset must not cost digits.

    A negative scale mirrors.
    """

    x_shift: Float[Tensor, "B 1 D"]
    x_scale: Float[Tensor, "B 1 D"]
    y_shift: Float[Tensor, "B 1 P"]
    y_scale: Float[Tensor, "B 1 P"]

    def to_model_x(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        return (x - self.x_shift) / self.x_scale

    def to_model_y(self, y: Float[Tensor, "B N P"]) -> Float[Tensor, "B N P"]:
        return (y - self.y_shift) / self.y_scale

    def from_model_y(self, y: Float[Tensor, "*S B N P"]) -> Float[Tensor, "*S B N P"]:
        return y.double() * self.y_scale + self.y_shift

    def to_model_noise(self, noise: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        if self.y_scale.shape[-1] > 1:
            raise ValueError("noise is one number a point, and every output has a scale of its own")
        return noise / self.y_scale[..., 0].abs()

    def log_det(self, num_points: int) -> Float[Tensor, "B"]:
        return -num_points * self.y_scale.abs().log().sum((-2, -1))

    def y_turn(self) -> Float[Tensor, "B"]:
        if self.y_scale.shape[-1] > 1:
            raise ValueError("every output has a direction of its own")
        return self.y_scale[:, 0, 0].sign()


def centre_and_spread(
    values: Float[Tensor, "B N K"], mask: Bool[Tensor, "B N"]
) -> tuple[Float[Tensor, "B 1 K"], Float[Tensor, "B 1 K"]]:
    """Mean and spread over the real points of every task; a spread is 0 where there is none, or nothing but rounding.

    The spread of n points is 1 + 3 / (n - 1)^(3/2) times their standard deviation: two or three that happen to lie together say
    little of how far others are, and without the factor values in this unit would have no variance.
    """
    real = mask[..., None]
    count = real.sum(1, keepdim=True).clamp(min=1)
    few = 1 + 3 / (count - 1).clamp(min=1) ** 1.5
    centre = values.masked_fill(~real, 0.0).sum(1, keepdim=True) / count
    away = (values - centre).masked_fill(~real, 0.0)
    spread = (away.square().sum(1, keepdim=True) / count).sqrt()
    return centre, torch.where(spread > 1e-12 * centre.abs(), few * spread, 0.0)


def turns(
    x: Float[Tensor, "B N D"], y: Float[Tensor, "B N P"], mask: Bool[Tensor, "B N"]
) -> tuple[Float[Tensor, "B 1 D"], Float[Tensor, "B 1 P"]]:
    """The sign to give every input and every output of tasks with mean 0: a mirror image looks like what it is an image of.

    An output is turned so that its extreme values are high ones, an input so that the outputs rise along it. What has neither
    is left as it is.
    """

    def sign(parts: Tensor) -> Tensor:
        parts = parts.masked_fill(~mask[..., None], 0.0)
        total, size = parts.sum(1, keepdim=True), parts.abs().sum(1, keepdim=True)
        return torch.where(total < -ROUNDING * size, -1.0, 1.0).to(parts.dtype)

    y_turn = sign(y**3)
    return sign(x * (y_turn * y).sum(-1, keepdim=True)), y_turn


def read_units(values: Mapping[str, Any] | None) -> Scaling | ScaledByContext | None:
    """What a model's configuration says of its units."""
    if values is None:
        return None
    return ScaledByContext() if values == ScaledByContext().as_dict() else Scaling.from_dict(values)


_MEANING = {"x": "input dimension", "y": "output"}


def _check_axis(values: Tensor, letter: str, size: int) -> None:
    if values.ndim == 0 or values.shape[-1] != size:
        raise ValueError(
            f"the last axis of {letter} must have {size} entries, one for each {_MEANING[letter]}; "
            f"its shape is {list(values.shape)}"
        )


def _numbers(name: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, list | tuple) or not all(type(value) in (int, float) for value in values):
        raise ValueError(f"{name} must be a list of numbers, not {values!r}")
    return tuple(float(value) for value in values)
