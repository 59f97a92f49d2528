"""The exact distribution of a solver's output where the denoiser is linear, to test solvers without sampling error."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.randomness import normal


def affine_moments(
    solve: Callable[[Tensor], Tensor], like: Float[Tensor, "B M 1"]
) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M M"]]:
    """Mean and covariance of `solve(noise)` for standard normal noise and a deterministic, affine solver.

    The solver is run once on zero and on every basis vector, as a batch.
    """
    tasks, points, _ = like.shape
    origin_and_basis = torch.cat([like.new_zeros(1, points), torch.eye(points, dtype=like.dtype, device=like.device)])
    images = solve(origin_and_basis[:, None, :, None].expand(-1, tasks, -1, -1))
    mean = images[0]
    columns = (images[1:] - mean)[..., 0].permute(1, 2, 0)
    return mean, columns @ columns.mT


class UncorrelatedNoise:
    """Noise for stochastic solvers under which an ensemble has the exact mean and covariance of the solver's output.

    Across the ensemble (the first axis) the noise has mean zero and identity covariance and is uncorrelated with the values
    that it is added to, all to machine precision. The ensemble must hold more than twice as many members as values.
    """

    def __init__(self, seed: int = 0) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, like: Float[Tensor, "S B N 1"]) -> Float[Tensor, "S B N 1"]:
        members, _, points, _ = like.shape
        if members <= 2 * points + 1:
            raise ValueError(f"{points} values need an ensemble of more than {2 * points + 1}, not {members}")
        values = like[..., 0].transpose(0, 1)
        fresh = normal(tuple(values.shape), self._generator, like=values)
        basis, _ = torch.linalg.qr(torch.cat([torch.ones_like(values[..., :1]), values, fresh], dim=-1))
        return (basis[..., -points:] * members**0.5).transpose(0, 1)[..., None]


def ensemble_moments(draws: Float[Tensor, "S B M 1"]) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M M"]]:
    """Mean and covariance of an ensemble."""
    mean = draws.mean(dim=0)
    centred = (draws - mean)[..., 0].permute(1, 2, 0)
    return mean, centred @ centred.mT / draws.shape[0]
