"""The Neural Diffusion Process: a network, what its output means, and how to draw functions with it."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import torch
from huggingface_hub import ModelHubMixin
from jaxtyping import Float
from torch import Tensor, nn

from ndp.core.arrays import (
    Context,
    Form,
    check_num_samples,
    empty_context,
    form_of_inputs,
    read_context,
    read_inputs,
    read_inputs_for,
    read_probabilities,
    read_values,
)
from ndp.core.randomness import match_moments, noise_from, normal
from ndp.core.typing import Array, Denoiser, Moments, Network
from ndp.core.units import ScaledByContext, Scaling, Units, Unscaled
from ndp.diffusion import likelihood
from ndp.diffusion.levels import log_uniform, noisiest_ratio
from ndp.diffusion.prediction import Prediction
from ndp.diffusion.solvers import LastStep, Solver, dpm_solver, from_noise, half_to_zero, to_zero
from ndp.processes.conditioning import conditional_denoiser

if TYPE_CHECKING:
    from ndp.processes.marginals import NDPMarginals
    from ndp.processes.repaint import RePaintPosterior

# The fewest calls for joint draws. With exact denoisers they leave an error of 2 to 6 % in the covariance of 60 to 256 values
# (Matern-5/2, D = 1, 2, 3 and 6); 6 leave 2 to 14 %, 8 to 10 leave 3 to 8 %, and 12 leave 6 %.
FEWEST_STEPS = 7


@final
class NDP(ModelHubMixin, library_name="ndp", license="apache-2.0", tags=["neural-diffusion-process"]):
    """A distribution over functions, learned by `network`.

    `prediction` says what the network's output means. `noise_floor` is the standard deviation of the observation noise that
    the functions carry (0: none); it decides where the grid of noise levels ends. `input_dims` are the numbers of input
    dimensions that the network was trained for (None: any), `trained_ratios` the range of sigma / alpha it has seen. With a
    `scaling` the network works in units of its own, fixed ones or those that a context sets, and everything here is in the
    user's. `about` goes with the weights: what the model was trained on, and how it scored.
    """

    def __init__(
        self,
        network: Network,
        *,
        prediction: Prediction | str = Prediction.V,
        noise_floor: float = 0.0,
        num_outputs: int = 1,
        input_dims: Sequence[int] | None = None,
        trained_ratios: tuple[float, float] = (0.004, 80.0),
        scaling: Scaling | ScaledByContext | None = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        self.network = network
        self.prediction = Prediction(prediction)
        self.noise_floor = noise_floor
        self.num_outputs = num_outputs
        self.input_dims = None if input_dims is None else tuple(input_dims)
        self.trained_ratios = trained_ratios
        self.scaling = scaling
        self.about = about or {}

    @property
    def device(self) -> torch.device:
        return self._parameter.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision in which functions are drawn: the network's."""
        return self._parameter.dtype

    @property
    def _parameter(self) -> Tensor:
        weights = self.network.parameters() if isinstance(self.network, nn.Module) else iter(())
        return next(weights, torch.zeros((), dtype=torch.float64))  # an oracle has none

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        steps: int = 20,
        solver: Solver = dpm_solver,
        generator: torch.Generator | None = None,
        base_noise: Array | None = None,
    ) -> Array:
        """Functions from the prior at `x`: [S B N P]. The same as sampling a posterior with nothing observed."""
        return self._prior(x).sample(
            x, num_samples, steps=steps, solver=solver, generator=generator, base_noise=base_noise
        )

    def log_prob(self, x: Array, y: Array, *, steps: int = 15, probes: int | None = None) -> Array:
        """Joint log-density of a whole function under the prior, in nats: [B]."""
        return self._prior(x).log_prob(x, y, steps=steps, probes=probes)

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "NDPPosterior":
        """The posterior given `y` at `x`, by telling the network which points are known.

        `noise` is the standard deviation with which each value was observed, on top of the noise that the functions carry by
        themselves; `mask=False` leaves a point out. No points at all give the prior.
        """
        return NDPPosterior(self, *self._read_context(x, y, noise, mask))

    def repaint(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "RePaintPosterior":
        """The posterior by the paper's RePaint: slow and slightly biased, but any network will do."""
        from ndp.processes.repaint import RePaintPosterior

        return RePaintPosterior(self, *self._read_context(x, y, noise, mask))

    def _read_context(
        self, x: Array, y: Array, noise: Array | float | None, mask: Array | None
    ) -> tuple[Context, Form, Units]:
        context, form = read_context(
            x, y, noise, mask, num_outputs=self.num_outputs, input_dims=self.input_dims, device=self.device
        )
        units = self._units_of(context)
        scaled = replace(
            context,
            x=units.to_model_x(context.x),
            y=units.to_model_y(context.y),
            noise=units.to_model_noise(context.noise),
        )
        return scaled, form, units

    def _units_of(self, context: Context) -> Units:
        if self.scaling is None:
            return Unscaled()
        return self.scaling.of(context) if isinstance(self.scaling, ScaledByContext) else self.scaling

    def read_targets(
        self, context: Context, form: Form, units: Units, x: Array, y: Array
    ) -> tuple[Float[Tensor, "B M D"], Float[Tensor, "B M P"]]:
        """Inputs and values of targets that go with a context, checked, in model units."""
        inputs = read_inputs_for(context, x)
        values = read_values(y, "y", inputs, num_outputs=self.num_outputs, batched=form.batched)
        return units.to_model_x(inputs), units.to_model_y(values)

    def solver_levels(self, num_values: int, steps: int) -> tuple[Float[Tensor, "K"], LastStep]:
        """The grid of a solver on a function of so many values, and its last step.

        It starts where training ends at the latest, and ends below the noise floor, where half a step is exact, or near zero.
        """
        floor, seen = self.noise_floor, self.trained_ratios
        smallest, last_step = (floor / 5, half_to_zero) if floor >= 0.01 else (0.002, to_zero)
        largest = min(noisiest_ratio(num_values), seen[1])
        levels = log_uniform(steps, largest=largest, smallest=max(smallest, seen[0]), dtype=self.dtype)
        return levels.to(self.device), last_step

    def to(self, device: torch.device | str) -> "NDP":
        """The model on another device, in place."""
        if isinstance(self.network, nn.Module):
            self.network.to(device)
        return self

    def compiled(self) -> "NDP":
        """The same model, weights shared, with a compiled network: many draws on a GPU come several times faster.

        The first draw of every new shape takes some seconds more.
        """
        twin = copy(self)
        if isinstance(self.network, nn.Module):
            network = copy(self.network)
            for name in ("forward", "decode"):
                if hasattr(network, name):
                    setattr(network, name, torch.compile(getattr(network, name), dynamic=False))
            twin.network = network
        return twin

    def _save_pretrained(self, save_directory: Path) -> None:
        from ndp.models.checkpoint import write_model

        write_model(self, Path(save_directory))

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> "NDP":
        from ndp.models.checkpoint import read_hub_model

        model = read_hub_model(model_id, options)
        if not isinstance(model, cls):
            raise ValueError(f"{model_id} holds a {type(model).__name__}, not an NDP; load it with ndp.load")
        return model

    def _prior(self, x: Array) -> "NDPPosterior":
        inputs = read_inputs(x, input_dims=self.input_dims, device=self.device)
        nothing = empty_context(inputs, self.num_outputs)
        return NDPPosterior(self, nothing, form_of_inputs(x, self.num_outputs), self._units_of(nothing))


@final
class NDPPosterior:
    """An NDP given a context, which the network sees as points without (or with little) noise.

    Of a network that tells functions from observations, these are functions, and `observations` is the same posterior of values
    that would be observed: functions with the noise that the context shows.
    """

    def __init__(self, ndp: NDP, context: Context, form: Form, units: Units, *, observed: bool = False) -> None:
        self._ndp = ndp
        self._context = context  # in model units
        self._form = form
        self._units = units
        self._of_function = bool(getattr(ndp.network, "tells_noise", False)) and not observed

    @property
    def units(self) -> Units:
        """The maps between the user's units and those in which solvers work, for whoever watches one."""
        return self._units

    @property
    def observations(self) -> "NDPPosterior":
        """New observations in place of values of the function."""
        if not getattr(self._ndp.network, "tells_noise", False):
            raise ValueError(
                "this model has one kind of values: its functions carry the noise that they are observed with"
            )
        return NDPPosterior(self._ndp, self._context, self._form, self._units, observed=True)

    @property
    def marginals(self) -> "NDPMarginals":
        """The law of every value by itself, whatever else is asked for."""
        from ndp.processes.marginals import NDPMarginals

        return NDPMarginals(self._ndp, self._context, self._form, self._units, of_function=self._of_function)

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        steps: int = 20,
        solver: Solver = dpm_solver,
        generator: torch.Generator | None = None,
        base_noise: Array | None = None,
    ) -> Array:
        """Coherent draws at `x`: [S B M P], in `steps` calls of the network (with the default solver).

        A draw is a deterministic, differentiable function of its own noise, the context and the inputs. The noise comes from
        `generator`, or is given as `base_noise`, of the shape of the answer.
        """
        count = check_num_samples(num_samples)
        inputs = self._units.to_model_x(read_inputs_for(self._context, x))
        shape = (count, *inputs.shape[:2], self._ndp.num_outputs)
        if base_noise is None:
            noise = normal(shape, generator, like=inputs)
        else:
            noise = torch.as_tensor(base_noise, device=inputs.device)
            if noise.numel() != torch.Size(shape).numel():
                raise ValueError(
                    f"base_noise must hold one number for each value drawn: {list(shape)}, not {list(noise.shape)}"
                )
            if not bool(torch.isfinite(noise).all()):
                raise ValueError("base_noise holds NaN or infinity")
            noise = noise.reshape(shape)
        with torch.set_grad_enabled(torch.is_grad_enabled() and (inputs.requires_grad or noise.requires_grad)):
            draws = self._units.from_model_y(self._solve(inputs, noise, steps, solver))
        return self._form.give(draws if num_samples is not None else draws[0])

    def moments(self, x: Array, *, num_samples: int = 256, steps: int = 20) -> Moments:
        """Mean and standard deviation from `num_samples` draws of moment-matched noise; the same at every call.

        Almost free of Monte Carlo error where the posterior is near Gaussian and `x` holds fewer values than there are draws.
        """
        draws = self._balanced_draws(x, num_samples, steps)
        return Moments(self._form.give(draws.mean(0)), self._form.give(draws.std(0, correction=0)))

    def quantiles(self, x: Array, probabilities: Sequence[float], *, num_samples: int = 256, steps: int = 20) -> Array:
        """Quantiles at every point from `num_samples` draws of moment-matched noise: [Q B M P]."""
        draws = self._balanced_draws(x, num_samples, steps)
        return self._form.give(torch.quantile(draws, read_probabilities(probabilities, draws), dim=0))

    def log_prob(
        self,
        x: Array,
        y: Array,
        *,
        noise: float = 0.0,
        steps: int = 15,
        probes: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Joint log-density of `y` at `x` in nats, [B], by the probability-flow ODE.

        `noise` is the standard deviation with which `y` was observed, on top of the noise that the functions carry: with it,
        functions without noise have an exact density too. The divergence is exact, at the cost of a backward pass a value
        and step. For many values, `probes` random signs estimate it instead, without bias, with an error of about 0.05 nats a
        value over the root of `probes`.
        """
        inputs, values = self._ndp.read_targets(self._context, self._form, self._units, x, y)
        with torch.no_grad():
            log_p = likelihood.log_prob(
                self._denoiser(inputs),
                values.to(self._ndp.dtype),
                self._likelihood_levels(values[0].numel(), steps, noise),
                divergence=likelihood.make_divergence(probes, noise_from(generator)),
                with_noise=noise > 0,
            )
        return self._form.give_per_task(log_p + self._units.log_det(inputs.shape[1]))

    def _likelihood_levels(self, num_values: int, steps: int, noise: float) -> Float[Tensor, "K"]:
        if not noise:
            return likelihood.default_levels(num_values, steps)
        seen = self._ndp.trained_ratios[0]
        each = self._units.to_model_noise(self._context.x.new_full((len(self._context.x), 1), noise))
        finest = each[0, 0].item()
        if not bool((each == finest).all()):
            raise ValueError("noise differs between tasks in units of their own; score one task at a time")
        if finest < seen:
            raise ValueError(
                f"noise of {noise:g} is below the least that this model has seen ({noise * seen / finest:g})"
            )
        return likelihood.default_levels(num_values, steps, finest=finest)

    def _denoiser(self, inputs: Float[Tensor, "B M D"]) -> Denoiser:
        ndp = self._ndp
        return conditional_denoiser(
            ndp.network, ndp.prediction, self._context, inputs, ndp.dtype, of_function=self._of_function
        )

    def _solve(self, inputs: Tensor, noise: Tensor, steps: int, solver: Solver) -> Float[Tensor, "S B M P"]:
        """Noise to functions."""
        levels, last_step = self._ndp.solver_levels(inputs.shape[1] * self._ndp.num_outputs, steps)
        denoise = self._denoiser(inputs)
        start = from_noise(denoise, noise.to(self._ndp.dtype), levels[0])
        return last_step(denoise, solver(denoise, start, levels), levels[-1])

    def _balanced_draws(self, x: Array, num_samples: int, steps: int) -> Float[Tensor, "S B M P"]:
        inputs = self._units.to_model_x(read_inputs_for(self._context, x))
        shape = (check_num_samples(num_samples), *inputs.shape[:2], self._ndp.num_outputs)
        noise = match_moments(normal(shape, torch.Generator().manual_seed(0), like=inputs))
        with torch.no_grad():
            return self._units.from_model_y(self._solve(inputs, noise, steps, dpm_solver))
