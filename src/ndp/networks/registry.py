"""Names of networks to networks, in one place."""

from typing import Any

from ndp.networks.bidimensional import BiDimensionalAttention
from ndp.networks.image import ImageAttention
from ndp.networks.joint import JointAttention

BIDIMENSIONAL, IMAGE, JOINT = "bidimensional", "image", "joint"
_NETWORKS: dict[str, Any] = {BIDIMENSIONAL: BiDimensionalAttention, IMAGE: ImageAttention, JOINT: JointAttention}


def make_network(*, kind: str = BIDIMENSIONAL, **options: Any) -> Any:
    """A network with new weights. The options are those of its class."""
    if kind not in _NETWORKS:
        raise ValueError(f"there is no network named {kind!r}; there are: {', '.join(_NETWORKS)}")
    try:
        return _NETWORKS[kind](**options)
    except TypeError as error:
        raise ValueError(f"the network {kind!r} does not take these settings: {error}") from None


def describe_network(network: object) -> dict[str, Any]:
    """What `make_network` makes this network again from."""
    for kind, made in _NETWORKS.items():
        if isinstance(network, made):
            return {"kind": kind, **network.config}
    raise ValueError(f"a model made of a {type(network).__name__} has no weights to save")
