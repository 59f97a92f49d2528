"""The distribution of one function value by itself: moments, quantiles and densities without random numbers.

A draw of one value is an increasing function of its noise `z`. So its quantile of probability p is the draw of `z = ndtri(p)`,
and its moments are integrals over `z`. Every target is denoised by itself given the context, all of them in one call, and in
few calls (`ndp.diffusion.marginal_solver`). An answer does not depend on what else is asked for.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.increasing import IncreasingCurve
from ndp.core.typing import Denoiser, Level
from ndp.diffusion import likelihood
from ndp.diffusion.marginal_solver import NODES, Guess, SolvedValues, quadrature, solve_values
from ndp.processes.conditioning import Diffusion

# Inputs to the denoiser of their values, each by itself and at a level of its own, and a guess of the values.
MakeDenoiser: TypeAlias = Callable[[Float[Tensor, "B M D"]], tuple[Denoiser, Guess]]

AT_ONCE = 256  # targets, which bounds the memory of a call
# Targets are filled up to a multiple of this. Products of matrices treat what is left over of their blocks in another order,
# and an answer would differ in its last digits with how many others were asked for.
BLOCK = 16


@torch.no_grad()
def summary(
    denoiser: MakeDenoiser,
    diffusion: Diffusion,
    inputs: Float[Tensor, "B M D"],
    probabilities: Float[Tensor, "Q"],
    sign: Float[Tensor, "B"],
    steps: int,
) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M 1"], Float[Tensor, "Q B M 1"]]:
    """Mean, standard deviation and quantiles in model units; `sign` is -1 where the user's values fall with the model's."""
    _check_outputs(diffusion)
    noise = torch.special.ndtri(probabilities.clamp(1e-6, 1 - 1e-6))[:, None] * sign
    pieces = []
    for piece in _in_blocks(inputs):
        solved = _solved(denoiser, diffusion, piece, noise, steps)
        pieces.append(torch.cat([solved.mean[None], solved.variance.sqrt()[None], solved.asked]))
    values = torch.cat(pieces, dim=2)[:, :, : inputs.shape[1]]
    return values[0], values[1], values[2:]


@torch.no_grad()
def curves(denoiser: MakeDenoiser, diffusion: Diffusion, inputs: Float[Tensor, "B M D"], steps: int) -> IncreasingCurve:
    """Standard normal noise to values, a curve for each: the draw of every value as a function of its noise, in model units."""
    _check_outputs(diffusion)
    asked = inputs.new_zeros(1, 1)  # besides the nodes, which leave out the middle
    pieces = []
    for piece in _in_blocks(inputs):
        solved = _solved(denoiser, diffusion, piece, asked, steps)
        pieces.append(torch.cat([solved.asked, solved.nodes]))
    places, order = torch.cat([asked[:, 0], inputs.new_tensor(quadrature(NODES)[0])]).sort()
    values = torch.cat(pieces, dim=2)[order, :, : inputs.shape[1], 0]
    return IncreasingCurve(places, values.cummax(0).values)


@torch.no_grad()
def log_prob(
    denoiser: MakeDenoiser,
    diffusion: Diffusion,
    inputs: Float[Tensor, "B M D"],
    values: Float[Tensor, "B M 1"],
    steps: int,
) -> Float[Tensor, "B M 1"]:
    """Log-density of every value by itself in nats, in model units."""
    _check_outputs(diffusion)
    values = diffusion.in_precision(values, "y")
    levels = likelihood.default_levels(1, steps, finest=max(0.006, diffusion.trained_ratios[0]))
    pieces = [
        likelihood.log_prob_of_each(denoiser(at)[0], piece, levels)
        for at, piece in zip(_in_blocks(inputs), _in_blocks(values), strict=True)
    ]
    return torch.cat(pieces, dim=1)[:, : inputs.shape[1]].double()


def _solved(
    denoiser: MakeDenoiser,
    diffusion: Diffusion,
    inputs: Float[Tensor, "B M D"],
    noise: Float[Tensor, "S #B"],
    steps: int,
) -> SolvedValues:
    denoise, guess = denoiser(inputs)
    return solve_values(_in_double(denoise, diffusion.dtype), noise, guess, steps, diffusion.trained_ratios)


def _in_double(denoise: Denoiser, dtype: torch.dtype) -> Denoiser:
    """For solvers in float64: a distribution may be as narrow as a thousandth of the value."""

    def precise(y_t: Float[Tensor, "*S B M 1"], level: Level) -> Float[Tensor, "*S B M 1"]:
        return denoise(y_t.to(dtype), level).double()

    return precise


def _check_outputs(diffusion: Diffusion) -> None:
    if diffusion.num_outputs != 1:
        raise ValueError(
            f"joint=False needs values of one number, and this model has {diffusion.num_outputs} outputs; use joint=True"
        )


def _in_blocks(targets: Float[Tensor, "B M _"]) -> tuple[Tensor, ...]:
    """Targets in pieces of whole blocks; the last target fills up its block."""
    missing = -targets.shape[1] % BLOCK if targets.shape[1] else 0
    return torch.cat([targets, targets[:, -1:].expand(-1, missing, -1)], dim=1).split(AT_ONCE, dim=1)
