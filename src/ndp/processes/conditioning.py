"""From a network and a context to the denoisers that solvers see: the context is encoded here, once.

Conditioning is a choice of noise levels, one for every point:

    values given inputs      context at the level of its own noise (CLEAN if there is none), targets at the solver's level
    inputs given values      target values CLEAN, target inputs at the solver's level          (joint networks)
    inputs and values        both at the solver's level                                        (joint networks)
    unconditional            context and targets at the solver's level, as RePaint needs it
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.arrays import Context, read_observation_noise
from ndp.core.memory import keep_freed_memory
from ndp.core.typing import ContextEncoder, Denoiser, JointNetwork, Level, LevelOfRows, Network
from ndp.diffusion.levels import CLEAN, alpha, level_of_ratio, log_uniform, noisiest_ratio
from ndp.diffusion.marginal_solver import Guess
from ndp.diffusion.prediction import Prediction
from ndp.diffusion.solvers import LastStep, half_to_zero, to_zero
from ndp.gp.copula import GaussianMixtureCopula
from ndp.networks.cuda_graphs import GraphedCall

# Draws are passed to the network in pieces of about this many tokens, which bounds the memory of a call. On a CPU they are few
# enough for its cache, and for the memory that is kept: twice as many take a tenth longer at 5 inputs, and half longer at 10.
TOKENS_PER_CALL = {"cpu": 2**12, "cuda": 2**20}


@dataclass(frozen=True)
class Diffusion:
    """A network, what its output means, and the noise levels that it was trained for: what every posterior needs of a model."""

    network: Network | JointNetwork
    prediction: Prediction
    noise_floor: float
    num_outputs: int
    trained_ratios: tuple[float, float]
    dtype: torch.dtype
    device: torch.device

    @property
    def of_points(self) -> bool:
        """Whether inputs can be denoised as well as values."""
        return isinstance(self.network, JointNetwork)

    @property
    def encodes_context(self) -> bool:
        """Whether the context does not depend on the targets."""
        return isinstance(self.network, ContextEncoder) and self.network.encodes_context

    @property
    def separates_noise(self) -> bool:
        """Whether values of the function and new observations can both be asked for."""
        return bool(getattr(self.network, "separates_noise", False))

    def reads_noise(self, observation_noise: bool | None) -> bool:
        """Whether new observations are asked for, or values of the function."""
        return read_observation_noise(
            observation_noise, separates_noise=self.separates_noise, carries_noise=self.noise_floor > 0
        )

    def in_precision(self, values: Float[Tensor, "B N _"], name: str) -> Float[Tensor, "B N _"]:
        """Inputs or values in the network's precision, in which their fourth powers must be finite."""
        most = torch.finfo(self.dtype).max ** 0.25
        if not bool((values.detach().abs() <= most).all()):
            largest = values.detach().abs().max().item()
            raise ValueError(
                f"{name} holds a number that is {largest:.3g} in the units of the model, and {most:.0e} is the most that it "
                "computes with; rescale the data, or leave that point out"
            )
        return values.to(self.dtype)

    def solver_levels(self, num_values: int, steps: int) -> tuple[Float[Tensor, "K"], LastStep]:
        """The grid of a solver on a function of so many values, and its last step.

        It starts where training ends at the latest, and ends below the noise floor, where half a step is exact, or near zero.
        """
        smallest, last_step = (self.noise_floor / 5, half_to_zero) if self.noise_floor >= 0.01 else (0.002, to_zero)
        return self.levels_down_to(smallest, num_values, steps), last_step

    def levels_down_to(self, smallest: float, num_values: int, steps: int) -> Float[Tensor, "K"]:
        """A log-uniform grid within the noise levels that were trained."""
        least, most = self.trained_ratios
        largest = min(noisiest_ratio(num_values), most)
        return log_uniform(steps, largest=largest, smallest=max(smallest, least), dtype=self.dtype).to(self.device)


