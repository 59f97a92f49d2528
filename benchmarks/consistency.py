"""Whether a process is consistent: marginals that do not depend on other targets, and conditionals that obey Bayes' rule.

A Gaussian process is consistent, so its row shows sampling noise alone, and what another row has beyond it is not noise. The
paper does not say how many draws it took. Its row of the Gaussian process agrees with about 50 draws of a value of standard
deviation 0.2. Values here have about that standard deviation, too, after five observations in [-1, 1].
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.drawing import draw
from ndp.core.typing import Posterior, Process
from ndp.gp.exact import GP
from ndp.models.evaluation import Number
from ndp.models.metrics import noise_of_means, spread_of_means

STATISTICS = ("mean", "variance", "median", "q90 - q10", "q75 - q25")
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
CONFIGURATIONS, REPEATS, OBSERVATIONS = 5, 20, 5
REACH = 1.0  # inputs lie in [-1, 1], as in the paper
NEAR = 0.3  # how far apart, at most, the two values of Bayes' rule lie


@dataclass(frozen=True)
class Sizes:
    """How much to measure: contexts, draws a repeat, other inputs beside x = 0, and pairs of values for Bayes' rule."""

    contexts: int
    draws: int
    others: int
    pairs: int
    exact_rounds: int  # how often the exact process is measured: it is cheap, and others are compared with its noise


QUICK = Sizes(contexts=4, draws=25, others=15, pairs=256, exact_rounds=20)
FULL = Sizes(contexts=16, draws=50, others=49, pairs=4096, exact_rounds=20)


@dataclass(frozen=True)
class Spread:
    """The paper's table: how much each statistic at x = 0 varies with the other inputs, root mean square over contexts.

    `beyond` is the same less the process's own sampling noise, and so does not depend on the number of draws.
    """

    process: str
    spreads: dict[str, Number]
    beyond: dict[str, Number]


@dataclass(frozen=True)
class BayesGap:
    """log p(y1, y2 | D) - log p(y1 | D) - log p(y2 | D, y1) in nats, over pairs of values."""

    process: str
    pairs: int
    mean: Number
    size: Number  # mean absolute gap
    joint_error: Number  # mean absolute error of log p(y1, y2 | D) itself
    gaps: Float[Tensor, "B"]


def statistics_at_zero(
    process: Process, exact: GP, sizes: Sizes, generator: torch.Generator
) -> Float[Tensor, "Q T K R"]:
    """Statistics of draws at x = 0: for T contexts, K configurations of the other inputs, R repeats."""
    x_context, y_context = contexts(exact, sizes.contexts)
    shape = sizes.contexts, CONFIGURATIONS
    places = torch.Generator().manual_seed(1)
    others = REACH * (2 * torch.rand(*shape, sizes.others, 1, generator=places, dtype=torch.float64) - 1)
    x = torch.cat([torch.zeros(*shape, 1, 1, dtype=torch.float64), others], dim=2).flatten(0, 1)
    posterior = process.condition(
        x_context.repeat_interleave(CONFIGURATIONS, 0), y_context.repeat_interleave(CONFIGURATIONS, 0)
    )
    values = draw(posterior, x, REPEATS * sizes.draws, generator)[..., 0, 0]
    values = values.unflatten(0, (REPEATS, sizes.draws)).unflatten(2, shape)
    levels = torch.tensor(QUANTILES, dtype=torch.float64)
    low, lower, median, upper, high = torch.quantile(values, levels, dim=1)
    found = torch.stack([values.mean(1), values.var(1), median, high - low, upper - lower])
    return found.permute(0, 2, 3, 1)


def contexts(exact: GP, count: int) -> tuple[Float[Tensor, "{count} C 1"], Float[Tensor, "{count} C 1"]]:
    """Five values each of random functions."""
    generator = torch.Generator().manual_seed(0)
    x = REACH * (2 * torch.rand(count, OBSERVATIONS, 1, generator=generator, dtype=torch.float64) - 1)
    return x, torch.as_tensor(exact.sample(x, observation_noise=True, generator=generator))


