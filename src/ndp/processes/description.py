"""What a model says of itself beside its network, checked: it comes from a user or from a file."""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from ndp.core.messages import short
from ndp.core.units import FixedUnits, ModelUnits


def read_noise_floor(value: Any) -> float:
    """A standard deviation of observation noise, or 0."""
    if not _is_number(value) or not value >= 0:
        raise ValueError(f"noise_floor must be a standard deviation, finite and not negative, not {short(value)}")
    return float(value)


def read_trained_ratios(value: Any) -> tuple[float, float]:
    """The least and the largest sigma / alpha."""
    if not isinstance(value, Sequence) or len(value) != 2 or not all(map(_is_number, value)):
        raise ValueError(f"trained_ratios must be two numbers, not {short(value)}")
    if not 0 < value[0] < value[1]:
        raise ValueError(f"trained_ratios must be positive and rise, not {short(value)}")
    return float(value[0]), float(value[1])


def read_num_outputs(value: Any, network: object) -> int:
    """The numbers in a function value, which are those that the network denoises."""
    if not _is_whole(value) or value < 1:
        raise ValueError(f"num_outputs must be a whole number of at least 1, not {short(value)}")
    if getattr(network, "num_outputs", value) != value:
        raise ValueError(f"num_outputs is {value}, and the network has {network.num_outputs}")  # type: ignore[attr-defined]
    return int(value)


def read_input_dims(value: Any) -> tuple[int, ...] | None:
    """Numbers of input dimensions, or None for any."""
    if value is None:
        return None
    if not isinstance(value, Sequence) or not value or not all(_is_whole(one) and one >= 1 for one in value):
        raise ValueError(f"input_dims must be a list of whole numbers of at least 1, or None, not {short(value)}")
    return tuple(int(one) for one in value)


def check_units(units: ModelUnits | None, num_outputs: int, input_dims: tuple[int, ...] | None) -> None:
    """Raise a ValueError for fixed units of other inputs or outputs than the model's."""
    if not isinstance(units, FixedUnits):
        return
    if len(units.y_shift) != num_outputs:
        raise ValueError(f"the units are those of {len(units.y_shift)} outputs, and the model has {num_outputs}")
    if input_dims is not None and input_dims != (len(units.x_shift),):
        raise ValueError(f"the units are those of {len(units.x_shift)} inputs, and the model is for {input_dims}")


def read_about(value: Any) -> dict[str, Any]:
    """What goes with the weights: settings by name, and among them a recipe."""
    about = {} if value is None else value
    if not isinstance(about, dict) or not isinstance(about.get("recipe", {}), dict):
        raise ValueError(f"about must hold settings by name, and so must its recipe, not {short(value)}")
    return about


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)
