"""A process over points instead of values: where a function is known to take a value, as well as what it is at a place.

model     = ndp.load(...)                        # trained with `ndp train --model joint`
posterior = model.condition(x, y)
places    = posterior.sample_inputs(-1.5, 64)    # [64, D]: inputs at which the function may be -1.5
values    = posterior.sample(x_new, 64)          # [64, M], as from any NDP
x, y      = posterior.sample_joint(10, 64)       # [64, 10, D], [64, 10]: points as they come
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ndp.core.arrays import Context, Form, check_num_samples, read_context, read_values
from ndp.core.randomness import normal
from ndp.core.typing import Array, Denoiser, JointNetwork, Moments
from ndp.core.units import Unscaled
from ndp.diffusion.levels import log_uniform, noisiest_ratio
from ndp.diffusion.prediction import Prediction
from ndp.diffusion.solvers import Solver, dpm_solver, from_noise, to_zero
from ndp.networks.joint import KnownInputs
from ndp.processes.joint_conditioning import KnownContext
from ndp.processes.ndp import NDP, NDPPosterior

if TYPE_CHECKING:
    from ndp.processes.joint_repaint import JointRePaintPosterior

INPUT_STEPS = 30  # network calls a draw of inputs


@final
class JointNDP:
    """A distribution over the points (x, y) of functions on [-1, 1]^D, learned by `network`.

    `regression` is the same model with every input known: an NDP like any other, which gives values, moments and densities.
    The arguments are those of `NDP`.
    """

    def __init__(
        self,
        network: JointNetwork,
        *,
        prediction: Prediction | str = Prediction.V,
        noise_floor: float = 0.0,
        num_outputs: int = 1,
        input_dims: Sequence[int] | None = None,
        trained_ratios: tuple[float, float] = (0.004, 80.0),
        about: dict[str, Any] | None = None,
    ) -> None:
        self.network = network
        self.about = about or {}
        self.regression = NDP(
            KnownInputs(network),
            prediction=prediction,
            noise_floor=noise_floor,
            num_outputs=num_outputs,
            input_dims=input_dims,
            trained_ratios=trained_ratios,
        )

    @property
    def prediction(self) -> Prediction:
        return self.regression.prediction

    @property
    def noise_floor(self) -> float:
        return self.regression.noise_floor

    @property
    def num_outputs(self) -> int:
        return self.regression.num_outputs

    @property
    def input_dims(self) -> tuple[int, ...] | None:
        return self.regression.input_dims

    @property
    def trained_ratios(self) -> tuple[float, float]:
        return self.regression.trained_ratios

    @property
    def device(self) -> torch.device:
        return self.regression.device

    @property
    def dtype(self) -> torch.dtype:
        return self.regression.dtype

    def to(self, device: torch.device | str) -> "JointNDP":
        """The model on another device, in place."""
        if isinstance(self.network, nn.Module):
            self.network.to(device)
        return self

    def sample(
        self, x: Array, num_samples: int | None = None, *, steps: int = 20, generator: torch.Generator | None = None
    ) -> Array:
        """Functions from the prior at `x`: [S B N P]."""
        return self.regression.sample(x, num_samples, steps=steps, generator=generator)

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "JointPosterior":
        """The posterior given `y` at `x`; `noise` and `mask` as for an NDP. No points at all give the prior."""
        return JointPosterior(self, *self._read_context(x, y, noise, mask))

    def repaint(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "JointRePaintPosterior":
        """The posterior by the paper's RePaint, for a network that never saw a context, nor one of x and y without noise."""
        from ndp.processes.joint_repaint import JointRePaintPosterior

        return JointRePaintPosterior(self, *self._read_context(x, y, noise, mask))

    def _read_context(
        self, x: Array, y: Array, noise: Array | float | None, mask: Array | None
    ) -> tuple[Context, Form]:
        return read_context(
            x, y, noise, mask, num_outputs=self.num_outputs, input_dims=self.input_dims, device=self.device
        )


