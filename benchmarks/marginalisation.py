"""Unknown lengthscales: how close draws of an NDP come to those of the exact hierarchical Gaussian process.

An NDP has no lengthscale. Each draw is assigned the lengthscale, of a grid, whose GP makes it most likely. Exact draws go
through the same fit, so that the two histograms differ only where the distributions of the functions do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmarks.drawing import draw
from benchmarks.report import Progress
from ndp.core.typing import Process
from ndp.gp.exact import GP, GPPosterior
from ndp.gp.mixture import GPMixture, GPMixturePosterior
from ndp.gp.named import marginalised_gp, matern32
from ndp.gp.parameters import MARGINAL_NOISE
from ndp.models.evaluation import Number
from ndp.models.metrics import total_variation
from ndp.processes.ndp import NDP
from ndp.processes.posterior import NDPPosterior

TRUE_LENGTHSCALE = 0.3
MOST_CONTEXT = 20
NODES, BINS = 60, 12  # lengthscales of the grid, and bins of histograms, five of them in each
SCORING_NOISE = 0.01  # of scored values: networks are not trained for finer digits


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    observations: tuple[int, ...]
    draws: int
    exact_draws: int
    points: int
    tasks: int
    targets: int


QUICK = Sizes((0, 1, 3, 5, 10, 20), draws=384, exact_draws=10_000, points=50, tasks=64, targets=20)
FULL = Sizes((0, 1, 3, 5, 10, 20), draws=4000, exact_draws=20_000, points=100, tasks=256, targets=50)


@dataclass(frozen=True)
class Lengthscales:
    """Given some observations: draws [S M], their most likely lengthscales [S], and histograms over the same bins [K]."""

    observations: int
    draws: Float[Tensor, "S M"]
    fitted: Float[Tensor, "S"]
    counts: Int[Tensor, "K"]
    exact_counts: Int[Tensor, "K"]
    posterior: Float[Tensor, "K"]  # exact probabilities of the lengthscale itself
    distance: Number  # total variation between counts and exact_counts
    noise: Number  # the same between exact draws and as few exact draws


@dataclass(frozen=True)
class Likelihood:
    """Log-densities of held-out values in nats a point, and what is lost to the exact hierarchical posterior."""

    tasks: int
    exact: Number
    lost: Number
    lost_by_point_estimate: Number
    better_than_point_estimate: Number  # share of functions


def context_of(size: int) -> tuple[Float[Tensor, "1 {size} 1"], Float[Tensor, "1 {size} 1"]]:
    """The first `size` of twenty values of one function of lengthscale 0.3."""
    generator = torch.Generator().manual_seed(3)
    x = 2 * torch.rand(1, 20, 1, generator=generator, dtype=torch.float64) - 1
    kernel = matern32()
    kernel.lengthscale = TRUE_LENGTHSCALE
    y = torch.as_tensor(GP(kernel, noise=MARGINAL_NOISE).sample(x, observation_noise=True, generator=generator))
    return x[:, :size], y[:, :size]


def lengthscales(model: Process, observations: int, sizes: Sizes) -> Lengthscales:
    """Histograms of most likely lengthscales, of the model's draws and of exact ones."""
    generator = torch.Generator().manual_seed(observations)
    exact, nodes = marginalised_gp(NODES)
    context = context_of(observations)
    x = torch.linspace(-1, 1, sizes.points, dtype=torch.float64)[None, :, None]
    draws = draw(model.condition(*context), x, sizes.draws, generator)[:, 0, :, 0]
    posterior = exact.condition(*context)
    exact_draws = draw(posterior, x, sizes.exact_draws, generator, at_once=10**7)[:, 0, :, 0]
    nearest, nearest_exact = (most_likely(exact.gps, x, values) for values in (draws, exact_draws))
    counts, exact_counts = histogram(nearest), histogram(nearest_exact)
    return Lengthscales(
        observations=observations,
        draws=draws,
        fitted=nodes[nearest],
        counts=counts,
        exact_counts=exact_counts,
        posterior=posterior.log_weights[0].exp().unflatten(0, (BINS, -1)).sum(-1),
        distance=Number(
            total_variation(counts, exact_counts).item(),
            resampled_distances(counts, len(draws), exact_counts, generator).std().item(),
        ),
        noise=Number.of(resampled_distances(exact_counts, len(draws), exact_counts, generator)),
    )


