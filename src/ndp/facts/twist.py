"""Facts about what a network draws, by a Gaussian twist: few network calls serve all particles.

A solver turns noise z into values f = G(z). Draws of the solver give the linear map nearest to G, f ~ m + A z. Under that map
the facts L are told by tempered sequential Monte Carlo at no network call, softened by what the map leaves out to L~. The
solver is then run on the noise found there, and weights L(G(z)) / L~(m + A z) correct, so that the answer is exact in the
limit of particles for the law of the solver.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.randomness import match_moments
from ndp.facts.joined import JoinedFacts
from ndp.facts.law import Law
from ndp.facts.smc import ContradictionError, effective_size, tempered
from ndp.facts.target import log_soft

Solve = Callable[[Float[Tensor, "S E"]], Float[Tensor, "S E"]]


@final
@dataclass(frozen=True)
class Network:
    """E values from as many standard normal numbers, by a solver."""

    size: int
    solve: Solve


@final
@dataclass(frozen=True)
class Weighted:
    """Values with weights, their log-evidence, and how many independent draws they are worth."""

    values: Float[Tensor, "S E"]
    log_weight: Float[Tensor, "S"]
    log_evidence: float
    effective: float


@dataclass(frozen=True)
class _Map:
    """The linear map nearest to a solver, of all values, and the variance that it leaves out."""

    mean: Float[Tensor, "E"]
    matrix: Float[Tensor, "E E"]
    rest: Float[Tensor, "E E"]


def given_by_network(network: Network, facts: JoinedFacts, num_particles: int, generator: torch.Generator) -> Weighted:
    """Draws of a network's solver given facts about its first values."""
    size = network.size
    pilots = max(num_particles, 2 * size + 2)
    normal = match_moments(_noise(pilots, size, generator)[:, None, :, None])[:, 0, :, 0]
    solved = network.solve(normal)
    near = _linear(normal, solved)
    places = len(facts.places)
    root = near.matrix[:places]
    law = Law(root.new_zeros(1), near.mean[None, :places], (root @ root.T)[None])
    soft, more = (_left_out(near, weights, places) for weights in (facts.hard_weights, facts.weights))
    twisted = tempered(law, facts, num_particles, generator, soft=(soft.sqrt(), more))
    fresh = _noise(num_particles, size, generator)
    # The noise z of all values, given the part of it that makes the places: z = fresh + A^+ (f - m - A fresh).
    inverse = torch.linalg.pinv(root, rtol=1e-7)
    normal = fresh + (twisted.values - near.mean[:places] - fresh @ root.T) @ inverse.T
    values = network.solve(normal)
    there = near.mean[:places] + normal @ root.T
    exactly = facts.log_smooth(values[:, :places])
    exactly = exactly.masked_fill((facts.margins(values[:, :places]) < 0).any(1), -math.inf)
    expected = facts.log_smooth(there, extra_variance=more) + log_soft(facts.margins(there) / soft.sqrt()).sum(1)
    log_w = exactly - expected
    if not bool((log_w > -math.inf).any()):
        raise ContradictionError(
            f"no particle of {num_particles} agrees with all facts and observations: they contradict each other, or "
            "num_particles must be raised"
        )
    evidence = twisted.log_evidence + log_w.logsumexp(0).item() - math.log(num_particles)
    return Weighted(values, log_w, evidence, effective_size(log_w) * min(twisted.effective / num_particles, 1.0))


def _left_out(near: _Map, weights: Float[Tensor, "R P"], places: int) -> Float[Tensor, "R"]:
    """The variance of linear functionals that the map leaves out, and at least a little of their own."""
    rest = torch.einsum("ri,ij,rj->r", weights, near.rest[:places, :places], weights)
    own = (weights @ near.matrix[:places]).square().sum(1)
    return rest.clamp(min=0) + 1e-8 * own + 1e-16


def _linear(normal: Float[Tensor, "S E"], values: Float[Tensor, "S E"]) -> _Map:
    """Least squares; the noise has mean zero and covariance one, exactly."""
    mean = values.mean(0)
    matrix = (values - mean).T @ normal / len(normal)
    off = values - mean - normal @ matrix.T
    return _Map(mean, matrix, off.T @ off / max(len(normal) - normal.shape[1] - 1, 1))


def _noise(count: int, size: int, generator: torch.Generator) -> Float[Tensor, "S E"]:
    return torch.randn(count, size, generator=generator, dtype=torch.float64)