def exact_statistics(exact: GP, sizes: Sizes) -> Float[Tensor, "Q"]:
    """What the statistics at x = 0 are without sampling, given the first context."""
    posterior = exact.condition(*contexts(exact, sizes.contexts))
    zero = torch.zeros(1, 1, 1)
    (means, stds), quantiles = posterior.summary(zero, QUANTILES, observation_noise=True)
    mean, std = (torch.as_tensor(part)[0].item() for part in (means, stds))
    low, lower, _, upper, high = torch.as_tensor(quantiles)[:, 0].flatten().tolist()
    return torch.tensor([mean, std**2, mean, high - low, upper - lower], dtype=torch.float64)


def spread(name: str, statistics: list[Float[Tensor, "Q T K R"]]) -> Spread:
    """Over contexts and rounds. Of n groups of five means a variance is known to a share of 1 / sqrt(2 n)."""
    found = torch.cat(statistics, dim=1)
    share = (2 / ((CONFIGURATIONS - 1) * found.shape[1])) ** 0.5
    squares = spread_of_means(found).square().mean(1)
    excess = squares - noise_of_means(found).square().mean(1)
    return Spread(name, _roots(squares, share * squares), _roots(excess, share * squares))


def _roots(squares: Float[Tensor, "Q"], errors: Float[Tensor, "Q"]) -> dict[str, Number]:
    """Roots of numbers with standard errors. A number below its error may be zero: the error of its root is larger."""
    roots = squares.clamp(min=0).sqrt()
    uncertain = errors / (2 * torch.maximum(roots, errors.sqrt()))
    return {s: Number(v, e) for s, v, e in zip(STATISTICS, roots.tolist(), uncertain.tolist(), strict=True)}


def ratio(ours: Number, exact: Number) -> Number:
    """How many times the sampling noise, with its standard error."""
    value = ours.mean / exact.mean
    relative = (ours.standard_error / ours.mean) ** 2 + (exact.standard_error / exact.mean) ** 2
    return Number(value, value * relative**0.5)


def bayes_gap(name: str, process: Process, exact: GP, pairs: int, *, at_once: int = 256) -> BayesGap:
    """Two values near each other, in one step and in two, given 1 to 10 values of the same function."""
    generator = torch.Generator().manual_seed(2)
    most = 10
    x = 4 * torch.rand(pairs, most + 2, 1, generator=generator, dtype=torch.float64) - 2
    x[:, -1] = x[:, -2] + NEAR * (2 * torch.rand(pairs, 1, generator=generator, dtype=torch.float64) - 1)
    y = torch.as_tensor(exact.sample(x, observation_noise=True, generator=generator))
    mask = torch.arange(most + 2) < torch.randint(1, most + 1, (pairs, 1), generator=generator)
    gaps, errors = [], []
    for rows in torch.arange(pairs).split(at_once):
        places, values, real = x[rows], y[rows], mask[rows]
        both, first, second = _in_two_steps(process, places, values, real)
        gaps.append(both - first - second)
        errors.append(both - _in_two_steps(exact, places, values, real)[0])
    gap, error = torch.cat(gaps), torch.cat(errors)
    return BayesGap(name, pairs, Number.of(gap), Number.of(gap.abs()), Number.of(error.abs()), gap)


def _in_two_steps(process: Process, x: Tensor, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log p(y1, y2 | D), log p(y1 | D) and log p(y2 | D, y1); the last two points are y1 and y2."""
    one_more = mask[:, :-1].clone()
    one_more[:, -1] = True
    before = process.condition(x[:, :-2], y[:, :-2], mask=mask[:, :-2])
    after = process.condition(x[:, :-1], y[:, :-1], mask=one_more)
    return (
        _nats(before, x[:, -2:], y[:, -2:]),
        _nats(before, x[:, -2:-1], y[:, -2:-1]),
        _nats(after, x[:, -1:], y[:, -1:]),
    )


def _nats(posterior: Posterior, x: Tensor, y: Tensor) -> Float[Tensor, "B"]:
    return torch.as_tensor(posterior.log_prob(x, y, observation_noise=True)).double().cpu()
