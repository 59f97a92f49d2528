"""Expectations of functions, given noisy values of them and what they were drawn from.

A network that is asked for a function learns its expectation, given what it sees of it. A drawn function scatters widely about
that. Where the kernel, the size of the noise or the kind of function is known, because it was drawn too, so is the expectation
given these, which scatters far less. By the law of total expectation what is learned from it is the same; it is learned sooner.
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
class Seen:
    """What there is to see of the tasks of a batch: noisy values, each at a level of its own.

    Points that are not in `mask` were not seen. `independent`: a target sees the context, which comes first, and its own noisy
    value, and no other target's.
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
class Law(Protocol):
    """What the tasks of a batch were drawn from."""

    def __call__(self, seen: Seen) -> Float[Tensor, "B N 1"]:
        """E[y0 | y_t] at the targets; what it says of the context does not count."""
        ...


def draw_with_law(prior: Prior, x: Float[Tensor, "B N D"], generator: torch.Generator) -> tuple[Tensor, Law | None]:
    """Functions at `x`, and what they were drawn from where expectations under it are known."""
    law: Law | None = None
    match prior:
        case GP():
            law = GPLaw(prior)
        case HierarchicalGP():
            prior = prior.draw_gp(x, generator)
            law = GPLaw(prior)
        case Standardised(prior=Step() as step, units=units):
            before, after = units.on(x.device).to_model_y(x.new_tensor([[[0.0]], [[1.0]]])).flatten().tolist()
            law = StepLaw(step.low, step.high, before, after)
    return draw_observations(prior, x, generator=generator), law  # type: ignore[return-value]  # a tensor is answered with a tensor


@final
@dataclass(frozen=True)
class GPLaw:
    """Draws of a GP, the same for all tasks or with a kernel for each."""

    gp: GP

    def __call__(self, seen: Seen) -> Float[Tensor, "B N 1"]:
        return given_context(torch.zeros_like(seen.level), self.gp.covariance(seen.x), seen).expectation(seen)


@final
@dataclass(frozen=True)
class StepLaw:
    """Steps from one value to a higher one, at a place that is uniform from `low` to `high`."""

    low: float
    high: float
    before: float
    after: float

    def __call__(self, seen: Seen) -> Float[Tensor, "B N 1"]:
        # How much likelier a noisy value is after the step than before it; 1e4 is as good as certain.
        left, noise = alpha(seen.level), sigma(seen.level)
        rise, middle = left * (self.after - self.before), left * (self.after + self.before) / 2
        evidence = (rise / noise.square() * (seen.y_t[..., 0] - middle)).clamp(-1e4, 1e4) * seen.mask
        place, order = seen.x[..., 0].clamp(self.low, self.high).sort(dim=1)
        shared = torch.where(seen.of_context, evidence, 0.0) if seen.independent else evidence
        # Points cut the range into gaps; a step in a gap leaves all points from there on after it.
        after = shared.gather(1, order).flip(1).cumsum(1).flip(1)
        log_likelihood = torch.cat([after, torch.zeros_like(after[:, :1])], dim=1)
        ends = place.new_tensor([self.low, self.high]).expand(len(place), 2)
        gaps = torch.cat([ends[:, :1], place, ends[:, 1:]], dim=1).diff(dim=1)
        weights = (gaps.log() + log_likelihood).softmax(dim=1)
        risen = torch.empty_like(evidence).scatter_(1, order, weights.cumsum(1)[:, :-1].clamp(0, 1))
        if seen.independent:
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

    def expectation(self, seen: Seen) -> Float[Tensor, "B N 1"]:
        """E[y0 | y_t] at the targets, which are the last points, and zero before them."""
        targets = slice(seen.num_context, None)
        a, s = (part(seen.level[:, targets]) for part in (alpha, sigma))
        a = a * seen.mask[:, targets]  # what is not seen has nothing left of the function
        surprise = seen.y_t[:, targets, 0] - a * self.mean
        if seen.independent:
            variance = self.std.square()
            expected = self.mean + a * variance / (a.square() * variance + s.square()) * surprise
        else:
            noisy = a[..., :, None] * self.covariance * a[..., None, :] + torch.diag_embed(s.square())
            root = _root_or_nan(noisy)
            weights = torch.cholesky_solve(surprise[..., None], root)
            expected = self.mean + (self.covariance @ (a[..., None] * weights))[..., 0]
        return torch.nn.functional.pad(expected, (seen.num_context, 0))[..., None]


def _root_or_nan(covariance: Float[Tensor, "B N N"]) -> Float[Tensor, "B N N"]:
    """Cholesky factors; of a matrix that rounding has left without one, not a number in place of what is anybody's guess."""
    root, failed = torch.linalg.cholesky_ex(covariance)
    return root.masked_fill((failed > 0)[:, None, None], float("nan"))


def given_context(mean: Float[Tensor, "B N"], covariance: Float[Tensor, "B N N"], seen: Seen) -> GaussianTargets:
    """The targets, given the context's values, each observed with the noise of its level."""
    context, targets = slice(None, seen.num_context), slice(seen.num_context, None)
    if not seen.num_context:
        return GaussianTargets(mean, covariance)
    real, level = seen.mask[:, context], seen.level[:, context]
    # An empty place becomes a variable of its own, seen at zero and related to nothing.
    noisy = covariance[:, context, context] * (real[:, :, None] & real[:, None, :])
    root = _root_or_nan(noisy + torch.diag_embed(torch.where(real, ratio(level).square(), 1.0)))
    cross = covariance[:, context, targets] * real[:, :, None]
    surprise = (seen.y_t[:, context, 0] / alpha(level) - mean[:, context]) * real
    solved = torch.linalg.solve_triangular(root, torch.cat([cross, surprise[..., None]], dim=-1), upper=False)
    half, rest = solved[..., :-1], solved[..., -1:]
    return GaussianTargets(
        mean[:, targets] + (half.mT @ rest)[..., 0], covariance[:, targets, targets] - half.mT @ half
    )
