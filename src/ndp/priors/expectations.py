"""Posterior means E[y0 | y_t] under the distribution that functions were drawn from.

A network that regresses on drawn functions learns their posterior mean given what it sees. The draws scatter widely about that
mean. The kernel, the noise or the family of a task was drawn too, so the posterior mean given these is known. It scatters far
less. By the law of total expectation both regressions have the same minimiser (Rao-Blackwellised targets).
"""

from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.typing import Prior
from ndp.diffusion.levels import alpha, ratio, sigma
from ndp.gp.exact import GP
from ndp.priors.drawing import draw_observations
from ndp.priors.hierarchical import HierarchicalGP
from ndp.priors.standardised import Standardised
from ndp.priors.step import Step


@dataclass(frozen=True)
class Noised:
    """Noised values of a batch, each at a level of its own.

    Points outside of `mask` are not seen. The context comes first. With `independent`, a target sees the context and its own
    noised value, and no other target's.
    """

    x: Float[Tensor, "B N D"]
    y_t: Float[Tensor, "B N 1"]
    level: Float[Tensor, "B N"]
    mask: Bool[Tensor, "B N"]
    num_context: int
    independent: bool

    @property
    def of_context(self) -> Bool[Tensor, "N"]:
        """Which points are places of the context."""
        return torch.arange(self.mask.shape[1], device=self.mask.device) < self.num_context


@runtime_checkable
class Expectation(Protocol):
    """The posterior mean of a batch under the distribution that its tasks were drawn from."""

    def __call__(self, noised: Noised) -> Float[Tensor, "B N 1"]:
        """E[y0 | y_t] at the targets; values at the context do not count."""
        ...


def draw_with_expectation(
    prior: Prior, x: Float[Tensor, "B N D"], generator: torch.Generator
) -> tuple[Tensor, Expectation | None]:
    """Functions at `x`, and their posterior mean where it is known."""
    expectation: Expectation | None = None
    match prior:
        case GP():
            expectation = GPExpectation(prior)
        case HierarchicalGP():
            prior = prior.draw_gp(x, generator)
            expectation = GPExpectation(prior)
        case Standardised(prior=Step() as step, units=units):
            before, after = units.on(x.device).to_model_y(x.new_tensor([[[0.0]], [[1.0]]])).flatten().tolist()
            expectation = StepExpectation(step.low, step.high, before, after)
    return draw_observations(prior, x, generator=generator), expectation  # type: ignore[return-value]  # a tensor is answered with a tensor


@final
@dataclass(frozen=True)
class GPExpectation:
    """Draws of a GP, the same for all tasks or with a kernel for each."""

    gp: GP

    def __call__(self, noised: Noised) -> Float[Tensor, "B N 1"]:
        return given_context(torch.zeros_like(noised.level), self.gp.covariance(noised.x), noised).expectation(noised)


@final
@dataclass(frozen=True)
class StepExpectation:
    """Steps from one value to a higher one, at a place that is uniform from `low` to `high`."""

    low: float
    high: float
    before: float
    after: float

    def __call__(self, noised: Noised) -> Float[Tensor, "B N 1"]:
        # Log-odds of a noised value lying after the step; 1e4 is as good as certain.
        left, noise = alpha(noised.level), sigma(noised.level)
        rise, middle = left * (self.after - self.before), left * (self.after + self.before) / 2
        evidence = (rise / noise.square() * (noised.y_t[..., 0] - middle)).clamp(-1e4, 1e4) * noised.mask
        place, order = noised.x[..., 0].clamp(self.low, self.high).sort(dim=1)
        shared = torch.where(noised.of_context, evidence, 0.0) if noised.independent else evidence
        # Points cut the range into gaps; a step in a gap leaves all points from there on after it.
        after = shared.gather(1, order).flip(1).cumsum(1).flip(1)
        log_likelihood = torch.cat([after, torch.zeros_like(after[:, :1])], dim=1)
        ends = place.new_tensor([self.low, self.high]).expand(len(place), 2)
        gaps = torch.cat([ends[:, :1], place, ends[:, 1:]], dim=1).diff(dim=1)
        weights = (gaps.log() + log_likelihood).softmax(dim=1)
        risen = torch.empty_like(evidence).scatter_(1, order, weights.cumsum(1)[:, :-1].clamp(0, 1))
        if noised.independent:
            risen = torch.sigmoid(risen.logit() + evidence)
        return (self.before + (self.after - self.before) * risen)[..., None]


@dataclass(frozen=True)
class GaussianTargets:
    """The targets of a batch given its context, without their own noisy values."""

    mean: Float[Tensor, "B M"]
    covariance: Float[Tensor, "B M M"]

    @property
    def std(self) -> Float[Tensor, "B M"]:
        return self.covariance.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()

    def expectation(self, noised: Noised) -> Float[Tensor, "B N 1"]:
        """E[y0 | y_t] at the targets, which are the last points, and zero before them."""
        targets = slice(noised.num_context, None)
        a, s = (part(noised.level[:, targets]) for part in (alpha, sigma))
        a = a * noised.mask[:, targets]  # an unseen value says nothing of the function
        surprise = noised.y_t[:, targets, 0] - a * self.mean
        if noised.independent:
            variance = self.std.square()
            expected = self.mean + a * variance / (a.square() * variance + s.square()) * surprise
        else:
            noisy = a[..., :, None] * self.covariance * a[..., None, :] + torch.diag_embed(s.square())
            root = _root_or_nan(noisy)
            weights = torch.cholesky_solve(surprise[..., None], root)
            expected = self.mean + (self.covariance @ (a[..., None] * weights))[..., 0]
        return torch.nn.functional.pad(expected, (noised.num_context, 0))[..., None]


def _root_or_nan(covariance: Float[Tensor, "B N N"]) -> Float[Tensor, "B N N"]:
    """Cholesky factors; NaN where rounding has left a matrix without one."""
    root, failed = torch.linalg.cholesky_ex(covariance)
    return root.masked_fill((failed > 0)[:, None, None], float("nan"))


def given_context(mean: Float[Tensor, "B N"], covariance: Float[Tensor, "B N N"], noised: Noised) -> GaussianTargets:
    """The targets, given the context's values, each observed with the noise of its level."""
    context, targets = slice(None, noised.num_context), slice(noised.num_context, None)
    if not noised.num_context:
        return GaussianTargets(mean, covariance)
    real, level = noised.mask[:, context], noised.level[:, context]
    # An empty place becomes an independent variable, observed at zero.
    noisy = covariance[:, context, context] * (real[:, :, None] & real[:, None, :])
    root = _root_or_nan(noisy + torch.diag_embed(torch.where(real, ratio(level).square(), 1.0)))
    cross = covariance[:, context, targets] * real[:, :, None]
    surprise = (noised.y_t[:, context, 0] / alpha(level) - mean[:, context]) * real
    solved = torch.linalg.solve_triangular(root, torch.cat([cross, surprise[..., None]], dim=-1), upper=False)
    half, rest = solved[..., :-1], solved[..., -1:]
    return GaussianTargets(
        mean[:, targets] + (half.mT @ rest)[..., 0], covariance[:, targets, targets] - half.mT @ half
    )
