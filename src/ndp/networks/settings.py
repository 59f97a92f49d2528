"""What the settings of a network may be. They also come from files of others, and are checked before anything is made."""

from collections.abc import Mapping
from typing import Any

from ndp.core.messages import short

# The most of each size. A larger one is a mistake, or a file that would fill the machine.
MOST = {
    "num_outputs": 1024,
    "dims": 16,
    "ordered_dims": 16,
    "width": 2**14,
    "heads": 2**10,
    "blocks": 128,
    "expansion": 64,
    "anchor_points": 4096,
    "level_width": 2**14,
}
_MAY_BE_ZERO = ("ordered_dims", "anchor_points")


def check_settings(settings: Mapping[str, Any], *, switches: tuple[str, ...] = ()) -> None:
    """Raise a ValueError for the first size that is no whole number in its range, or switch that is no boolean."""
    for name, value in settings.items():
        least = 0 if name in _MAY_BE_ZERO else 1
        if name in MOST and (type(value) is not int or not least <= value <= MOST[name]):
            raise ValueError(f"{name} must be a whole number from {least} to {MOST[name]:,}, not {short(value)}")
        if name in switches and type(value) is not bool:
            raise ValueError(f"{name} must be true or false, not {short(value)}")
