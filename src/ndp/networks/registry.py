"""Names of networks to networks, in one place, and the names that settings and weights had before."""

import re
from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ndp.core.messages import first_line, short

if TYPE_CHECKING:
    from torch import Tensor

BIDIMENSIONAL, IMAGE, JOINT = "bidimensional", "image", "joint"
_NETWORKS = {
    BIDIMENSIONAL: "ndp.networks.bidimensional:BiDimensionalAttention",
    IMAGE: "ndp.networks.image:ImageAttention",
    JOINT: "ndp.networks.joint:JointAttention",
}


class Kind(StrEnum):
    """The neural processes of the package `neuralprocesses` (`ndp.processes.architectures`).

    `GNP` predicts a joint Gaussian, `CONVCNP` independent ones; the others average over a latent variable.
    """

    GNP = "gnp"
    CONVCNP = "convcnp"
    CONVNP = "convnp"
    ANP = "anp"
    NP = "np"

    @property
    def convolutional(self) -> bool:
        return self in (Kind.CONVCNP, Kind.CONVNP)

    @property
    def latent(self) -> bool:
        return self in (Kind.CONVNP, Kind.ANP, Kind.NP)

    @property
    def words(self) -> str:
        return {
            Kind.GNP: "Gaussian neural process",
            Kind.CONVCNP: "convolutional conditional neural process",
            Kind.CONVNP: "convolutional neural process",
            Kind.ANP: "attentive neural process",
            Kind.NP: "neural process",
        }[self]


# Names of the first release. Its configurations and weights are read under the names of today.
_RENAMED_SETTINGS = {
    "advised": "experts",
    "tells_noise": "separates_noise",
    "counts_neighbours": "local_density",
    "counts_dims": "input_count",
    "scouts": "anchor_points",
}
_RENAMED_WEIGHTS = (
    (re.compile(r"^trust\.read\."), "gate.first."),
    (re.compile(r"^trust\.think\."), "gate.second."),
    (re.compile(r"^trust\.tell\."), "gate.last."),
    (re.compile(r"^dims_code$"), "input_count_code"),
    (re.compile(r"\.crowd\."), ".density."),
)


def make_network(*, kind: str = BIDIMENSIONAL, **options: Any) -> Any:
    """A network with new weights. The options are those of its class."""
    network = _class_of(kind)
    try:
        return network(**current_settings(options))
    except TypeError as error:
        raise ValueError(f"the network {kind!r} does not take these settings: {first_line(error)}") from None


def make_network_of_shapes(settings: Mapping[str, Any]) -> Any:
    """The network of these settings; the weights of its layers are shapes on torch's device `meta`, and take no memory."""
    from ndp.networks.shapes import ShapesOnly

    if not isinstance(settings, Mapping):
        raise ValueError(f"network must be a table of settings, not {short(settings)}")
    with ShapesOnly():
        return make_network(**settings)


def describe_network(network: object) -> dict[str, Any]:
    """The settings from which `make_network` makes this network again."""
    for kind, home in _NETWORKS.items():
        if type(network).__name__ == home.partition(":")[2]:
            return {"kind": kind, **getattr(network, "config")}  # noqa: B009
    raise ValueError(f"a model made of a {type(network).__name__} has no weights to save")


def current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings under the names of today."""
    return {_RENAMED_SETTINGS.get(name, name): value for name, value in settings.items()}


def current_weights(weights: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """The same weights under the names of today."""
    return {current_weight_name(name): tensor for name, tensor in weights.items()}


def current_weight_name(name: str) -> str:
    """The name of today of a weight."""
    for before, now in _RENAMED_WEIGHTS:
        name = before.sub(now, name)
    return name


def _class_of(kind: str) -> Any:
    if not isinstance(kind, str) or kind not in _NETWORKS:
        raise ValueError(f"there is no network named {short(kind)}; there are: {', '.join(_NETWORKS)}")
    module, _, name = _NETWORKS[kind].partition(":")
    return getattr(import_module(module), name)
