"""The posterior of an NDP: checked, standardised and encoded when the model is conditioned, and asked as often as one likes."""

import math
from collections.abc import Sequence
from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.arrays import (
    Form,
    check_num_samples,
    read_base_noise,
    read_inputs_for,
    read_probabilities,
    read_target_values,
)
from ndp.core.randomness import match_moments, noise_from, normal
from ndp.core.statistics import HasMoments
from ndp.core.typing import Array, Denoiser, Moments
from ndp.core.units import Units
from ndp.diffusion import likelihood
from ndp.diffusion.solvers import Solver, dpm_solver, from_noise, to_zero
from ndp.processes import single_values
from ndp.processes.conditioning import EncodedContext
from ndp.processes.dependence import Dependence, ValuesByExperts, wants_experts
from ndp.processes.deprecated import OldView
from ndp.processes.given import HasGiven
from ndp.processes.points import give_inputs, read_num_points, read_wanted_values

STEPS, INDEPENDENT_STEPS, INPUT_STEPS, DENSITY_STEPS = 20, 10, 30, 15
SMALLEST_INPUT_NOISE = 0.004  # sigma / alpha at which a draw of inputs ends


@final
class NDPPosterior(HasGiven, HasMoments):
    """A distribution over functions given what was observed. Immutable; its context is encoded once.

    With `joint=True` (the default) the values at `x` are those of one function. With `joint=False` every value is taken by
    itself: moments, quantiles and densities then need few network calls and no random numbers, and do not depend on what else
    is asked for. `observation_noise=True` asks for new observations and `False` for values of the function; the default is the
    function where the model can separate it from its noise, and else the one kind of values that the model has.

    `dependence` says how joint values depend on each other (`Dependence`). The default is "experts" where the network has them
    and no gradients are asked for, else "network".
    """

    def __init__(self, encoded: EncodedContext, form: Form, units: Units) -> None:
        self._encoded = encoded
        self._diffusion = encoded.diffusion
        self._form = form
        self._units = units

    @property
    def units(self) -> Units:
        """The maps between the user's units and those in which solvers work."""
        return self._units

    @property
    def marginals(self) -> OldView:
        """Deprecated: the calls of the posterior with `joint=False`."""
        return OldView(self, "marginals", "joint=False", joint=False)

    @property
    def observations(self) -> OldView:
        """Deprecated: the calls of the posterior with `observation_noise=True`."""
        self._diffusion.reads_noise(True)
        return OldView(self, "observations", "observation_noise=True", observation_noise=True)

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        dependence: Dependence | str | None = None,
        steps: int | None = None,
        solver: Solver = dpm_solver,
        generator: torch.Generator | None = None,
        base_noise: Array | None = None,
    ) -> Array:
        """Draws at `x`, [S B M P].

        They take `steps` calls of the network for each draw (20 with the default solver), or with `dependence="experts"` for
        all of them (10). A draw is a deterministic function of its own noise, the context and the inputs, and with
        `dependence="network"` a differentiable one. The noise comes from `generator`, or is given as `base_noise` with the
        shape of the answer.
        """
        inputs = self._inputs(x)
        shape = (check_num_samples(num_samples), *inputs.shape[:2], self._diffusion.num_outputs)
        noise = (
            normal(shape, generator, like=inputs) if base_noise is None else read_base_noise(base_noise, shape, inputs)
        )
        needs_grad = inputs.requires_grad or noise.requires_grad or self._encoded.requires_grad
        if joint and self._by_experts(dependence, differentiable=needs_grad):
            draws = self._experts(inputs, observation_noise, steps).draw(noise)
        else:
            steps = STEPS if steps is None else steps
            with torch.set_grad_enabled(torch.is_grad_enabled() and needs_grad):
                draws = self._solve(inputs, noise, joint, observation_noise, steps, solver)
        draws = self._units.from_model_y(draws)
        return self._form.give(draws if num_samples is not None else draws[0])

    def moments(
        self,
        x: Array,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        dependence: Dependence | str | None = None,
        steps: int | None = None,
        num_samples: int = 256,
    ) -> Moments:
        """Mean and standard deviation at every point; the same at every call.

        Joint: from `num_samples` draws of moment-matched noise, in 20 steps by default. They are almost free of Monte Carlo
        error where the posterior is near Gaussian and `x` holds fewer values than there are draws. Independent: by quadrature,
        in 10 steps by default.
        """
        return self._summary(x, None, joint, observation_noise, dependence, steps, num_samples)[0]

    def quantiles(
        self,
        x: Array,
        probabilities: Sequence[float],
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        dependence: Dependence | str | None = None,
        steps: int | None = None,
        num_samples: int = 256,
    ) -> Array:
        """Quantiles at every point, [Q B M P]; from draws or, independent, exactly along the solver. See `moments`."""
        return self._summary(x, probabilities, joint, observation_noise, dependence, steps, num_samples)[1]

    def summary(
        self,
        x: Array,
        probabilities: Sequence[float],
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        dependence: Dependence | str | None = None,
        steps: int | None = None,
        num_samples: int = 256,
    ) -> tuple[Moments, Array]:
        """Moments and quantiles, at the price of one of them."""
        return self._summary(x, probabilities, joint, observation_noise, dependence, steps, num_samples)

    def log_prob(
        self,
        x: Array,
        y: Array,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        dependence: Dependence | str | None = None,
        noise: float = 0.0,
        steps: int = DENSITY_STEPS,
        probes: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Log-density of `y` at `x` in nats by the probability-flow ODE: [B] of all values together, [B M P] of each by itself.

        `noise` is the standard deviation with which `y` was observed, on top of the noise that the functions carry. With it,
        functions without noise have an exact density too. The joint divergence is exact and costs a backward pass for each
        value and step. For many values, `probes` random signs estimate it instead, without bias and with an error of about 0.05
        nats a value over the root of `probes`.
        """
        inputs, values = self._targets(x, y)
        by_network = bool(noise) or probes is not None
        if by_network and dependence == Dependence.EXPERTS:
            raise ValueError('noise and probes are for dependence="network"; leave them out with "experts"')
        if not joint or (self._by_experts(dependence) and not by_network):
            if by_network:
                raise ValueError("noise and probes are for joint densities; leave them out with joint=False")
            denoiser = self._single_denoiser(observation_noise)
            log_p = single_values.log_prob(denoiser, self._diffusion, inputs, values, steps)
            log_p = log_p + self._units.log_det(1)[:, None, None]
            if not joint:
                return self._form.give(log_p)
            return self._form.give_per_task(
                log_p.sum((1, 2)) + self._experts(inputs, observation_noise, None).log_density(values)
            )
        with torch.no_grad():
            log_p = likelihood.log_prob(
                self._denoiser(inputs, True, observation_noise),
                self._diffusion.in_precision(values, "y"),
                self._density_levels(values[0].numel(), steps, noise),
                divergence=likelihood.make_divergence(probes, noise_from(generator)),
                with_noise=noise > 0,
            )
        return self._form.give_per_task(log_p + self._units.log_det(inputs.shape[1]))

    def sample_inputs(
        self,
        y_star: Array | float,
        num_samples: int | None = None,
        *,
        steps: int = INPUT_STEPS,
        solver: Solver = dpm_solver,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Inputs at which the function has the value `y_star`; for models of inputs and values only.

        One number asks for one point, [S B D]; values [M] ask for points of one function, drawn together: [S B M D]. A value is
        as observed, with the noise that functions carry. Draws are kept inside the box [-1, 1]^D.
        """
        values = read_wanted_values(y_star, self._encoded.context, self._form, self._diffusion.num_outputs)
        shape = (*values.shape[:2], self._encoded.context.x.shape[-1])
        draws = self._solve_inputs(self._encoded.inputs_given(values), shape, num_samples, steps, solver, generator)
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
        """Points of one function, inputs [S B M D] and values [S B M P] together; for models of inputs and values only."""
        tasks, _, dim = self._encoded.context.x.shape
        shape = (tasks, read_num_points(num_points), dim + self._diffusion.num_outputs)
        denoise = self._encoded.inputs_and_values(dim)
        draws = self._solve_inputs(denoise, shape, num_samples, steps, solver, generator)
        x, y = draws[..., :dim].clamp(-1, 1), draws[..., dim:]
        kept = y if num_samples is not None else y[0]
        return give_inputs(x, self._form, [0.0] * num_points, num_samples), self._form.give(kept)

    def _inputs(self, x: Array) -> Float[Tensor, "B M D"]:
        return self._units.to_model_x(read_inputs_for(self._encoded.context, x))

    def _targets(self, x: Array, y: Array) -> tuple[Float[Tensor, "B M D"], Float[Tensor, "B M P"]]:
        inputs, values = read_target_values(self._encoded.context, self._form, x, y)
        return self._units.to_model_x(inputs), self._units.to_model_y(values)

    def _denoiser(self, inputs: Float[Tensor, "B M D"], joint: bool, observation_noise: bool | None) -> Denoiser:
        return self._encoded.denoiser(
            inputs, joint=joint, observation_noise=self._diffusion.reads_noise(observation_noise)
        )

    def _single_denoiser(self, observation_noise: bool | None) -> single_values.MakeDenoiser:
        noisy = self._diffusion.reads_noise(observation_noise)
        return partial(self._encoded.single_values, observation_noise=noisy)

    def _by_experts(self, dependence: Dependence | str | None, *, differentiable: bool = False) -> bool:
        return wants_experts(dependence, available=self._encoded.has_experts, differentiable=differentiable)

    def _experts(
        self, inputs: Float[Tensor, "B M D"], observation_noise: bool | None, steps: int | None
    ) -> ValuesByExperts:
        curves = single_values.curves(
            self._single_denoiser(observation_noise),
            self._diffusion,
            inputs,
            INDEPENDENT_STEPS if steps is None else steps,
        )
        return ValuesByExperts(
            curves, self._encoded.copula(inputs, observation_noise=self._diffusion.reads_noise(observation_noise))
        )

    def _solve(
        self,
        inputs: Float[Tensor, "B M D"],
        noise: Float[Tensor, "S B M P"],
        joint: bool,
        observation_noise: bool | None,
        steps: int,
        solver: Solver,
    ) -> Float[Tensor, "S B M P"]:
        """Noise to functions, in model units."""
        num_values = noise.shape[-1] * (noise.shape[-2] if joint else 1)
        levels, last_step = self._diffusion.solver_levels(num_values, steps)
        denoise = self._denoiser(inputs, joint, observation_noise)
        start = from_noise(denoise, noise.to(self._diffusion.dtype), levels[0])
        return last_step(denoise, solver(denoise, start, levels), levels[-1])

    def _summary(
        self,
        x: Array,
        probabilities: Sequence[float] | None,
        joint: bool,
        observation_noise: bool | None,
        dependence: Dependence | str | None,
        steps: int | None,
        num_samples: int,
    ) -> tuple[Moments, Array]:
        inputs = self._inputs(x)
        double = torch.zeros((), dtype=torch.float64, device=inputs.device)
        wanted = double.new_zeros(0) if probabilities is None else read_probabilities(probabilities, double)
        if not joint or self._by_experts(dependence):  # which leave every value its own distribution
            denoiser, sign = self._single_denoiser(observation_noise), self._units.y_sign()
            steps = INDEPENDENT_STEPS if steps is None else steps
            mean, std, quantiles = single_values.summary(denoiser, self._diffusion, inputs, wanted, sign, steps)
            mean, std = self._units.from_model_y(mean), self._units.from_model_std(std)
            quantiles = self._units.from_model_y(quantiles).sort(0).values
            quantiles = quantiles[wanted.argsort().argsort()]  # each probability has the value of its rank
        else:
            shape = (check_num_samples(num_samples), *inputs.shape[:2], self._diffusion.num_outputs)
            noise = match_moments(normal(shape, torch.Generator().manual_seed(0), like=inputs))
            steps = STEPS if steps is None else steps
            with torch.no_grad():
                draws = self._solve(inputs, noise, True, observation_noise, steps, dpm_solver).double()
            mean, std = self._units.from_model_y(draws.mean(0)), self._units.from_model_std(draws.std(0, correction=0))
            quantiles = torch.quantile(self._units.from_model_y(draws), wanted, dim=0)
        return Moments(self._form.give(mean), self._form.give(std)), self._form.give(quantiles)

    def _density_levels(self, num_values: int, steps: int, noise: float) -> Float[Tensor, "K"]:
        if not noise:
            return likelihood.default_levels(num_values, steps)
        least = self._diffusion.trained_ratios[0]
        like = self._encoded.context.x
        each = self._units.to_model_std(like.new_full((len(like), 1), noise))
        finest = each[0, 0].item()
        if not bool((each == finest).all()):
            raise ValueError("noise differs between tasks that have units of their own; score one task at a time")
        if finest < least and not math.isclose(finest, least):
            raise ValueError(
                f"noise of {noise:g} is below the least that this model was trained for ({noise * least / finest:g})"
            )
        return likelihood.default_levels(num_values, steps, finest=finest)

    @torch.no_grad()
    def _solve_inputs(
        self,
        denoise: Denoiser,
        shape: tuple[int, int, int],
        num_samples: int | None,
        steps: int,
        solver: Solver,
        generator: torch.Generator | None,
    ) -> Float[Tensor, "S B M Z"]:
        """Noise to inputs, which carry no noise of their own: the grid ends near zero, and its last step goes there."""
        like = torch.zeros((), dtype=self._diffusion.dtype, device=self._diffusion.device)
        noise = normal((check_num_samples(num_samples), *shape), generator, like=like)
        levels = self._diffusion.levels_down_to(SMALLEST_INPUT_NOISE, shape[1] * shape[2], steps)
        start = from_noise(denoise, noise, levels[0])
        return to_zero(denoise, solver(denoise, start, levels), levels[-1])