class EncodedContext:
    """A network given a context in model units. A network that can encode a context does so here, for all that is asked later.

    Nothing is changed afterwards. Gradients reach the context where its tensors ask for them.
    """

    def __init__(self, diffusion: Diffusion, context: Context) -> None:
        keep_freed_memory()
        self.diffusion, self.context = diffusion, context
        dtype = diffusion.dtype
        self._level = level_of_ratio(context.noise).to(dtype)
        self._y = alpha(self._level)[..., None] * diffusion.in_precision(context.y, "y")
        self._mask = None if bool(context.mask.all()) else context.mask
        self._origin = _origin(diffusion.network, context)
        self._encoding: Any = None
        if diffusion.encodes_context:
            assert isinstance(diffusion.network, ContextEncoder)
            with torch.set_grad_enabled(torch.is_grad_enabled() and self.requires_grad):
                self._encoding = diffusion.network.encode_context(
                    diffusion.in_precision(context.x - self._origin, "x"), self._y, self._level, self._mask
                )

    @property
    def requires_grad(self) -> bool:
        return self.context.x.requires_grad or self.context.y.requires_grad

    def denoiser(self, x: Float[Tensor, "B M D"], *, joint: bool = True, observation_noise: bool = True) -> Denoiser:
        """E[y0 | y_t, context] of the targets at `x`.

        With `joint=False` every target is denoised by itself, given the context and none of the others.
        """
        if self._encoding is None:
            return self._all_points(x) if joint else self._one_task_a_target(x)
        return self._encoded_targets(x, joint, observation_noise)[0]

    def single_values(self, x: Float[Tensor, "B M D"], *, observation_noise: bool = True) -> tuple[Denoiser, Guess]:
        """The denoiser of targets by themselves, each at a level of its own, and what the GP experts predict, if any."""
        if self._encoding is None:
            return self._one_task_a_target(x), Guess.standard(x.double())
        denoise, targets = self._encoded_targets(x, False, observation_noise)
        experts = getattr(targets, "experts", None)
        if experts is None:
            return denoise, Guess.standard(x.double())
        return denoise, Guess(experts.summary[..., :1].double(), experts.summary[..., 1:2].double().exp())

    def _encoded_targets(self, x: Float[Tensor, "B M D"], joint: bool, observation_noise: bool) -> tuple[Denoiser, Any]:
        network: Any = self.diffusion.network
        x = self._placed(x)
        targets = network.encode_targets(self._encoding, x, joint=joint, observation_noise=observation_noise)

        def call(
            setting: tuple[Any, Prediction], y_rows: Float[Tensor, "R M P"], level: Level
        ) -> Float[Tensor, "R M P"]:
            targets, prediction = setting
            of_rows: LevelOfRows = level
            if level.ndim and len(level) > 1:
                of_rows = level.repeat(len(y_rows) // len(level), 1)
            return prediction.y0_hat(
                network.denoise(targets, y_rows, of_rows), y_rows, of_rows.expand(y_rows.shape[:2])
            )

        replayed = GraphedCall(network, call, (targets, self.diffusion.prediction))

        def denoise(y_t: Float[Tensor, "*S B M P"], level: Level) -> Float[Tensor, "*S B M P"]:
            return _in_pieces(replayed, y_t, level.to(self.diffusion.dtype), tokens=x.shape[1] * x.shape[2])

        return denoise, targets

    @property
    def has_experts(self) -> bool:
        """Whether GP experts say how values depend on each other."""
        return self._encoding is not None and getattr(self.diffusion.network, "gate", None) is not None

    @torch.no_grad()
    def copula(self, x: Float[Tensor, "B M D"], *, observation_noise: bool) -> GaussianMixtureCopula:
        """How the values at `x` depend on each other under the GP experts."""
        of_function = self.diffusion.separates_noise and not observation_noise
        copula: GaussianMixtureCopula = self._encoding.experts.copula(self._placed(x), of_function=of_function)
        return copula

    def inputs_given(self, y: Float[Tensor, "B M P"]) -> Denoiser:
        """E[x0 | x_t, y, context] of targets whose values are known; what a solver calls `y_t` are inputs here."""
        self._check_of_points()
        values = self.diffusion.in_precision(y, "y")

        def denoise(y_t: Float[Tensor, "*S B M D"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B M D"]:
            known = values.expand(*y_t.shape[:-1], -1)
            return self._denoise_points(y_t, known, level, torch.full_like(level, CLEAN))[0]

        return denoise

    def inputs_and_values(self, dim: int) -> Denoiser:
        """E[x0, y0 | x_t, y_t, context], the last axis being the `dim` coordinates and then the values."""

        self._check_of_points()

        def denoise(y_t: Float[Tensor, "*S B M Z"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B M Z"]:
            return torch.cat(self._denoise_points(y_t[..., :dim], y_t[..., dim:], level, level), dim=-1)

        return denoise

    def unconditional(self, x: Float[Tensor, "B M D"]) -> Denoiser:
        """E[y0 | y_t] of context and targets together, none of them known; a context never below its own noise."""
        x_all = torch.cat([self._placed(self.context.x), self._placed(x)], dim=1)
        call = self._call(x_all, self._mask_with(x), num_context=0)

        def denoise(y_t: Float[Tensor, "*S B N P"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B N P"]:
            level = level.to(self.diffusion.dtype)
            levels = torch.cat([torch.minimum(level, self._level), level.expand(x.shape[:2])], dim=-1)
            return _in_pieces(call, y_t, levels, tokens=x_all.shape[1] * x.shape[2])

        return denoise

    def _check_of_points(self) -> None:
        if not self.diffusion.of_points:
            raise ValueError("this model is of values at known inputs; inputs can be drawn from a joint model only")

    def _all_points(self, x: Float[Tensor, "B M D"]) -> Denoiser:
        """For networks whose context reads from the targets: context and targets pass through every call."""
        x_all = torch.cat([self._placed(self.context.x), self._placed(x)], dim=1)
        num_context = self.context.x.shape[1]
        call = self._call(x_all, self._mask_with(x), num_context)

        def denoise(y_t: Float[Tensor, "*S B M P"], level: Level) -> Float[Tensor, "*S B M P"]:
            y_all = torch.cat([self._y.expand(*y_t.shape[:-2], *self._y.shape[-2:]), y_t], dim=-2)
            levels = torch.cat([self._level, level.to(self.diffusion.dtype).expand(x.shape[:2])], dim=-1)
            return _in_pieces(call, y_all, levels, tokens=x_all.shape[1] * x.shape[2])[..., num_context:, :]

        return denoise

    def _one_task_a_target(self, x: Float[Tensor, "B M D"]) -> Denoiser:
        of_tasks = self.context.x, self.context.y, self.context.noise, self.context.mask
        repeated = Context(*(t.repeat_interleave(x.shape[1], dim=0) for t in of_tasks))
        denoise_each = EncodedContext(self.diffusion, repeated).denoiser(x.flatten(0, 1)[:, None])

        def denoise(y_t: Float[Tensor, "*S B M P"], level: Level) -> Float[Tensor, "*S B M P"]:
            of_each = level.reshape(-1, 1) if level.ndim else level
            return denoise_each(y_t.flatten(-3, -2)[..., None, :], of_each).reshape(y_t.shape)

        return denoise

    def _denoise_points(
        self,
        x_t: Float[Tensor, "*S B M D"],
        y_t: Float[Tensor, "*S B M P"],
        level_x: Float[Tensor, ""],
        level_y: Float[Tensor, ""],
    ) -> tuple[Float[Tensor, "*S B M D"], Float[Tensor, "*S B M P"]]:
        """In pieces where draws are many. Draws of one point each are independent points of one row."""
        network: Any = self.diffusion.network
        both = [t.reshape(-1, *t.shape[-3:]) for t in (x_t, y_t)]
        independent = x_t.shape[-2] == 1
        size = max(1, TOKENS_PER_CALL.get(x_t.device.type, 2**15) // both[0][0].numel())
        levels = [level.to(self.diffusion.dtype) for level in (level_x, level_y)]

        def one(*pieces: Tensor) -> list[Tensor]:
            rows = [p.squeeze(-2).transpose(0, 1) if independent else p.flatten(0, 1) for p in pieces]
            outputs = network.denoise_points(
                self._encoding, rows[0], rows[1], levels[0], levels[1], independent=independent
            )
            clean = [
                self.diffusion.prediction.y0_hat(output, noised, level.expand(noised.shape[:2]))
                for output, noised, level in zip(outputs, rows, levels, strict=True)
            ]
            back = [c.transpose(0, 1).unsqueeze(-2) if independent else c for c in clean]
            return [b.reshape(p.shape) for b, p in zip(back, pieces, strict=True)]

        answers = [one(*pieces) for pieces in zip(*(t.split(size) for t in both), strict=True)]
        x0_hat, y0_hat = (torch.cat(parts) for parts in zip(*answers, strict=True))
        return x0_hat.reshape(x_t.shape), y0_hat.reshape(y_t.shape)

    def _placed(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """Inputs relative to the origin, in the network's precision."""
        origin = self._origin
        if getattr(self.diffusion.network, "translation_equivariant", False):
            seen = self.context.mask.any(1)[:, None, None]
            origin = torch.where(seen, origin, x.mean(dim=1, keepdim=True)) if x.shape[1] else origin
        return self.diffusion.in_precision(x - origin, "x")

    def _mask_with(self, x: Float[Tensor, "B M D"]) -> Bool[Tensor, "B N"] | None:
        targets = torch.ones_like(x[..., 0], dtype=torch.bool)
        return None if self._mask is None else torch.cat([self._mask, targets], dim=1)

    def _call(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"] | None, num_context: int) -> GraphedCall:
        """One call of the network for rows [S * B, N, P] and the levels [B, N] of their tasks."""
        setting = x, mask, num_context, self.diffusion.prediction
        return GraphedCall(self.diffusion.network, partial(_call_network, self.diffusion.network), setting)


def _call_network(
    network: Any,
    setting: tuple[Tensor, Tensor | None, int, Prediction],
    y_rows: Float[Tensor, "R N P"],
    level: Float[Tensor, "B N"],
) -> Float[Tensor, "R N P"]:
    x, mask, num_context, prediction = setting

    def repeat(values: Tensor) -> Tensor:
        return values.expand(len(y_rows) // len(x), *values.shape).flatten(0, 1)

    levels, rows = repeat(level), None if mask is None else repeat(mask)
    if isinstance(network, JointNetwork):  # regression: all inputs are known
        known = torch.full_like(levels, CLEAN)
        output = network(repeat(x), y_rows, known, levels, rows, num_context=num_context)[1]
    else:
        output = network(repeat(x), y_rows, levels, rows, num_context=num_context)
    return prediction.y0_hat(output, y_rows, levels)


def _origin(network: object, context: Context) -> Float[Tensor, "B 1 D"]:
    """Where only differences of inputs count, an origin among the observations saves digits."""
    if not getattr(network, "translation_equivariant", False):
        return torch.zeros_like(context.x.sum(1, keepdim=True))
    real = context.mask[..., None]
    return (context.x * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)


def _in_pieces(
    call: GraphedCall, y_t: Float[Tensor, "*S B N P"], level: Tensor, *, tokens: int
) -> Float[Tensor, "*S B N P"]:
    """One call for all draws of all tasks, or several where they are many."""
    draws = y_t.reshape(-1, *y_t.shape[-3:])
    fitting = max(1, TOKENS_PER_CALL.get(y_t.device.type, TOKENS_PER_CALL["cpu"]) // (tokens * draws.shape[1]))
    size = 2 ** (fitting.bit_length() - 1)  # so that many draws fall into equal pieces
    pieces = [call(piece.flatten(0, 1), level).reshape(piece.shape) for piece in draws.split(size)]
    return torch.cat(pieces).reshape(y_t.shape)
