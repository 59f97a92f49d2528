"""Networks whose weights are compared with a file's before they take memory, however large a configuration says they are."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class ShapesOnly(TorchFunctionMode):
    """While it is active, layers have their weights on torch's device `meta`, and no initial values are drawn for them."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is torch.empty:
            return torch.empty(*args, **{**kwargs, "device": "meta"})
        if getattr(function, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs)


class NoMoreThan(TorchFunctionMode):
    """While it is active, layers may be made with as many numbers as these weights have, and no more.

    For networks that must be run once before all their layers exist.
    """

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._left = sum(weight.numel() for weight in weights.values())

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is torch.empty:
            size = kwargs.get("size", args[0] if len(args) == 1 and not isinstance(args[0], int) else args)
            self._left -= math.prod(size)
            if self._left < 0:
                raise ValueError("its configuration asks for more weights than there are")
        return function(*args, **kwargs)
