"""Binding a network to a context and to the inputs of the targets gives the denoiser that solvers see.

Conditioning is a choice of noise levels, one for every point:

    conditional    context at the level of its own noise (CLEAN if there is none), targets at the solver's level
    joint          context and targets at the solver's level, as RePaint needs it
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.arrays import Context
from ndp.core.memory import keep_freed_memory
from ndp.core.typing import ContextEncoder, Denoiser, Network
from ndp.diffusion.levels import alpha, level_of_ratio
from ndp.diffusion.prediction import Prediction
from ndp.networks.cuda_graphs import Replayed

# Draws are passed to the network in pieces of about this many tokens, which bounds the memory of a call. On a CPU they are few
# enough for its cache, and for the memory that is kept: twice as many take a tenth longer at 5 inputs, and half longer at 10.
TOKENS_PER_CALL = {"cpu": 2**12, "cuda": 2**20}


def conditional_denoiser(
    network: Network,
    prediction: Prediction,
    context: Context,
    x: Float[Tensor, "B M D"],
    dtype: torch.dtype,
    *,
    of_function: bool = False,
    alone: bool = False,
) -> Denoiser:
    """E[y0 | y_t, context] of the targets at `x`: amortised conditioning.

    A network that can encode a context does so here, once for all draws and all steps of a solver. `of_function` asks a network
    that tells them from observations for values of the function; with `alone` every target is denoised by itself, given the
    context and none of the others.
    """
    keep_freed_memory()
    encodes = isinstance(network, ContextEncoder) and network.encodes_context
    if alone and not encodes:
        return _one_task_a_target(network, prediction, context, x, dtype)
    level_context = level_of_ratio(context.noise).to(dtype)
    y_context = alpha(level_context)[..., None] * context.y.to(dtype)
    x_context, x = _centred(network, context, x, dtype, alone=alone)
    num_context = x_context.shape[1]
    mask = None if bool(context.mask.all()) else context.mask

    if encodes:
        assert isinstance(network, ContextEncoder)
        encoding = network.encode(x_context, y_context, level_context, mask, x, of_function=of_function, alone=alone)

        def decode(
            setting: tuple[Any, Prediction], y_rows: Float[Tensor, "R M P"], level: Float[Tensor, ""]
        ) -> Float[Tensor, "R M P"]:
            encoding, prediction = setting
            output = network.decode(y_rows, level, encoding)
            return prediction.y0_hat(output, y_rows, level.expand(y_rows.shape[:2]))

        call = Replayed(network, decode, (encoding, prediction))

        def denoise_encoded(y_t: Float[Tensor, "*S B M P"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B M P"]:
            return _in_pieces(call, y_t, level.to(dtype), tokens=x.shape[1] * x.shape[2])

        return denoise_encoded

    x_all = torch.cat([x_context, x], dim=1)
    mask_all = None if mask is None else torch.cat([mask, torch.ones_like(x[..., 0], dtype=torch.bool)], dim=1)

    call = _call_of(network, prediction, x_all, mask_all, num_context)

    def denoise(y_t: Float[Tensor, "*S B M P"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B M P"]:
        y_all = torch.cat([y_context.expand(*y_t.shape[:-2], *y_context.shape[-2:]), y_t], dim=-2)
        levels = torch.cat([level_context, level.to(dtype).expand(x.shape[:2])], dim=-1)
        return _in_pieces(call, y_all, levels, tokens=x_all.shape[1] * x.shape[2])[..., num_context:, :]

    return denoise


def _one_task_a_target(
    network: Network, prediction: Prediction, context: Context, x: Float[Tensor, "B M D"], dtype: torch.dtype
) -> Denoiser:
    points = x.shape[1]
    repeated = Context(
        *(t.repeat_interleave(points, dim=0) for t in (context.x, context.y, context.noise, context.mask))
    )
    denoise_each = conditional_denoiser(network, prediction, repeated, x.flatten(0, 1)[:, None], dtype)

    def denoise(y_t: Float[Tensor, "*S B M P"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B M P"]:
        return denoise_each(y_t.flatten(-3, -2)[..., None, :], level).reshape(y_t.shape)

    return denoise


def joint_denoiser(
    network: Network, prediction: Prediction, context: Context, x: Float[Tensor, "B M D"], dtype: torch.dtype
) -> Denoiser:
    """E[y0 | y_t] of context and targets together, none of them known; a context never below its own noise."""
    level_context = level_of_ratio(context.noise).to(dtype)
    x_all = torch.cat(_centred(network, context, x, dtype), dim=1)
    targets = torch.ones_like(x[..., 0], dtype=torch.bool)
    mask = None if bool(context.mask.all()) else torch.cat([context.mask, targets], dim=1)

    call = _call_of(network, prediction, x_all, mask, num_context=0)

    def denoise(y_t: Float[Tensor, "*S B N P"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B N P"]:
        level = level.to(dtype)
        levels = torch.cat([torch.minimum(level, level_context), level.expand(x.shape[:2])], dim=-1)
        return _in_pieces(call, y_t, levels, tokens=x_all.shape[1] * x.shape[2])

    return denoise


def _centred(
    network: Network, context: Context, x: Float[Tensor, "B M D"], dtype: torch.dtype, *, alone: bool = False
) -> tuple[Float[Tensor, "B C D"], Float[Tensor, "B M D"]]:
    """Where only differences count, an origin near the points saves digits. Targets alone must not know of each other."""
    near = context.x if alone and context.x.shape[1] else x
    origin = near.mean(dim=1, keepdim=True) if network.translation_equivariant else torch.zeros_like(x[:, :1])
    return (context.x - origin).to(dtype), (x - origin).to(dtype)


def _call_of(
    network: Network,
    prediction: Prediction,
    x: Float[Tensor, "B N D"],
    mask: Bool[Tensor, "B N"] | None,
    num_context: int,
) -> Replayed:
    """One call of a network for rows [S * B, N, P] and the levels [B, N] of their tasks."""

    def call(
        setting: tuple[Tensor, Tensor | None, int, Prediction],
        y_rows: Float[Tensor, "R N P"],
        level: Float[Tensor, "B N"],
    ) -> Float[Tensor, "R N P"]:
        x, mask, num_context, prediction = setting

        def repeat(values: Tensor) -> Tensor:
            return values.expand(len(y_rows) // len(x), *values.shape).flatten(0, 1)

        levels = repeat(level)
        mask_rows = None if mask is None else repeat(mask)
        output = network(repeat(x), y_rows, levels, mask_rows, num_context=num_context)
        return prediction.y0_hat(output, y_rows, levels)

    return Replayed(network, call, (x, mask, num_context, prediction))


def _in_pieces(
    call: Replayed, y_t: Float[Tensor, "*S B N P"], level: Tensor, *, tokens: int
) -> Float[Tensor, "*S B N P"]:
    """One call for all draws of all tasks, or several where they are many."""
    draws = y_t.reshape(-1, *y_t.shape[-3:])
    fitting = max(1, TOKENS_PER_CALL.get(y_t.device.type, TOKENS_PER_CALL["cpu"]) // (tokens * draws.shape[1]))
    size = 2 ** (fitting.bit_length() - 1)  # so that many draws fall into equal pieces
    pieces = [call(piece.flatten(0, 1), level).reshape(piece.shape) for piece in draws.split(size)]
    return torch.cat(pieces).reshape(y_t.shape)
