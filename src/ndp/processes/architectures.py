"""The architectures of the package `neuralprocesses`, each as its authors recommend it."""

import math
import warnings
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ndp.core.extras import MissingExtraError
from ndp.core.messages import first_line, short
from ndp.networks.registry import Kind as Kind

# A grid of the inputs is what convolutions need, and what makes them dear in more dimensions.
_GRIDS: dict[int, dict[str, Any]] = {
    1: {"points_per_unit": 64, "unet_channels": (64,) * 6},
    2: {"points_per_unit": 8, "unet_channels": (64,) * 4},
    3: {"points_per_unit": 4, "unet_channels": (32,) * 3},
}
# The most of a setting, of entries in one that is a list, and of points in a grid: more would fill the machine.
MOST = {"number": 4096, "layers": 32, "grid": 2**14}


def construct(kind: Kind, dim: int, options: dict[str, Any]) -> nn.Module:
    """An untrained network with all of its parameters; `options` go to the package's own constructor."""
    _check_options(dim, options)
    if kind.convolutional and (dim not in _GRIDS or (kind is Kind.CONVNP and dim == 3)):
        raise ValueError(f"{kind} is infeasible for {dim} input dimensions: it convolves over a grid of them")
    nps = package()
    try:
        return _construct(nps, kind, dim, options)
    except Exception as error:  # the package says in many ways that it does not take an option
        raise ValueError(f"the neural process {kind} does not take these settings: {first_line(error)}") from error


def _check_options(dim: int, options: dict[str, Any]) -> None:
    """Raise a ValueError for the first option that no network has, such as one whose grid fills the machine."""
    if type(dim) is not int or not 1 <= dim <= MOST["number"]:
        raise ValueError(f"dim must be a whole number from 1 to {MOST['number']:,}, not {short(dim)}")
    if not isinstance(options, dict):
        raise ValueError(f"options must be a table of settings, not {short(options)}")
    for name, value in options.items():
        each = value if isinstance(value, list | tuple) else [value]
        numbers = [one for one in each if isinstance(one, int | float)]
        if len(each) > MOST["layers"] or not all(0 <= one <= MOST["number"] for one in numbers):
            raise ValueError(f"{name} must be from 0 to {MOST['number']:,}, not {short(value)}")
        if name != "dim_lv" and any(type(one) is int and not one for one in numbers):
            raise ValueError(f"{name} must be at least 1, not {short(value)}")
        if not all(one is None or isinstance(one, str | int | float) for one in each):
            raise ValueError(f"{name} must be a number, text or a list of them, not {short(value)}")
    made = _GRIDS.get(dim, {}) | {"margin": 0.1, "unet_strides": 2} | options
    try:
        strides = made["unet_strides"]
        side = made.get("points_per_unit", 1) * max(2 * made["margin"], 1)
        coarse = (
            math.prod(strides) if isinstance(strides, list | tuple) else strides ** len(made.get("unet_channels", ()))
        )
        points = max(side, coarse, 1) ** min(dim, len(_GRIDS))
    except (TypeError, OverflowError):
        raise ValueError("points_per_unit, margin, unet_strides and unet_channels must be numbers") from None
    if points > MOST["grid"]:
        raise ValueError(f"these settings need a grid of {points:.3g} points; it may have {MOST['grid']:,}")


def _construct(nps: Any, kind: Kind, dim: int, options: dict[str, Any]) -> nn.Module:
    made: dict[str, Any] = {"dim_x": dim, "dim_y": 1, "likelihood": "lowrank" if kind is Kind.GNP else "het"}
    if kind.convolutional:
        made |= _GRIDS[dim] | ({"dim_lv": 16} if kind.latent else {})
        network = nps.construct_convgnp(**(made | options))
    else:
        made |= {"dim_lv": 128} if kind.latent else {}
        maker = nps.construct_agnp if kind is Kind.ANP else nps.construct_gnp
        network = maker(**(made | options))
    # Parameters come into being at the first call.
    x, y = torch.zeros(1, dim, 2), torch.zeros(1, 1, 2)
    with torch.no_grad():
        nps.elbo(torch.Generator().manual_seed(0), network, x, y, x, y)
    return network


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """Where the package makes its constants and draws its noise: it does not follow the tensors that it is given."""
    package()
    import lab

    return lab.on_device(str(device))


def decisions() -> AbstractContextManager[Any]:
    """What the package decides by looking at values, remembered from the first time: to look is to wait for the device."""
    package()
    import lab

    return lab.ControlFlowCache()


class WithoutWaiting(TorchFunctionMode):
    """What the package does and a captured step cannot: copy numbers to the device, and look whether a factor exists.

    Numbers are written on the device instead; a Cholesky factor that does not exist is not finite.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is torch.linalg.cholesky:
            return torch.linalg.cholesky_ex(*args, **kwargs).L
        if function is torch.tensor and isinstance(args[0], int | float):
            return torch.full((), *args, **kwargs)
        return function(*args, **kwargs)


def package() -> Any:
    """The package `neuralprocesses`, or a word on how to get it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import lab.torch  # noqa: F401
            import neuralprocesses.torch as nps
    except ImportError as error:
        raise MissingExtraError("neural processes need the extra `baselines`", "baselines") from error
    return nps
