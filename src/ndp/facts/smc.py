"""Tempered sequential Monte Carlo in the noise beneath a law, which is exact in the limit of particles.

From beta = 0 (nothing known) to beta = 1 (all facts), with likelihoods to the power of beta and hard facts softened to

    product of Phi(margin / scale),    scale = spread (1 - beta) / beta,

so that they hold exactly at the end. Every step of beta keeps the effective size of the weights at a fixed share; then particles
are resampled and moved by elliptical slice sampling (Murray et al., 2010) about a Gaussian fitted to them (Nishihara et al.,
2014), until their values have forgotten where they were. The product of mean weights is the evidence, without bias but for
the choice of steps.
"""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ndp.facts.joined import JoinedFacts
from ndp.facts.law import Law, gaussian_values, pivots

KEPT = 0.6  # share of the effective size that a step of beta keeps
FORGOTTEN, FORGOTTEN_LAST = 0.35, 0.1  # correlation of values with where they were, after the moves of a step and of the last
MOST_MOVES, MOST_MOVES_LAST = 6, 24
MOST_STAGES = 120
SHRINKS = 40  # of the bracket of a slice
FITTED = 8  # particles for every direction of the fitted Gaussian
SHARPEST = 14.0  # log-odds of the last beta before 1
COUNTS = 0.01  # of the largest root variance: directions with less of it are left to the prior


@final
@dataclass(frozen=True)
class Particles:
    """Draws of P values and of the noise beneath, in the `order` of its root; the log-evidence of the facts, and how many
    independent draws they are worth."""

    order: Int[Tensor, "P"]
    index: Int[Tensor, "S"]
    normal: Float[Tensor, "S P"]
    values: Float[Tensor, "S P"]
    log_evidence: float
    effective: float


class Contradiction(ValueError):
    """Facts for which no particle is left."""


