"""From functions to weights."""

from ndp.core.old_names import old_names

__getattr__ = old_names(
    "ndp.training",
    {
        "Half": "ndp.training.loop",
        "Progress": "ndp.training.loop",
        "Speed": "ndp.training.speed",
        "fit": "ndp.training.loop",
    },
)
