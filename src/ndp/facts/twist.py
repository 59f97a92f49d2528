"""Facts about what a network draws, by a Gaussian twist: few network calls serve all particles.

A solver turns noise z into values f = G(z). Draws of the solver give the linear map nearest to G, f ~ m + A z. Under that map
the facts are told by tempered sequential Monte Carlo at no network call. The solver is then run on the noise found there, and
weights L(G(z)) / L~(z) correct for what the linear map left out, so that the answer is exact in the limit of particles for
the law of the solver. Where the weights are uneven, the map is fitted again to where the facts are, once.
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
from ndp.facts.smc import Contradiction, effective_size, log_soft, tempered

ENOUGH = 0.5  # share of the effective size with which the first map will do
SOFTEST = 3.0  # standard deviations of what the map leaves out, by which the facts of the twist are softened

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


def told_by_network(
    network: Network, facts: JoinedFacts, num_particles: int, generator: torch.Generator
) -> Weighted:
    """Draws of a network's solver given facts about its first values."""
    size = network.size
    pilots = max(num_particles, 2 * size + 2)
    normal = match_moments(_noise(pilots, size, generator)[:, None, :, None])[:, 0, :, 0]
    solved = network.solve(normal)
    near = _linear(normal, solved)
    found = _round(network, near, facts, num_particles, generator)
    if found is None or found[0].effective < ENOUGH * num_particles:
        if found is not None:
            weighted, normal_there = found
            near = _refined(near, normal_there, weighted.values)
        again = _round(network, near, facts, num_particles, generator)
        if again is not None and (found is None or again[0].effective > found[0].effective):
            found = again
    if found is None:
        raise Contradiction(
            f"no particle of {num_particles} agrees with all facts and observations: they contradict each other, or "
            "num_particles must be raised"
        )
    return found[0]


def _round(
    network: Network, near: _Map, facts: JoinedFacts, num_particles: int, generator: torch.Generator
) -> tuple[Weighted, Float[Tensor, "S E"]] | None:
    """Noise from the facts under the linear map, and what the solver makes of it; None where nothing agrees with the facts."""
    places = len(facts.places)
    root = near.matrix[:places]
    law = Law(root.new_zeros(1), near.mean[None, :places], (root @ root.T)[None])
    soft, more = (_left_out(near, weights, places) for weights in (facts.hard_weights, facts.weights))
    twisted = tempered(law, facts, num_particles, generator, soft=(soft.sqrt(), more))
    fresh = _noise(num_particles, network.size, generator)
    # The noise z of all values, given the part of it that makes the places: z = fresh + A^+ (f - m - A fresh).
    inverse = torch.linalg.pinv(root, rtol=1e-7)
    normal = fresh + (twisted.values - near.mean[:places] - fresh @ root.T) @ inverse.T
    values = network.solve(normal)
    there = near.mean[:places] + normal @ root.T
    said = facts.log_smooth(values[:, :places])
    margins = facts.margins(values[:, :places])
    said = said.masked_fill((margins < 0).any(1), -math.inf)
    scale = torch.where(soft > 0, soft.sqrt(), 1.0)
    expected = facts.log_smooth(there, extra_variance=more) + log_soft(facts.margins(there) / scale).sum(1)
    log_w = said - expected
    if not bool((log_w > -math.inf).any()):
        return None
    evidence = twisted.log_evidence + log_w.logsumexp(0).item() - math.log(num_particles)
    share = min(twisted.effective / num_particles, 1.0)
    return Weighted(values, log_w, evidence, share * effective_size(log_w)), normal


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


def _refined(near: _Map, normal: Float[Tensor, "S E"], values: Float[Tensor, "S E"]) -> _Map:
    """The map corrected where the facts are: by the mean of its errors there, and by ridge regression of them."""
    off = values - near.mean - normal @ near.matrix.T
    centre, shift = normal.mean(0), off.mean(0)
    away = normal - centre
    inner = away.T @ away + len(normal) * 0.1 * torch.eye(normal.shape[1], dtype=normal.dtype)
    change = torch.linalg.solve(inner, away.T @ (off - shift)).T
    left = off - shift - away @ change.T
    matrix = near.matrix + change
    return _Map(near.mean + shift - centre @ change.T, matrix, left.T @ left / len(normal))


def _noise(count: int, size: int, generator: torch.Generator) -> Float[Tensor, "S E"]:
    return torch.randn(count, size, generator=generator, dtype=torch.float64)
