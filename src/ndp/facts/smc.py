"""Tempered sequential Monte Carlo in the noise beneath a law, which is exact in the limit of particles.

From beta = 0 (nothing known) to beta = 1 (all facts): with likelihoods to the power of beta, and hard facts softened to

    product of logistic(1.7 margin / scale),    scale = spread (1 - beta) / beta,

so that they hold exactly at the end. Every step of beta keeps the effective size of the weights at a fixed share. Then
particles are resampled and moved by elliptical slice sampling (Murray et al., 2010) about a Gaussian fitted to them (Nishihara
et al., 2014), some directions of it at a time, until their values have forgotten where they were. A first run chooses the
steps and fits the Gaussians, and a second run uses them: the product of its mean weights is the evidence without bias.
"""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ndp.facts.joined import JoinedFacts
from ndp.facts.law import Law
from ndp.facts.target import State, Target

KEPT = 0.6  # share of the effective size that a step of beta keeps
FORGOTTEN, FORGOTTEN_LAST = (
    0.35,
    0.1,
)  # correlation of values with where they were, after the moves of a step and of the last
MOST_MOVES, MOST_MOVES_LAST = 5, 15
MOST_STAGES = 120
SHRINKS = 40  # of the bracket of a slice
PILOTS = 128  # particles of the first run, at least; else half of the second
FITTED = 8  # particles for every direction of the fitted Gaussian
WIDER = 1.1  # than the covariance of the particles
SLOW = 0.7  # what a sweep may leave of the correlation, before the next ones move half as many directions at a time
SHARPEST = 14.0  # log-odds of the last beta before 1


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


