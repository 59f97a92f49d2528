"""The law of one function value by itself: exact in its noise, cheap, and the same whatever else is asked for.

A draw of one value is a rising function of its noise `z`. So its quantile of probability p is the draw of `z = ndtri(p)`, its
moments are integrals over `z`, and no random number is drawn. Every target is asked for alone with the context, in one call for
all of them, and in few calls (`ndp.diffusion.marginal_solver`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.arrays import Context, Form, read_inputs_for, read_probabilities
from ndp.core.typing import Array, Denoiser, Moments
from ndp.core.units import Units
from ndp.diffusion import likelihood
from ndp.diffusion.marginal_solver import solve_values, value_levels
from ndp.processes.conditioning import conditional_denoiser

if TYPE_CHECKING:
    from ndp.processes.ndp import NDP

AT_ONCE = 256  # targets, which bounds the memory of a call
# Targets are filled up to a multiple of this. Products of matrices treat what is left over of their blocks in another order,
# and an answer would differ in its last digits with how many others were asked for.
BLOCK = 16


@final
class NDPMarginals:
    """The marginal laws of an NDP's posterior."""

    def __init__(self, ndp: "NDP", context: Context, form: Form, units: Units, *, of_function: bool) -> None:
        if ndp.num_outputs != 1:
            raise ValueError(f"a value is one number here, and this model has {ndp.num_outputs} outputs")
        self._ndp = ndp
        self._context = context
        self._form = form
        self._units = units
        self._of_function = of_function

    def moments(self, x: Array, *, steps: int = 10) -> Moments:
        """Mean and standard deviation at every point, in `steps` calls of the network."""
        return self._answers(x, torch.zeros(0, dtype=torch.float64), steps)[0]

    def quantiles(self, x: Array, probabilities: Sequence[float], *, steps: int = 10) -> Array:
        """Quantiles at every point, [Q B M P], in `steps` calls of the network."""
        return self.moments_and_quantiles(x, probabilities, steps=steps)[1]

    def moments_and_quantiles(
        self, x: Array, probabilities: Sequence[float], *, steps: int = 10
    ) -> tuple[Moments, Array]:
        """Both, for the price of the quantiles."""
        asked = read_probabilities(probabilities, torch.zeros((), dtype=torch.float64))
        return self._answers(x, asked, steps)

    def log_prob(self, x: Array, y: Array, *, steps: int = 15) -> Array:
        """Log-density of every value by itself in nats: [B M P]."""
        inputs, values = self._ndp.read_targets(self._context, self._form, self._units, x, y)
        levels = likelihood.default_levels(1, steps, finest=max(0.006, self._ndp.trained_ratios[0]))
        pieces = []
        with torch.no_grad():
            for at, piece in zip(_in_blocks(inputs), _in_blocks(values), strict=True):
                pieces.append(likelihood.log_prob_of_each(self._denoiser(at), piece.to(self._ndp.dtype), levels))
        log_p = torch.cat(pieces, dim=1)[:, : inputs.shape[1]]
        volume = torch.as_tensor(self._units.log_det(1)).to(log_p.device, torch.float64)
        return self._form.give(log_p.double() + volume.reshape(-1, 1, 1))

    def _answers(self, x: Array, asked: Float[Tensor, "Q"], steps: int) -> tuple[Moments, Array]:
        """Moments, and quantiles of the probabilities `asked`, which never cross."""
        noise = torch.special.ndtri(asked.clamp(1e-6, 1 - 1e-6))[:, None] * torch.as_tensor(self._units.y_turn()).cpu()
        inputs = self._units.to_model_x(read_inputs_for(self._context, x))
        levels = value_levels(steps, self._ndp.trained_ratios, self._ndp.dtype).to(inputs.device)
        pieces = []
        with torch.no_grad():
            for piece in _in_blocks(inputs):
                solved = solve_values(self._denoiser(piece), noise, piece.to(self._ndp.dtype), levels)
                mean, variance = solved.moments()
                pieces.append(torch.cat([mean[None], variance.sqrt()[None], solved.asked]))
        mean, std, *_ = values = torch.cat(pieces, dim=2)[:, :, : inputs.shape[1]]
        give = self._units.from_model_y
        moments = Moments(self._form.give(give(mean)), self._form.give((give(mean + std) - give(mean)).abs()))
        rank = asked.argsort().argsort().to(values.device)  # each probability has the value of its rank
        return moments, self._form.give(give(values[2:]).sort(0).values[rank])

    def _denoiser(self, inputs: Float[Tensor, "B M D"]) -> Denoiser:
        ndp = self._ndp
        return conditional_denoiser(
            ndp.network, ndp.prediction, self._context, inputs, ndp.dtype, of_function=self._of_function, alone=True
        )


def _in_blocks(targets: Float[Tensor, "B M _"]) -> tuple[Tensor, ...]:
    """Targets in pieces of whole blocks; the last one stands in for those that are missing."""
    missing = -targets.shape[1] % BLOCK if targets.shape[1] else 0
    return torch.cat([targets, targets[:, -1:].expand(-1, missing, -1)], dim=1).split(AT_ONCE, dim=1)
