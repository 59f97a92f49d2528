"""Steps at an unknown place: drawn functions, jump positions and the bimodal marginal against the exact posterior.

Given values on either side, the place of the jump is uniform between the last 0 and the first 1. All statistics are computed
for draws of that exact posterior too: its row shows sampling noise alone.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float
from scipy.stats import kstwobign
from torch import Tensor

from benchmarks.drawing import Sampler, draw, draw_one_value, generator_on
from benchmarks.report import Progress
from ndp.core.typing import Array
from ndp.models.evaluation import Number
from ndp.models.metrics import distance_from_uniform
from ndp.models.registry import load_ndp
from ndp.priors.step import Step
from ndp.priors.tasks import Synthetic
from ndp.processes.ndp import NDP
from ndp.processes.posterior import NDPPosterior
from ndp.processes.repaint import RePaintPosterior

WITHIN = 0.02  # how far P(y = 1 | x = 0) may be off
CLOSE = 0.05  # a value this near 0 or 1 counts as one
MOST_CONTEXT = 10
EXACT = "exact posterior"


@dataclass(frozen=True)
class Sizes:
    """How much to measure: draws of functions, points of a function, contexts for P(y = 1 | x = 0), and RePaint's share.

    The value at x = 0 is drawn as the only target, and jointly with `other_targets` at random inputs, as in training.
    """

    draws: int
    points: int
    observations: tuple[int, ...]
    contexts: int
    draws_at_zero: int
    draws_with_others: int
    other_targets: int
    repaint_draws: int
    repaint_levels: int
    repaint_repeats: int = 5


QUICK = Sizes(256, 60, (0, 2, 5), 100, 128, 64, 20, repaint_draws=24, repaint_levels=25)
FULL = Sizes(2000, 100, (0, 1, 2, 5, 10), 100, 1000, 4000, 79, repaint_draws=100, repaint_levels=500)


@dataclass(frozen=True)
class Method:
    """A way to draw conditional functions."""

    name: str
    condition: Callable[..., Sampler]
    draws: int
    draws_at_zero: int
    draws_with_others: int = 0  # 0: only as the one target


@dataclass(frozen=True)
class FunctionScore:
    """Draws given one context: how many are clean steps, and how far their jumps are from a uniform distribution."""

    method: str
    observations: int
    bracket: tuple[float, float]
    draws: int
    clean: Number
    distance: Number  # Kolmogorov-Smirnov


@dataclass(frozen=True)
class MarginalScore:
    """Errors of P(y = 1 | x = 0) over random contexts."""

    method: str
    contexts: int
    other_targets: int  # drawn jointly with the value at x = 0
    draws: int
    within: Number  # share of contexts off by at most 0.02
    largest: float
    error: Number  # absolute, mean over contexts
    noise: float  # the error that sampling alone would give


@dataclass(frozen=True)
class Outcome:
    """Everything that `python -m benchmarks step` measures."""

    functions: list[FunctionScore]
    marginals: list[MarginalScore]

    def as_dict(self) -> dict[str, list[dict[str, object]]]:
        return {name: [asdict(score) for score in getattr(self, name)] for name in ("functions", "marginals")}


@dataclass(frozen=True)
class RePainted:
    """A RePaint posterior with its number of levels and repeats fixed."""

    posterior: RePaintPosterior
    levels: int
    repeats: int
    device: torch.device

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        return self.posterior.sample(
            x,
            num_samples,
            observation_noise=observation_noise,
            steps=self.levels,
            repeats=self.repeats,
            generator=generator_on(self.device, generator),
        )


def methods(model: str, paper: str, device: str, sizes: Sizes) -> list[Method]:
    """The exact posterior, the model, and RePaint with the network `paper` (none: the same network)."""
    network = load_ndp(model, device)
    paper_network = load_ndp(paper, device) if paper else network
    found = [
        Method(EXACT, Step().condition, sizes.draws, 100_000),
        Method(model, network.condition, sizes.draws, sizes.draws_at_zero, sizes.draws_with_others),
    ]
    if sizes.repaint_draws:
        repainted = partial(_repaint, paper_network, sizes.repaint_levels, sizes.repaint_repeats)
        name = f"{paper or model}, RePaint T = {sizes.repaint_levels}, U = {sizes.repaint_repeats}"
        found.append(Method(name, repainted, sizes.repaint_draws, sizes.repaint_draws))
    return found


def _repaint(network: NDP, levels: int, repeats: int, x: Tensor, y: Tensor, *, mask: Tensor | None = None) -> RePainted:
    return RePainted(network.repaint(x, y, mask=mask), levels, repeats, network.device)


def measure(found: list[Method], sizes: Sizes, progress: Progress) -> Outcome:
    """Every method on the same contexts."""
    functions, marginals = [], []
    for method in found:
        for observations in sizes.observations:
            progress(f"{method.name}: functions after {observations} observations")
            functions.append(score_functions(method, observations, sizes.points))
        progress(f"{method.name}: P(y = 1 | x = 0) in {sizes.contexts} contexts")
        marginals.append(score_marginal(method, sizes.contexts))
        if method.draws_with_others:
            progress(f"{method.name}: the same with {sizes.other_targets} other targets")
            marginals.append(score_marginal(method, sizes.contexts, other_targets=sizes.other_targets))
    return Outcome(functions, marginals)


def score_functions(method: Method, observations: int, points: int, seed: int = 0) -> FunctionScore:
    """Draws on a grid over [-1, 1], given `observations` values of one step."""
    generator = torch.Generator().manual_seed(1000 * seed + observations)
    x_context = 2 * torch.rand(1, observations, 1, generator=generator, dtype=torch.float64) - 1
    y_context = (x_context > 0.1).double()
    low, high = (end.item() for end in Step().condition(x_context, y_context).bracket)
    x = torch.linspace(-1, 1, points, dtype=torch.float64)
    draws = draw(method.condition(x_context, y_context), x[None, :, None], method.draws, generator)[:, 0, :, 0]
    jumps = jump_positions(draws, x, (low, high), generator)
    return FunctionScore(
        method=method.name,
        observations=observations,
        bracket=(low, high),
        draws=method.draws,
        clean=Number.of(is_one_step(draws).double()),
        # Draws of the exact posterior are at the mean of Kolmogorov's distribution, 0.87 over the root of their number.
        distance=Number(distance_from_uniform(jumps, low, high), float(kstwobign.std()) / method.draws**0.5),
    )


def is_one_step(draws: Float[Tensor, "S M"]) -> Bool[Tensor, "S"]:
    """Whether a draw has exactly one jump, from 0 to 1, and no value further than 0.05 from either."""
    high = draws > 0.5
    near = ((draws - high.double()).abs() <= CLOSE).all(1)
    return near & (high.int().diff(dim=1) >= 0).all(1) & ~high[:, 0] & high[:, -1]


def jump_positions(
    draws: Float[Tensor, "S M"], x: Float[Tensor, "M"], bracket: tuple[float, float], generator: torch.Generator
) -> Float[Tensor, "S"]:
    """Where draws jump. A grid gives only the gap between two points; in the gap the place is uniform, as in the posterior."""
    edges = torch.cat([x[:1], x, x[-1:]])
    gap = (draws <= 0.5).sum(1)
    low, high = edges[gap], edges[gap + 1]
    inside = (torch.clamp(low, min=bracket[0]), torch.clamp(high, max=bracket[1]))
    possible = inside[0] < inside[1]  # else the draw contradicts its context, and stays where it is
    low, high = torch.where(possible, inside[0], low), torch.where(possible, inside[1], high)
    return low + (high - low) * torch.rand(len(draws), generator=generator, dtype=draws.dtype)


def score_marginal(method: Method, contexts: int, *, other_targets: int = 0, seed: int = 1) -> MarginalScore:
    """P(y = 1 | x = 0) against the exact one, given 1 to 10 values of random steps, jointly with `other_targets`."""
    generator = torch.Generator().manual_seed(seed)
    source = Synthetic(Step(), low=-1.0, high=1.0, targets=1, most_context=MOST_CONTEXT, least_context=1)
    batch = source.draw(contexts, generator=generator)
    x, y, mask = (part[:, :MOST_CONTEXT] for part in (batch.x, batch.y, batch.mask))
    zero = torch.zeros(contexts, 1, 1, dtype=torch.float64)
    exact = Step().condition(x, y, mask=mask).probability_of_one(zero)[:, 0, 0]
    posterior = method.condition(x, y, mask=mask)
    if other_targets:
        draws = method.draws_with_others
        others = 2 * torch.rand(contexts, other_targets, 1, generator=generator, dtype=torch.float64) - 1
        values = draw(posterior, torch.cat([zero, others], dim=1), draws, generator)[..., 0, 0]
    else:
        draws = method.draws_at_zero
        values = draw_one_value(posterior, zero, draws, generator)
    error = ((values > 0.5).double().mean(0) - exact).abs()
    evenly_spread = not other_targets and isinstance(posterior, NDPPosterior)
    # A share of n draws has the mean absolute deviation sqrt(2 / pi) of its standard error, nearly.
    noise = 0.0 if evenly_spread else (2 / math.pi * exact * (1 - exact) / draws).sqrt().mean().item()
    return MarginalScore(
        method=method.name,
        contexts=contexts,
        other_targets=other_targets,
        draws=draws,
        within=Number.of((error <= WITHIN).double()),
        largest=error.max().item(),
        error=Number.of(error),
        noise=noise,
    )