class ContradictionError(ValueError):
    """Facts for which no particle is left."""


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
    target = Target(law, facts, soft)
    plan = _run(target, max(num_particles // 2, min(num_particles, PILOTS)), generator, None).plan
    found = _run(target, num_particles, generator, plan)
    state = found.state
    return Particles(target.order, state.index, state.z, state.values, found.log_evidence, found.effective)


@dataclass(frozen=True)
class _Stage:
    """A step of beta, and the sweeps after it: about which Gaussian, and how many directions at a time."""

    beta: float
    fitted: "_Fitted"
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class _Run:
    state: State
    log_evidence: float
    effective: float
    plan: tuple[_Stage, ...]


def _run(target: Target, count: int, generator: torch.Generator, plan: tuple[_Stage, ...] | None) -> _Run:
    """From nothing known to all facts, by a plan or, without one, as the particles need."""
    index = torch.multinomial(target.prior, count, replacement=True, generator=generator)
    z = torch.randn(count, target.mean.shape[1], generator=generator, dtype=torch.float64)
    state = target.state(index, z)
    if plan is None and state.margins.shape[1]:
        target.spread = state.margins.std(0, correction=0).clamp(min=1e-12)
    log_evidence = target.log_likelihood(state.smooth, state.margins, 0.0)[0].item()
    beta, effective, block = 0.0, float(count), max(target.counting, 1)
    stages: list[_Stage] = []
    while beta < 1:
        before = beta
        beta = _next_beta(target, state, beta) if plan is None else plan[len(stages)].beta
        log_w = _step(target, state, before, beta)
        total = log_w.logsumexp(0).item()
        if total == -math.inf or len(stages) == MOST_STAGES:
            raise ContradictionError(
                f"no particle of {count} agrees with all facts and observations: they contradict each other, or "
                "num_particles must be raised"
            )
        log_evidence += total - math.log(count)
        chosen = systematic(log_w, generator)
        state = old = state.at(chosen)
        fitted = _Fitted.to(state.z[:, : target.counting]) if plan is None else plan[len(stages)].fitted
        blocks = list(plan[len(stages)].blocks) if plan is not None else []
        correlation, done = 1.0, 0
        last = plan is not None and beta == 1
        while done < (MOST_MOVES_LAST if last else MOST_MOVES if plan is None else len(blocks)):
            block = blocks[done] if done < len(blocks) else block
            state = _sweep(target, state, beta, fitted, block, generator)
            state = _switch(target, state, beta, generator)
            done += 1
            if plan is not None and not last:
                continue
            before, correlation = correlation, _correlation(old, state)
            if plan is None:
                blocks.append(block)
            if correlation <= (FORGOTTEN_LAST if last else FORGOTTEN):
                break
            if correlation > SLOW * before:
                block = max(block // 2, 1)
        stages.append(_Stage(beta, fitted, tuple(blocks)))
        effective = _effective(chosen, correlation, count) if last else effective
    return _Run(state, log_evidence, effective, tuple(stages))


def _step(target: Target, state: State, beta: float, then: float) -> Float[Tensor, "S"]:
    """The log-weights of a step of beta."""
    return target.log_likelihood(state.smooth, state.margins, then) - target.log_likelihood(
        state.smooth, state.margins, beta
    )


def _next_beta(target: Target, state: State, beta: float) -> float:
    """The largest next beta that keeps the effective size, by bisection of its log-odds."""

    def enough(at: float) -> bool:
        return effective_size(_step(target, state, beta, at)) >= KEPT * len(state.z)

    if enough(1.0):
        return 1.0
    low, high = -SHARPEST if beta == 0 else math.log(beta / (1 - beta)), SHARPEST
    if low >= SHARPEST or enough(1 / (1 + math.exp(-high))):
        return 1.0 if low >= SHARPEST else 1 / (1 + math.exp(-high))
    least = low + 0.02
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(1 / (1 + math.exp(-middle))) else (low, middle)
    return 1 / (1 + math.exp(-max(low, least)))


def effective_size(log_w: Float[Tensor, "S"]) -> float:
    """(sum w)^2 / sum w^2."""
    most = log_w.max()
    if most == -math.inf:
        return 0.0
    w = (log_w - most).exp()
    return (w.sum().square() / w.square().sum()).item()


def systematic(log_w: Float[Tensor, "S"], generator: torch.Generator, count: int | None = None) -> Int[Tensor, "n"]:
    """Indices of particles, each as often as its weight says up to one (systematic resampling)."""
    count = len(log_w) if count is None else count
    place = (torch.arange(count) + torch.rand((), generator=generator, dtype=torch.float64)) / count
    ends = torch.softmax(log_w, 0).cumsum(0)
    return torch.searchsorted(ends / ends[-1], place).clamp(max=len(log_w) - 1)


@dataclass(frozen=True)
class _Fitted:
    """A Gaussian near the particles' noise in its leading directions: mean + root y for standard normal y."""

    mean: Float[Tensor, "R"]
    root: Float[Tensor, "R R"]

    @staticmethod
    def to(z: Float[Tensor, "S R"]) -> "_Fitted":
        """Mean and covariance in as many directions as the particles can tell, a little widened."""
        count = min(z.shape[1], len(z) // FITTED)
        z = z[:, :count]
        mean = z.mean(0)
        share = min(1.0, (count + 1) / len(z))
        eye = torch.eye(count, dtype=z.dtype)
        root, info = torch.linalg.cholesky_ex(WIDER * ((1 - share) * (z - mean).T @ (z - mean) / len(z) + share * eye))
        return _Fitted(mean, root if int(info) == 0 else eye)

    def white(self, z: Float[Tensor, "S P"]) -> Float[Tensor, "S R"]:
        """The inverse of mean + root y."""
        return torch.linalg.solve_triangular(self.root, (z[:, : len(self.mean)] - self.mean).T, upper=False).T


def _sweep(target: Target, state: State, beta: float, fitted: _Fitted, block: int, generator: torch.Generator) -> State:
    """Update the noise of all particles, so many directions of the fitted Gaussian at a time, by elliptical slice sampling."""
    count, size = len(fitted.mean), state.z.shape[1]
    blocks = list(torch.randperm(count, generator=generator).split(max(block, 1)))
    tail = torch.arange(count, size)  # directions without a fit go with the first block
    blocks = [torch.cat([blocks[0], tail]), *blocks[1:]] if blocks else [tail]
    y = torch.cat([fitted.white(state.z), state.z[:, count:]], dim=1)
    for moved in blocks:
        if len(moved):
            state, y = _slice(target, state, y, beta, fitted, moved, generator)
    return state


def _slice(
    target: Target,
    state: State,
    y: Float[Tensor, "S P"],
    beta: float,
    fitted: _Fitted,
    moved: Int[Tensor, "b"],
    generator: torch.Generator,
) -> tuple[State, Float[Tensor, "S P"]]:
    """One update of some coordinates of y, where z = mean + root y."""
    count, dim = len(y), len(fitted.mean)

    def log_density(likelihood: Tensor, y: Tensor, z: Tensor) -> Tensor:
        """Relative to standard normal y."""
        return likelihood + (y[:, :dim].square().sum(1) - z[:, :dim].square().sum(1)) / 2

    other = torch.randn(count, len(moved), generator=generator, dtype=y.dtype)
    level = log_density(target.log_likelihood(state.smooth, state.margins, beta), y, state.z)
    level = level + torch.rand(count, generator=generator, dtype=y.dtype).log()
    angle = 2 * math.pi * torch.rand(count, generator=generator, dtype=y.dtype)
    low, high = angle - 2 * math.pi, angle.clone()
    state, begin, y, left = state.copy(), y, y.clone(), torch.arange(count)
    for _ in range(SHRINKS):
        turn = angle[left, None]
        tried_y = begin[left]
        tried_y[:, moved] = tried_y[:, moved] * turn.cos() + other[left] * turn.sin()
        tried = torch.cat([fitted.mean + tried_y[:, :dim] @ fitted.root.T, tried_y[:, dim:]], dim=1)
        new = target.state(state.index[left], tried)
        found = log_density(target.log_likelihood(new.smooth, new.margins, beta), tried_y, tried)
        good = found > level[left]
        state.put(left[good], new.at(good))
        y[left[good]] = tried_y[good]
        left = left[~good]
        if not len(left):
            break
        at = angle[left]
        low[left], high[left] = torch.where(at < 0, at, low[left]), torch.where(at < 0, high[left], at)
        share = torch.rand(len(left), generator=generator, dtype=y.dtype)
        angle[left] = low[left] + share * (high[left] - low[left])
    return state, y


def _switch(target: Target, state: State, beta: float, generator: torch.Generator) -> State:
    """One update of the Gaussian of every particle, its noise kept: a step of Metropolis-Hastings from the prior weights."""
    if len(target.prior) == 1:
        return state
    other = torch.multinomial(target.prior, len(state.index), replacement=True, generator=generator)
    new = target.state(other, state.z)
    gain = target.log_likelihood(new.smooth, new.margins, beta)
    gain = gain - target.log_likelihood(state.smooth, state.margins, beta)
    taken = torch.rand(len(gain), generator=generator, dtype=gain.dtype).log() < gain
    state = state.copy()
    state.put(taken, new.at(taken))
    return state


def _correlation(old: State, new: State) -> float:
    """Of values with what they were, the mean over places, or of margins, where that is larger."""
    found = [0.0]
    for before, after in ((old.values, new.values), (old.margins, new.margins)):
        a, b = before - before.mean(0), after - after.mean(0)
        scale = (a.square().sum(0) * b.square().sum(0)).sqrt()
        used = scale > 0
        if bool(used.any()):
            found.append(((a * b).sum(0)[used] / scale[used]).mean().item())
    return max(found)


def _effective(ancestors: Int[Tensor, "S"], correlation: float, count: int) -> float:
    """How many independent draws particles of equal weight are worth, whose copies are still so much alike."""
    copies = torch.bincount(ancestors, minlength=count).double()
    alike = max(correlation, 0.0) ** 2
    return (count**2 / (count + alike * (copies.square().sum() - count))).item()
