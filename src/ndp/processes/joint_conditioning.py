"""Binding a joint network to a context gives denoisers of what is asked: inputs, or inputs and outputs together.

inputs given values        values CLEAN, inputs at the solver's level
both                       both at the solver's level
RePaint                    everything at the solver's level, what is known noised to it
values given inputs        the regression NDP: see `ndp.networks.joint.KnownInputs` and `ndp.processes.conditioning`
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ndp.core.arrays import Context
from ndp.core.typing import Denoiser, JointNetwork
from ndp.diffusion.levels import CLEAN, alpha, level_of_ratio
from ndp.diffusion.prediction import Prediction
from ndp.processes.conditioning import TOKENS_PER_CALL


class KnownContext:
    """A joint network given a context, which is encoded once for all questions about it."""

    def __init__(self, network: JointNetwork, prediction: Prediction, context: Context, dtype: torch.dtype) -> None:
        self._network, self._prediction, self._dtype = network, prediction, dtype
        level = level_of_ratio(context.noise).to(dtype)
        y = alpha(level)[..., None] * context.y.to(dtype)
        mask = None if bool(context.mask.all()) else context.mask
        self._encoding = network.encode(context.x.to(dtype), y, torch.full_like(level, CLEAN), level, mask)

    def inputs_given(self, y: Float[Tensor, "B M P"]) -> Denoiser:
        """E[x0 | x_t, y, context] of targets whose values are known; what a solver calls `y_t` are inputs here."""
        values = y.to(self._dtype)

        def denoise(y_t: Float[Tensor, "*S B M D"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B M D"]:
            return self._ask(y_t, values.expand(*y_t.shape[:-1], -1), level, torch.full_like(level, CLEAN))[0]

        return denoise

    def both(self, dim: int) -> Denoiser:
        """E[x0, y0 | x_t, y_t, context], the last axis being the `dim` coordinates and then the values."""

        def denoise(y_t: Float[Tensor, "*S B M Z"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B M Z"]:
            return torch.cat(self._ask(y_t[..., :dim], y_t[..., dim:], level, level), dim=-1)

        return denoise

    def _ask(
        self,
        x_t: Float[Tensor, "*S B M D"],
        y_t: Float[Tensor, "*S B M P"],
        level_x: Float[Tensor, ""],
        level_y: Float[Tensor, ""],
    ) -> tuple[Float[Tensor, "*S B M D"], Float[Tensor, "*S B M P"]]:
        """In pieces where draws are many. Draws of one point each are points of one row, and do not see each other."""
        both = [t.reshape(-1, *t.shape[-3:]) for t in (x_t, y_t)]
        alone = x_t.shape[-2] == 1
        size = max(1, TOKENS_PER_CALL.get(x_t.device.type, 2**15) // both[0][0].numel())
        levels = [level.to(self._dtype) for level in (level_x, level_y)]

        def one(*pieces: Tensor) -> list[Tensor]:
            rows = [p.squeeze(-2).transpose(0, 1) if alone else p.flatten(0, 1) for p in pieces]
            outputs = self._network.decode(rows[0], rows[1], levels[0], levels[1], self._encoding, alone=alone)
            clean = [
                self._prediction.y0_hat(output, noised, level.expand(noised.shape[:2]))
                for output, noised, level in zip(outputs, rows, levels, strict=True)
            ]
            back = [c.transpose(0, 1).unsqueeze(-2) if alone else c for c in clean]
            return [b.reshape(p.shape) for b, p in zip(back, pieces, strict=True)]

        answers = [one(*pieces) for pieces in zip(*(t.split(size) for t in both), strict=True)]
        x0_hat, y0_hat = (torch.cat(parts) for parts in zip(*answers, strict=True))
        return x0_hat.reshape(x_t.shape), y0_hat.reshape(y_t.shape)


def entries_denoiser(
    network: JointNetwork,
    prediction: Prediction,
    mask: Bool[Tensor, "B N"],
    noise: Float[Tensor, "B N"],
    order: Int[Tensor, "E"],
    dim: int,
    dtype: torch.dtype,
) -> Denoiser:
    """E[z0 | z_t] of single numbers: all coordinates and values of N points in a given order, none of them known.

    `order` are their places among the numbers of [N, D + P]; `noise` is what values were observed with, below which they are
    never told to be. RePaint, which knows of points with one value, paints such numbers.
    """
    back = torch.argsort(order)
    points = mask.shape[1]
    real = None if bool(mask.all()) else mask
    observed = level_of_ratio(noise).to(dtype)

    def denoise(y_t: Float[Tensor, "*S B E 1"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B E 1"]:
        draws = y_t.reshape(-1, *y_t.shape[-3:-1])
        z_t = draws[..., back].unflatten(-1, (points, -1)).flatten(0, 1)

        def repeated(of_tasks: Tensor) -> Tensor:
            return of_tasks.expand(len(draws), *of_tasks.shape).flatten(0, 1)

        level_x = level.to(dtype).expand(z_t.shape[:2])
        level_y = torch.minimum(level_x, repeated(observed))
        rows = None if real is None else repeated(real)
        noised = z_t[..., :dim], z_t[..., dim:]
        outputs = network(*noised, level_x, level_y, rows)
        clean = [prediction.y0_hat(o, n, ell) for o, n, ell in zip(outputs, noised, (level_x, level_y), strict=True)]
        return torch.cat(clean, dim=-1).flatten(1)[:, order].reshape(y_t.shape)

    return denoise