def most_likely(gps: Sequence[GP], x: Float[Tensor, "1 M 1"], values: Float[Tensor, "S M"]) -> Int[Tensor, "S"]:
    """Which of the processes makes each function most likely: their retrospective fit."""
    covariances = torch.cat([gp.covariance(x) for gp in gps])
    roots = torch.linalg.cholesky(covariances)
    white = torch.linalg.solve_triangular(roots, values.T.expand(len(roots), -1, -1), upper=False)
    volume = roots.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return (-white.square().sum(1) / 2 - volume[:, None]).argmax(0)


def histogram(nearest: Int[Tensor, "S"]) -> Int[Tensor, "K"]:
    """How many draws have their lengthscale in each bin of the grid."""
    return torch.bincount(nearest * BINS // NODES, minlength=BINS)


def resampled_distances(
    counts: Int[Tensor, "K"], size: int, others: Int[Tensor, "K"], generator: torch.Generator, repeats: int = 200
) -> Float[Tensor, "R"]:
    """Total variation to `others` of `size` new values drawn from the histogram `counts`, many times."""
    picked = torch.multinomial(counts.double(), repeats * size, replacement=True, generator=generator)
    drawn = torch.stack([torch.bincount(some, minlength=len(counts)) for some in picked.unflatten(0, (repeats, size))])
    return total_variation(drawn, others.expand_as(drawn))


def likelihood(
    model: NDP | GPMixture, sizes: Sizes, progress: Progress, *, at_once: int = 16, seed: int = 9
) -> Likelihood:
    """Log-density of held-out values of functions of the prior: the model's, the exact one, and that of a point estimate.

    The point estimate is the lengthscale of the grid that is most likely given the context, prior included. (Without the
    prior a context of one point says nothing, and the estimate is worthless.)
    """
    generator = torch.Generator().manual_seed(seed)
    exact, _ = marginalised_gp(NODES)
    ours, best, point = [], [], []
    for start in range(0, sizes.tasks, at_once):
        progress(f"Log-densities of {start} to {start + at_once} of {sizes.tasks} functions")
        tasks = min(at_once, sizes.tasks - start)
        x = 2 * torch.rand(tasks, MOST_CONTEXT + sizes.targets, 1, generator=generator, dtype=torch.float64) - 1
        y = torch.as_tensor(exact.sample(x, observation_noise=True, generator=generator))
        size = torch.randint(1, MOST_CONTEXT + 1, (tasks, 1), generator=generator)
        mask = torch.arange(MOST_CONTEXT) < size
        context, x, y = (x[:, :MOST_CONTEXT], y[:, :MOST_CONTEXT]), x[:, MOST_CONTEXT:], y[:, MOST_CONTEXT:]
        y = y + SCORING_NOISE * torch.randn(y.shape, generator=generator, dtype=torch.float64)
        posterior = exact.condition(*context, mask=mask)
        best.append(_nats(posterior, x, y))
        ours.append(_nats(model.condition(*context, mask=mask), x, y))
        likeliest = posterior.log_weights.argmax(-1)
        point.append(
            torch.cat(
                [
                    _nats(exact.gps[index].condition(context[0][row], context[1][row], mask=mask[row]), x[row], y[row])
                    for row, index in ((slice(b, b + 1), int(i)) for b, i in enumerate(likeliest))
                ]
            )
        )
    reference, found, estimate = torch.cat(best), torch.cat(ours), torch.cat(point)
    return Likelihood(
        tasks=sizes.tasks,
        exact=Number.of(reference),
        lost=Number.of(reference - found),
        lost_by_point_estimate=Number.of(reference - estimate),
        better_than_point_estimate=Number.of((found > estimate).double()),
    )


def _nats(posterior: NDPPosterior | GPPosterior | GPMixturePosterior, x: Tensor, y: Tensor) -> Float[Tensor, "B"]:
    log_p = torch.as_tensor(posterior.log_prob(x, y, observation_noise=True, noise=SCORING_NOISE))
    return log_p.double().cpu() / x.shape[1]