@final
class JointPosterior:
    """A joint NDP given a context, which the network sees as points without (or with little) noise."""

    def __init__(self, joint: JointNDP, context: Context, form: Form) -> None:
        self._joint, self._context, self._form = joint, context, form
        self._values = NDPPosterior(joint.regression, context, form, Unscaled())

    def sample_inputs(
        self,
        y_star: Array | float,
        num_samples: int | None = None,
        *,
        steps: int = INPUT_STEPS,
        solver: Solver = dpm_solver,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Inputs at which the function has the value `y_star`: one number for one point, [S B D], or [M] for several points.

        Several are points of one function, drawn together: [S B M D]. A value is as observed, with the noise that functions
        carry. A draw is kept inside the box.
        """
        values = read_asked(y_star, self._context, self._form, self._joint.num_outputs)
        dim = self._context.x.shape[-1]
        draws = self._solve(
            self._known().inputs_given(values), (*values.shape[:2], dim), num_samples, steps, solver, generator
        )
        return give_inputs(draws.clamp(-1, 1), self._form, y_star, num_samples)

    def sample_joint(
        self,
        num_points: int,
        num_samples: int | None = None,
        *,
        steps: int = INPUT_STEPS,
        solver: Solver = dpm_solver,
        generator: torch.Generator | None = None,
    ) -> tuple[Array, Array]:
        """Points of one function, inputs and values together: [S B M D] and [S B M P]."""
        if num_points < 1:
            raise ValueError(f"ask for at least one point, not {num_points}")
        tasks, _, dim = self._context.x.shape
        shape = (tasks, num_points, dim + self._joint.num_outputs)
        draws = self._solve(self._known().both(dim), shape, num_samples, steps, solver, generator)
        x, y = draws[..., :dim].clamp(-1, 1), draws[..., dim:]
        kept = y if num_samples is not None else y[0]
        return give_inputs(x, self._form, [0.0] * num_points, num_samples), self._form.give(kept)

    def sample(self, x: Array, num_samples: int | None = None, **options: Any) -> Array:
        """Coherent draws of values at `x`, as from an NDP: [S B M P]."""
        return self._values.sample(x, num_samples, **options)

    def moments(self, x: Array, **options: Any) -> Moments:
        """Mean and standard deviation of values at `x`, as of an NDP."""
        return self._values.moments(x, **options)

    def quantiles(self, x: Array, probabilities: Sequence[float], **options: Any) -> Array:
        """Quantiles of values at `x`, as of an NDP."""
        return self._values.quantiles(x, probabilities, **options)

    def log_prob(self, x: Array, y: Array, **options: Any) -> Array:
        """Joint log-density of values `y` at `x`, as of an NDP."""
        return self._values.log_prob(x, y, **options)

    def _known(self) -> KnownContext:
        joint = self._joint
        return KnownContext(joint.network, joint.prediction, self._context, joint.dtype)

    @torch.no_grad()
    def _solve(
        self,
        denoise: Denoiser,
        shape: tuple[int, int, int],
        num_samples: int | None,
        steps: int,
        solver: Solver,
        generator: torch.Generator | None,
    ) -> Float[Tensor, "S B M Z"]:
        """Noise to inputs, which carry no noise of their own: the grid ends near zero, and its last step goes there."""
        joint = self._joint
        like = torch.zeros((), dtype=joint.dtype, device=joint.device)
        noise = normal((check_num_samples(num_samples), *shape), generator, like=like)
        least, most = joint.trained_ratios
        largest = min(noisiest_ratio(shape[1] * shape[2]), most)
        levels = log_uniform(steps, largest=largest, smallest=max(0.004, least), dtype=joint.dtype).to(joint.device)
        start = from_noise(denoise, noise, levels[0])
        return to_zero(denoise, solver(denoise, start, levels), levels[-1])


def read_asked(y: Array | float, context: Context, form: Form, num_outputs: int) -> Float[Tensor, "B M P"]:
    """Values that are asked for: one number for every task, or as many as there are points."""
    tasks = len(context.x)
    values = torch.as_tensor(y, dtype=torch.float64, device=context.x.device)
    if not values.ndim:
        values = values.expand((tasks, 1) if form.batched else (1,))
        if num_outputs > 1:
            raise ValueError(f"a point has {num_outputs} values: y_star must be [M, {num_outputs}]")
    points = values.shape[1 if form.batched else 0] if values.ndim > form.batched else 0
    if not points:
        raise ValueError(
            f"y_star must be a number, or hold at least one value a task; its shape is {list(values.shape)}"
        )
    like = context.x.new_zeros(tasks, points, 1)
    return read_values(values, "y_star", like, num_outputs=num_outputs, batched=form.batched)


def give_inputs(draws: Float[Tensor, "S B M D"], form: Form, asked: object, num_samples: int | None) -> Array:
    """Inputs in the user's form: without the axes S, B and M that were left out."""
    if not torch.as_tensor(asked).ndim:
        draws = draws[:, :, 0]
    if not form.batched:
        draws = draws[:, 0]
    return form.give_as_is(draws if num_samples is not None else draws[0])