class _Target:
    """The facts as a function of the noise."""

    def __init__(self, law: Law, facts: JoinedFacts, extra: tuple[Tensor, Tensor] | None) -> None:
        self.law, self.facts = law, facts
        self.order = pivots(average_covariance(law))
        back = self.order.argsort()
        picked = Law(law.log_weight, law.mean[:, self.order], law.covariance[:, self.order][:, :, self.order])
        self.mean, self.root, self.back = picked.mean, picked.root, back
        self.soft, self.variance = extra if extra is not None else (None, 0.0)
        self.prior = torch.softmax(law.log_weight, 0)
        large = self.root.diagonal(dim1=-2, dim2=-1).amax(0)
        self.counting = int((large > COUNTS * large.max()).sum()) if len(large) else 0
        self.spread = law.mean.new_ones(len(facts.hard_offset))

    def values(self, index: Tensor, z: Tensor) -> Tensor:
        u = gaussian_values(self.mean, self.root, index, z)[:, self.back]
        return u if self.law.warp is None else self.law.warp(u)

    def parts(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """The log-likelihood of what is smooth, and the margins."""
        return self.facts.log_smooth(values, extra_variance=self.variance), self.facts.margins(values)

    def log_likelihood(self, smooth: Tensor, margins: Tensor, beta: float) -> Tensor:
        total = smooth * beta if beta > 0 else torch.zeros_like(smooth)
        if margins.shape[1]:
            scale = self.spread * ((1 - beta) / beta if beta > 0 else math.inf)
            if self.soft is not None:
                scale = (scale.square() + self.soft.square()).sqrt()
            hard = scale == 0
            soft = torch.special.log_ndtr(margins / torch.where(hard, 1.0, scale))
            exactly = torch.where(margins >= 0, 0.0, -math.inf)
            total = total + torch.where(hard, exactly, soft).sum(1)
        return total


def average_covariance(law: Law) -> Float[Tensor, "P P"]:
    """The covariance of the Gaussian values of all components together."""
    weight = torch.softmax(law.log_weight, 0)
    off = law.mean - weight @ law.mean
    return torch.einsum("k,kij->ij", weight, law.covariance) + torch.einsum("k,ki,kj->ij", weight, off, off)


def tempered(
    law: Law,
    facts: JoinedFacts,
    num_particles: int,
    generator: torch.Generator,
    *,
    soft: tuple[Float[Tensor, "R"], Float[Tensor, "Q"]] | None = None,
) -> Particles:
    """Particles of the law's noise given the facts about its values.

    With `soft` the facts stay a little soft: hard ones by these scales, measurements by these variances.
    """
    target = _Target(law, facts, soft)
    size = law.mean.shape[1]
    index = torch.multinomial(target.prior, num_particles, replacement=True, generator=generator)
    z = torch.randn(num_particles, size, generator=generator, dtype=torch.float64)
    values = target.values(index, z)
    smooth, margins = target.parts(values)
    target.spread = margins.std(0, correction=0).clamp(min=1e-12) if len(facts.hard_offset) else target.spread
    now = target.log_likelihood(smooth, margins, 0.0)
    log_evidence = now[0].item() if num_particles else 0.0
    beta, stages, effective = 0.0, 0, float(num_particles)
    while beta < 1:
        stages += 1
        beta, log_w = _next_beta(target, smooth, margins, now, beta)
        total = log_w.logsumexp(0).item()
        if total == -math.inf or stages > MOST_STAGES:
            raise Contradiction(
                f"no particle of {num_particles} agrees with all facts and observations: they contradict each other, or "
                "num_particles must be raised"
            )
        log_evidence += total - math.log(num_particles)
        chosen = systematic(log_w, generator)
        index, z, values, smooth, margins = (part[chosen] for part in (index, z, values, smooth, margins))
        fitted = _fit(z[:, : target.counting])
        old, moves = values.clone(), 0
        forgotten, most = (FORGOTTEN_LAST, MOST_MOVES_LAST) if beta == 1 else (FORGOTTEN, MOST_MOVES)
        correlation = 1.0
        while moves < most and correlation > forgotten:
            state = index, z, values, smooth, margins
            state = _move(target, *state, beta, fitted if moves % 3 < 2 else None, generator)
            index, z, values, smooth, margins = _switch(target, *state, beta, generator)
            correlation = _correlation(old, values)
            moves += 1
        now = target.log_likelihood(smooth, margins, beta)
        effective = _effective(chosen, correlation, num_particles)
    return Particles(target.order, index, z, values, log_evidence, effective)


def _next_beta(target: _Target, smooth: Tensor, margins: Tensor, now: Tensor, beta: float) -> tuple[float, Tensor]:
    """The largest next beta that keeps the effective size, by bisection of its log-odds, and the weights of the step."""

    def weights(at: float) -> Tensor:
        return target.log_likelihood(smooth, margins, at) - now

    def enough(log_w: Tensor) -> bool:
        return effective_size(log_w) >= KEPT * len(log_w)

    log_w = weights(1.0)
    if enough(log_w):
        return 1.0, log_w
    low = -SHARPEST if beta == 0 else math.log(beta / (1 - beta))
    if low >= SHARPEST:
        return 1.0, log_w
    high = SHARPEST
    if not enough(weights(1 / (1 + math.exp(-high)))):
        first = low
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if enough(weights(1 / (1 + math.exp(-middle)))) else (low, middle)
        low = max(low, first + 0.02)
    else:
        low = high
    beta = 1 / (1 + math.exp(-low))
    return beta, weights(beta)


def effective_size(log_w: Float[Tensor, "S"]) -> float:
    """(sum w)^2 / sum w^2."""
    most = log_w.max()
    if most == -math.inf:
        return 0.0
    w = (log_w - most).exp()
    return (w.sum().square() / w.square().sum()).item()


def systematic(
    log_w: Float[Tensor, "S"], generator: torch.Generator, count: int | None = None
) -> Int[Tensor, "{count}"]:
    """Indices of particles, each as often as its weight says up to one (systematic resampling)."""
    count = len(log_w) if count is None else count
    place = (torch.arange(count) + torch.rand((), generator=generator, dtype=torch.float64)) / count
    ends = torch.softmax(log_w, 0).cumsum(0)
    return torch.searchsorted(ends / ends[-1], place).clamp(max=len(log_w) - 1)


Fitted = tuple[Tensor, Tensor]


def _fit(z: Float[Tensor, "S R"]) -> Fitted | None:
    """Mean and root of the particles' covariance in as many directions as they can tell, a little widened."""
    count = min(z.shape[1], len(z) // FITTED)
    if count == 0:
        return None
    z = z[:, :count]
    mean = z.mean(0)
    off = z - mean
    share = min(1.0, (count + 1) / len(z))
    covariance = (1 - share) * off.T @ off / len(z) + share * torch.eye(count, dtype=z.dtype)
    root, info = torch.linalg.cholesky_ex(1.1 * covariance)
    return (mean, root) if int(info) == 0 else None


def _log_ratio(z: Tensor, fitted: Fitted | None) -> Tensor:
    """The log-density of standard normal numbers over that of the fitted Gaussian, up to a constant."""
    if fitted is None:
        return z.new_zeros(len(z))
    mean, root = fitted
    count = len(mean)
    white = torch.linalg.solve_triangular(root, (z[:, :count] - mean).T, upper=False)
    return (white.square().sum(0) - z[:, :count].square().sum(1)) / 2


def _move(
    target: _Target,
    index: Tensor,
    z: Tensor,
    values: Tensor,
    smooth: Tensor,
    margins: Tensor,
    beta: float,
    fitted: Fitted | None,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """One update of all particles by elliptical slice sampling about the fitted Gaussian."""
    count = len(z)
    other = torch.randn(z.shape, generator=generator, dtype=z.dtype)
    centre = torch.zeros_like(z[:1])
    if fitted is not None:
        mean, root = fitted
        centre[:, : len(mean)] = mean
        other[:, : len(mean)] = mean + other[:, : len(mean)] @ root.T
    level = target.log_likelihood(smooth, margins, beta) + _log_ratio(z, fitted)
    level = level + torch.rand(count, generator=generator, dtype=z.dtype).log()
    angle = 2 * math.pi * torch.rand(count, generator=generator, dtype=z.dtype)
    low, high = angle - 2 * math.pi, angle.clone()
    z, values, smooth, margins = z.clone(), values.clone(), smooth.clone(), margins.clone()
    begin, left = z.clone(), torch.arange(count)
    for _ in range(SHRINKS):
        turn = angle[left, None]
        tried = centre + (begin[left] - centre) * turn.cos() + (other[left] - centre) * turn.sin()
        new = target.values(index[left], tried)
        new_smooth, new_margins = target.parts(new)
        found = target.log_likelihood(new_smooth, new_margins, beta) + _log_ratio(tried, fitted)
        good = found > level[left]
        done = left[good]
        z[done], values[done], smooth[done], margins[done] = tried[good], new[good], new_smooth[good], new_margins[good]
        left = left[~good]
        if not len(left):
            break
        at = angle[left]
        low[left], high[left] = torch.where(at < 0, at, low[left]), torch.where(at < 0, high[left], at)
        share = torch.rand(len(left), generator=generator, dtype=z.dtype)
        angle[left] = low[left] + share * (high[left] - low[left])
    return index, z, values, smooth, margins


def _switch(
    target: _Target,
    index: Tensor,
    z: Tensor,
    values: Tensor,
    smooth: Tensor,
    margins: Tensor,
    beta: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """One update of the Gaussian of every particle, its noise kept: a step of Metropolis-Hastings from the prior weights."""
    if len(target.prior) == 1:
        return index, z, values, smooth, margins
    other = torch.multinomial(target.prior, len(index), replacement=True, generator=generator)
    new = target.values(other, z)
    new_smooth, new_margins = target.parts(new)
    gain = target.log_likelihood(new_smooth, new_margins, beta) - target.log_likelihood(smooth, margins, beta)
    taken = torch.rand(len(index), generator=generator, dtype=z.dtype).log() < gain
    pairs = (index, other), (values, new), (smooth, new_smooth), (margins, new_margins)
    index, values, smooth, margins = (
        torch.where(taken if a.ndim == 1 else taken[:, None], b, a) for a, b in pairs
    )
    return index, z, values, smooth, margins


def _correlation(old: Float[Tensor, "S P"], new: Float[Tensor, "S P"]) -> float:
    """Of values with what they were, the mean over places."""
    a, b = old - old.mean(0), new - new.mean(0)
    scale = (a.square().sum(0) * b.square().sum(0)).sqrt()
    used = scale > 0
    return ((a * b).sum(0)[used] / scale[used]).mean().item() if bool(used.any()) else 0.0


def _effective(ancestors: Int[Tensor, "S"], correlation: float, count: int) -> float:
    """How many independent draws particles of equal weight are worth, whose copies are still so much alike."""
    copies = torch.bincount(ancestors, minlength=count).double()
    alike = max(correlation, 0.0) ** 2
    return (count**2 / (count + alike * (copies.square().sum() - count))).item()
