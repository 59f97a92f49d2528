"""Muon: weight matrices move by their momentum with all its singular values made equal, everything else by AdamW.

K. Jordan and others, "Muon: an optimizer for hidden layers in neural networks", 2024. PyTorch has one too, a matrix at a time;
here all matrices of a shape are one batched product, which is what networks with many small ones need.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

SMALLEST_SIDE = 16  # of a matrix; smaller ones, such as a layer that reads one value, are AdamW's
MOMENTUM = 0.95
ITERATIONS = 5
COEFFICIENTS = (
    3.4445,
    -4.7750,
    2.0315,
)  # of the quintic that brings singular values in (0, 1] to about one in five turns


class Muon(torch.optim.AdamW):
    """Takes AdamW's options, which are those of vectors and small matrices.

    The entries of a matrix change by `lr` in root mean square. Layers that are several square ones on top of each other
    (queries, keys and values; residual and skip) are taken apart.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], **options: Any) -> None:
        super().__init__(parameters, **options)
        every = [p for group in self.param_groups for p in group["params"]]
        self._matrices = [p for p in every if p.ndim == 2 and min(p.shape) >= SMALLEST_SIDE]

    def moves_matrix(self, parameter: nn.Parameter) -> bool:
        """Whether a parameter moves by its momentum, and not by AdamW."""
        return any(parameter is matrix for matrix in self._matrices)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        gradients = {p: p.grad for p in self._matrices if p.grad is not None}
        self._move(gradients)
        for parameter in gradients:  # what has no gradient, AdamW leaves alone
            parameter.grad = None
        super().step()
        for parameter, gradient in gradients.items():
            parameter.grad = gradient

    def _move(self, gradients: dict[nn.Parameter, Tensor]) -> None:
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for parameter, gradient in gradients.items():
            state = self.state[parameter]
            if "exp_avg" not in state:
                state["exp_avg"] = torch.zeros_like(parameter)
            momentum = state["exp_avg"].lerp_(gradient, 1 - MOMENTUM)
            ahead = gradient.lerp(momentum, MOMENTUM)
            for part, direction in zip(_apart(parameter), _apart(ahead), strict=True):
                by_shape[part.shape].append((part, direction))
        rate = self.param_groups[0]["lr"]
        for shape, moves in by_shape.items():
            parts, directions = zip(*moves, strict=True)
            torch._foreach_mul_(list(parts), 1 - rate * self.param_groups[0]["weight_decay"])
            change = orthogonalised(torch.stack(directions)) * (-rate * max(shape) ** 0.5)
            torch._foreach_add_(list(parts), list(change.unbind()))


def _apart(matrix: Tensor) -> tuple[Tensor, ...]:
    rows, columns = matrix.shape
    return matrix.detach().split(columns) if rows in (2 * columns, 3 * columns) else (matrix.detach(),)


def orthogonalised(matrices: Float[Tensor, "K R C"]) -> Float[Tensor, "K R C"]:
    """Nearly U V^T where a matrix is U S V^T: Newton-Schulz iterations, after which singular values are 0.7 to 1.2."""
    first, third, fifth = COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-12)
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = first * x + (third * square + fifth * square @ square) @ x
    return x.mT if tall else x
