"""Binding a network to a context and to the inputs of the targets gives the denoiser that solvers see.

Conditioning is a choice of noise levels, one for every point:

    conditional    context at the level of its own noise (CLEAN if there is none), targets at the solver's level
    joint          context and targets at the solver's level, as RePaint needs it
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.arrays import Context
from ndp.diffusion.levels import alpha, level_of_ratio
from ndp.diffusion.prediction import Prediction
from ndp.typing import Denoiser, Network

# Rows of a batch are passed to the network in pieces of about this many tokens, which bounds the memory of a draw.
TOKENS_PER_CALL = 2**17


def conditional_denoiser(
    network: Network, prediction: Prediction, context: Context, x: Float[Tensor, "B M D"], dtype: torch.dtype
) -> Denoiser:
    """E[y0 | y_t, context] of the targets at `x`: amortised conditioning."""
    level_context = level_of_ratio(context.noise).to(dtype)
    y_context = alpha(level_context)[..., None] * context.y.to(dtype)
    inputs, mask = _all_points(network, context, x, dtype)
    num_context = context.x.shape[1]

    def denoise(y_t: Float[Tensor, "*S B M P"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B M P"]:
        y_all = torch.cat([y_context.expand(*y_t.shape[:-2], *y_context.shape[-2:]), y_t], dim=-2)
        levels = torch.cat([level_context, level.to(dtype).expand(y_t.shape[-3:-1])], dim=-1)
        return _denoise(network, prediction, inputs, y_all, levels, mask)[..., num_context:, :]

    return denoise


def joint_denoiser(
    network: Network, prediction: Prediction, context: Context, x: Float[Tensor, "B M D"], dtype: torch.dtype
) -> Denoiser:
    """E[y0 | y_t] of context and targets together, none of them known; a context never below its own noise."""
    level_context = level_of_ratio(context.noise).to(dtype)
    inputs, mask = _all_points(network, context, x, dtype)

    def denoise(y_t: Float[Tensor, "*S B N P"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B N P"]:
        level = level.to(dtype)
        levels = torch.cat([torch.minimum(level, level_context), level.expand(x.shape[:2])], dim=-1)
        return _denoise(network, prediction, inputs, y_t, levels, mask)

    return denoise


def _all_points(
    network: Network, context: Context, x: Float[Tensor, "B M D"], dtype: torch.dtype
) -> tuple[Float[Tensor, "B N D"], Bool[Tensor, "B N"] | None]:
    inputs = torch.cat([context.x, x], dim=1)
    if network.translation_equivariant:  # where only differences count, an origin near the points saves digits
        inputs = inputs - x.mean(dim=1, keepdim=True)
    if bool(context.mask.all()):
        return inputs.to(dtype), None
    return inputs.to(dtype), torch.cat([context.mask, torch.ones_like(x[..., 0], dtype=torch.bool)], dim=1)


def _denoise(
    network: Network,
    prediction: Prediction,
    x: Float[Tensor, "B N D"],
    y_t: Float[Tensor, "*S B N P"],
    level: Float[Tensor, "B N"],
    mask: Bool[Tensor, "B N"] | None,
) -> Float[Tensor, "*S B N P"]:
    """One network call for all draws of all tasks, in pieces where they are many."""
    draws = y_t.reshape(-1, *x.shape[:2], y_t.shape[-1])
    rows = draws.shape[0] * x.shape[0]

    def per_row(values: Tensor) -> Tensor:
        return values.expand(draws.shape[0], *values.shape).reshape(rows, *values.shape[1:])

    size = max(1, TOKENS_PER_CALL // (x.shape[1] * x.shape[2]))
    pieces = [
        prediction.y0_hat(network(x_piece, y_piece, level_piece, mask_piece), y_piece, level_piece)
        for x_piece, y_piece, level_piece, mask_piece in zip(
            per_row(x).split(size),
            draws.reshape(rows, *draws.shape[2:]).split(size),
            per_row(level).split(size),
            [None] * rows if mask is None else per_row(mask).split(size),
            strict=False,
        )
    ]
    return torch.cat(pieces).reshape(y_t.shape)
