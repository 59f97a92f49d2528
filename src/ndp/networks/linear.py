"""The linear layer of blocks, whose products are most of a network's work."""

import platform

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

ROWS = 256  # from which on it pays


class Linear(nn.Linear):
    """`nn.Linear` that, on a CPU and without gradients, multiplies by oneDNN in place of MKL.

    MKL leaves half of the arithmetic of other makers' processors unused: on an AMD EPYC oneDNN takes half its time for the same
    numbers, and draws of `universal` take a fifth less.
    """

    def forward(self, values: Float[Tensor, "*shape I"]) -> Float[Tensor, "*shape O"]:
        return quick_linear(values, self.weight, self.bias)


def quick_linear(
    values: Float[Tensor, "*shape I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, "O"] | None
) -> Float[Tensor, "*shape O"]:
    """values @ weight.mT + bias."""
    if _AVAILABLE and _suits(values, weight):
        return torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")
    return linear(values, weight, bias)


# The operation that torch.compile puts in the place of linear layers; torch has no public name for it.
_AVAILABLE = (
    platform.machine() in ("x86_64", "AMD64")
    and torch.backends.mkldnn.is_available()
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)


def _suits(values: Tensor, weight: Tensor) -> bool:
    return (
        values.device.type == "cpu"
        and values.dtype == weight.dtype == torch.float32
        and values.numel() >= ROWS * weight.shape[1]
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )
