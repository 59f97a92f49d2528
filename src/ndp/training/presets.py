"""Settings that go with a choice of model or of data, where a recipe does not say otherwise."""

from typing import Any

from ndp.networks.registry import BIDIMENSIONAL, Kind
from ndp.priors.registry import IMAGE_SETS, PRIORS

NDP_MODEL, JOINT_MODEL = "ndp", "joint"
MODELS = (NDP_MODEL, JOINT_MODEL, *Kind)
# The paper's models are an NDP and a joint NDP with the paper's settings.
PAPER_MODEL, JOINT_PAPER_MODEL = "ndp-paper", "joint-paper"
_PLAIN = {PAPER_MODEL: NDP_MODEL, JOINT_PAPER_MODEL: JOINT_MODEL}

_PAPER_NETWORK: dict[str, Any] = {
    "attention": "per_dimension",
    "inputs": "raw",
    "context": "full",
    "local_density": False,
    "input_count": False,
    "blocks": 4,
}
# Images: one token a point, no attention over dimensions.
_PAPER_IMAGE_NETWORK: dict[str, Any] = _PAPER_NETWORK | {
    "kind": BIDIMENSIONAL,
    "ordered_dims": 2,
    "blocks": 5,
    "attention": "summed",
}
# Inputs and values: the network of joint models, without what the paper does not have.
_PAPER_JOINT_NETWORK: dict[str, Any] = {
    "attention": "per_dimension",
    "rotary": False,
    "local_density": False,
    "anchor_points": 0,
}
_PAPER: dict[str, Any] = {
    "prediction": "eps",
    "error": "l1",
    "schedule": 500,
    "use_context": False,
    "optimiser": "adamw",
    "learning_rate": 1e-3,
    "weight_decay": 0.0,
}
_PAPER_JOINT: dict[str, Any] = _PAPER | {"schedule": 2000, "joint_share": 1.0}
# As the package of the neural processes trains them.
_NEURAL_PROCESS: dict[str, Any] = {
    "optimiser": "adamw",
    "weight_decay": 0.0,
    "learning_rate": 3e-4,
    "batch": 32,
    "steps": 30_000,
}
# Pixels depend on each other, so that high noise levels matter. Colours are known exactly or not at all.
_IMAGES: dict[str, Any] = {
    "dims": (2,),
    "level_law": (-0.6, 1.4),
    "noisy_share": 0.0,
    "batch": 128,
    "warmup": 1000,
}


def with_presets(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a recipe, and those of its prior and its model where it has none of its own."""
    model, prior = settings.get("model", NDP_MODEL), settings.get("prior")
    presets: dict[str, Any] = {"model": NDP_MODEL}
    network: dict[str, Any] = {}
    if prior in PRIORS:
        presets |= {"level_law": PRIORS[prior].level_law}
    if prior in IMAGE_SETS:
        presets |= _IMAGES
    if model == PAPER_MODEL:
        presets |= _PAPER
        network |= _PAPER_IMAGE_NETWORK if prior in IMAGE_SETS else _PAPER_NETWORK
    elif model == JOINT_PAPER_MODEL:
        presets |= _PAPER_JOINT
        network |= _PAPER_JOINT_NETWORK
    elif model in list(Kind):
        presets |= _NEURAL_PROCESS
    if settings.get("gate_only"):
        network["experts"] = True
    network |= settings.get("network", {})
    return presets | settings | {"model": _PLAIN.get(model, model), "network": network}
