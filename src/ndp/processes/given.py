"""An NDP given facts: through its GP experts and the curves of single values, or along its solver."""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.arrays import Context, Form
from ndp.core.increasing import IncreasingCurve
from ndp.core.units import Units
from ndp.diffusion.solvers import dpm_solver
from ndp.facts.base import Fact
from ndp.facts.law import Law, Warp
from ndp.facts.posterior import PARTICLES, GivenPosterior, PosteriorBeneath
from ndp.facts.twist import Network
from ndp.gp.copula import LEAST
from ndp.processes.conditioning import EncodedContext
from ndp.processes.dependence import Dependence, wants_experts

FARTHEST = 8.0  # standard deviations of a Gaussian to which the curves are tabulated
STEPS = 20  # of the solver, which is run twice: 42 calls of the network in all


class HasGiven:
    """An NDP's posterior, with `given`."""

    _encoded: EncodedContext
    _form: Form
    _units: Units

    def given(
        self,
        *facts: Fact,
        num_particles: int = PARTICLES,
        dependence: Dependence | str | None = None,
        steps: int | None = None,
    ) -> GivenPosterior:
        """The posterior given facts of `ndp.facts`, for the joint law that `dependence` says.

        With the experts a few network calls serve all particles. With the network, the solver of `steps` steps (20) is run
        twice. Facts speak of the function where the model separates it from its noise, else of its noisy values.
        """
        by_experts = wants_experts(dependence, available=self._encoded.has_experts, differentiable=False)
        return GivenPosterior(_Drawn(self, by_experts, steps), facts, num_particles)


@final
class _Drawn(PosteriorBeneath):
    """The draws beneath facts."""

    def __init__(self, posterior: Any, by_experts: bool, steps: int | None) -> None:
        self._posterior, self._by_experts, self._steps = posterior, by_experts, steps

    @property
    def separates_noise(self) -> bool:
        return bool(self._posterior._diffusion.separates_noise) and self._by_experts

    def context_and_form(self) -> tuple[Context, Form]:
        context: Context = self._posterior._encoded.context
        x = self._posterior._units.from_model_x(context.x)
        return Context(x, context.y, context.noise, context.mask), self._posterior._form

    def reads_noise(self, observation_noise: bool | None) -> bool:
        noisy: bool = self._posterior._diffusion.reads_noise(observation_noise)
        if noisy and self._posterior._diffusion.separates_noise and not self._by_experts:
            raise ValueError('new observations given facts need dependence="experts"; leave observation_noise out')
        return noisy

    @torch.no_grad()
    def beneath(self, places: Float[Tensor, "P D"], more: Float[Tensor, "M D"], noisy: bool) -> Law | Network:
        posterior = self._posterior
        inputs = posterior._units.to_model_x(torch.cat([places, more])[None])
        if self._by_experts:
            return self._law(inputs, len(places), noisy)
        steps = STEPS if self._steps is None else self._steps

        def solve(normal: Float[Tensor, "S E"]) -> Float[Tensor, "S E"]:
            noise = normal[:, None, :, None].to(inputs)
            function = None if not posterior._diffusion.separates_noise else False
            values = posterior._solve(inputs, noise, True, function, steps, dpm_solver)
            return posterior._units.from_model_y(values)[:, 0, :, 0].cpu()

        return Network(inputs.shape[1], solve)

    def _law(self, inputs: Float[Tensor, "1 E D"], places: int, noisy: bool) -> Law:
        posterior = self._posterior
        if not inputs.shape[1]:
            one, none, nothing = (torch.zeros(1, *(0,) * axes, dtype=torch.float64) for axes in range(3))
            return Law(one, none, nothing)
        function = False if posterior._diffusion.separates_noise else None
        by_function = posterior._experts(inputs, function, self._steps)
        copula, values = by_function.copula, by_function.curves.values
        covariance = copula.covariance[0].cpu()
        if noisy:
            observed = posterior._experts(inputs, True, self._steps)
            again = torch.arange(inputs.shape[1]) >= places
            left = (observed.copula.covariance - copula.covariance)[0].diagonal(dim1=-2, dim2=-1).cpu()
            covariance = covariance + torch.diag_embed(left * again)
            values = torch.where(again.to(values.device), observed.curves.values, values)
        curves = IncreasingCurve(by_function.curves.places.cpu(), values[:, 0].cpu())
        log_weight, mean = copula.log_weight[0].cpu(), copula.mean[0].cpu()
        return Law(log_weight, mean, covariance, _warp(log_weight, mean, covariance, curves, posterior._units))


def _warp(
    log_weight: Float[Tensor, "K"],
    mean: Float[Tensor, "K E"],
    covariance: Float[Tensor, "K E E"],
    curves: IncreasingCurve,
    units: Units,
) -> Warp:
    """Values of the mixture to those with the same probability along their curves, in the user's units."""
    std, weight = covariance.diagonal(dim1=-2, dim2=-1).sqrt(), log_weight.exp()
    shift, scale = units.y_shift.flatten().cpu(), units.y_scale.flatten().cpu()

    def values(u: Float[Tensor, "Q E"]) -> Float[Tensor, "Q E"]:
        below = torch.zeros_like(u)
        for k in range(len(weight)):
            below += weight[k] * torch.special.ndtr((u - mean[k]) / std[k])
        return curves(torch.special.ndtri(below.clamp(LEAST, 1 - LEAST))) * scale + shift

    return Warp.of(values, (mean - FARTHEST * std).amin(0), (mean + FARTHEST * std).amax(0))
