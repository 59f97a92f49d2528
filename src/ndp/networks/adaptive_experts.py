"""GP experts that adapt to the table: a grid of isotropic kernels, and kernels whose hyperparameters climbed the evidence.

Every input of an adapted expert has a lengthscale of its own, and its noise goes down to 1e-5 of the function's spread. Each
mode is widened to its Laplace approximation. Points of it are the experts, with weights p(y | theta) p(theta) / q(theta): the
volume of a mode counts, not its height alone. Grid and adapted experts are one mixture, of which the likeliest are kept.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ndp.diffusion.levels import CLEAN, alpha, ratio
from ndp.gp.climbing import Ascent, antithetic_normals, climb, laplace_draws, pick
from ndp.gp.copula import GaussianMixtureCopula
from ndp.gp.evidence import (
    FAMILIES,
    LEAST_NOISE,
    MEAN,
    RATE,
    SHAPE,
    HyperPrior,
    Observations,
    Slope,
    at_once,
    cross_kernels,
    factorise_each,
    log_evidence,
    log_student,
    slope,
)
from ndp.networks.experts import (
    LEAST_WEIGHT,
    LENGTHSCALES,
    MOST_IN_COPULA,
    NOISES,
    ExpertPosterior,
    ExpertPredictions,
    on_device,
)

ADAPTIVE = "adaptive"  # the setting of a network with these experts
PRIOR = HyperPrior()
GRID_WEIGHT = 0.5  # the prior probability of the grid
STARTS = ((0.7, 0.0025), (2.5, 0.0025), (0.7, 0.08), (2.5, 0.08))  # lengthscales, times the root of D, and noises
MODES, WIDEN = 1, 1.1  # of each family; times as wide as the Laplace approximation


@dataclass(frozen=True)
class Effort:
    """How thoroughly experts are looked for."""

    first_rows: int | None  # on which all starts climb, and which decide about the grid; None: all rows
    first_steps: int  # of all starts
    steps: int  # then, of the best ones of each family
    grid: int  # experts of the grid, of each family
    points: int  # of each mode
    kept: int  # experts


# Many rows say more about the hyperparameters: fewer experts do, and the starts climb on some of the rows. On 21 functions of
# 200 to 256 rows that halves the time and changes the log-density by 0.004 +- 0.004 nats.
FEW_ROWS = Effort(None, 4, 8, len(LENGTHSCALES) * len(NOISES), 24, 32)
MANY_ROWS = Effort(96, 6, 4, 8, 12, 16)
MANY = 128  # rows
LOG_PRIOR = 2  # the place of the log-density in what `_chosen` gives
LEAST_VARIANCE = 1e-8  # of a value in a copula, relative to the function's: its covariance must have a root
FARTHEST = 0.5  # of the cube root of an amplitude's inverse, relative to its mean: for no observations at all


@dataclass(frozen=True)
class AdaptiveExperts:
    """The likeliest K experts given a context, in units of that context, with their Cholesky factors."""

    known: Observations
    theta: Float[Tensor, "B K P"]
    family: Int[Tensor, "B K"]
    root: Float[Tensor, "B K C C"]
    white: Float[Tensor, "B K C 1"]
    amplitude: Float[Tensor, "B K"]  # the function's variance
    log_weight: Float[Tensor, "B K"]
    fit: Float[Tensor, "B 1"]  # log-evidence above that of white noise, an observation

    @staticmethod
    def given(
        x: Float[Tensor, "B C D"], y_t: Float[Tensor, "B C"], level: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"]
    ) -> "AdaptiveExperts":
        """The experts given values `y_t` at `x`, each at a noise level of its own; in float64.

        Gradients reach the context with the hyperparameters of the experts held fixed.
        """
        x, y_t, level = (t.double() for t in (x, y_t, level))
        variance = (ratio(level).square() - math.exp(-CLEAN)).clamp(min=0)
        y = (y_t / alpha(level)).masked_fill(~mask, 0.0)
        known = Observations(x.masked_fill(~mask[..., None], 0.0), y, variance, mask)
        with torch.no_grad():
            chosen = [_chosen(piece) for piece in known.split(at_once(known, len(FAMILIES) * len(STARTS)))]
            theta, family, log_prior, normal, total = (torch.cat(parts) for parts in zip(*chosen, strict=True))
        factors = factorise_each(known, theta, family)
        count = mask.sum(1, keepdim=True)
        nothing = log_student(y.square().sum(1, keepdim=True), count)
        return AdaptiveExperts(
            known=known,
            theta=theta,
            family=family,
            root=factors.root,
            white=factors.white,
            amplitude=_amplitude(normal, count, factors.size),
            log_weight=torch.log_softmax(factors.log_evidence + log_prior, dim=1),
            fit=(total - nothing) / (count + 1),
        )

    def kept(self) -> "AdaptiveExperts":
        """The experts themselves: their Cholesky factors are always kept."""
        return self

    def predict(self, x_target: Float[Tensor, "B M D"], of_function: Bool[Tensor, "#B"]) -> ExpertPredictions:
        """The experts' predictions at `x_target`: of the function where `of_function`, else of new observations."""
        cross = cross_kernels(self.known.x, x_target.double(), self.theta, self.family)
        cross = cross * self.known.mask[:, None, :, None]
        weights = torch.linalg.solve_triangular(self.root, cross, upper=False)
        left = (1 + MEAN - weights.square().sum(-2)).clamp(min=LEAST_NOISE)
        noise = torch.exp(2 * self.theta[..., -1:]) + LEAST_NOISE
        variance = (left + torch.where(of_function[:, None, None], 0.0, noise)) * self.amplitude[..., None]
        mean = (self.white.mT @ weights).squeeze(-2)
        count = self.known.mask.sum(1, keepdim=True)
        return ExpertPredictions.of(self.log_weight, mean, variance, self.fit, count, self.known.x.shape[-1])

    def copula(self, x_target: Float[Tensor, "B M D"], *, of_function: bool) -> GaussianMixtureCopula:
        """How values at `x_target` depend on each other under the experts that count."""
        x_target = x_target.double()
        counts = self.log_weight > math.log(LEAST_WEIGHT)
        most = max(1, MOST_IN_COPULA // max(x_target.shape[1], self.known.x.shape[1]) ** 2)
        log_weight = self.log_weight.masked_fill(~counts, -math.inf)
        log_weight, best = log_weight.topk(min(most, int(counts.sum(1).max())), dim=1)
        theta, family, root, white, amplitude = (
            pick(part, best, dim=1) for part in (self.theta, self.family, self.root, self.white, self.amplitude)
        )
        cross = cross_kernels(self.known.x, x_target, theta, family) * self.known.mask[:, None, :, None]
        weights = torch.linalg.solve_triangular(root, cross, upper=False)
        noise = LEAST_VARIANCE if of_function else torch.exp(2 * theta[..., -1:])[..., None] + LEAST_VARIANCE
        covariance = cross_kernels(x_target, x_target, theta, family) - weights.mT @ weights
        covariance = covariance + noise * torch.eye(x_target.shape[1]).to(x_target)
        return GaussianMixtureCopula(
            torch.log_softmax(log_weight, dim=1),
            (white.mT @ weights).squeeze(-2),
            covariance * amplitude[..., None, None],
        )


def _chosen(known: Observations) -> tuple[Tensor, ...]:
    """The likeliest of the grid and of the points around the modes, and the log-evidence [B 1] of all of them together.

    They are theta [B K P], the family [B K], the log-density of the prior over that of the draws [B K], and where in the
    posterior of its amplitude each expert is, as a standard normal number [B K].
    """
    if known.x.shape[1] <= MANY:
        return _chosen_with(FEW_ROWS, known)
    many = known.mask.sum(1) > MANY
    if bool(many.all()):
        return _chosen_with(MANY_ROWS, known)
    if not bool(many.any()):
        return _chosen_with(FEW_ROWS, known)
    each = [_chosen(one) for one in known.split(1)]
    most = max(parts[0].shape[1] for parts in each)
    return tuple(
        torch.cat([_filled(part, most, index) for part in parts]) for index, parts in enumerate(zip(*each, strict=True))
    )


def _chosen_with(effort: Effort, known: Observations) -> tuple[Tensor, ...]:
    some = known if effort.first_rows is None else _by_value(known, effort.first_rows)
    grid = _isotropic(known, tuple(product(LENGTHSCALES, NOISES)))
    tasks, families, places = grid.shape[:3]
    of_grid = math.log(GRID_WEIGHT / (families * places))
    normal = antithetic_normals(places, 1, like=grid)[:, 0].expand(tasks, families, -1)
    if effort.grid < places:
        likely = log_evidence(some, grid).topk(effort.grid, dim=2).indices
        grid, normal = pick(grid, likely, dim=2), pick(normal, likely, dim=2)
    draws = laplace_draws(_modes(known, some, effort), effort.points, WIDEN)
    points = draws.theta.shape[2]
    of_draws = PRIOR.log_prob(draws.theta) - draws.log_density + math.log((1 - GRID_WEIGHT) / (families * points))
    log_prior = torch.cat([torch.full_like(normal, of_grid), of_draws], dim=2).flatten(1)
    theta = torch.cat([grid, draws.theta], dim=2)
    log_weight = log_evidence(known, theta).flatten(1) + log_prior
    family = torch.arange(families, device=grid.device)[:, None].expand(tasks, -1, theta.shape[2]).flatten(1)
    of_amplitude = draws.amplitude.repeat(points // effort.points).expand(tasks, families, -1)
    normal = torch.cat([normal, of_amplitude], dim=2).flatten(1)
    best = log_weight.topk(min(effort.kept, log_weight.shape[1]), dim=1).indices
    kept = [pick(part, best, dim=1) for part in (theta.flatten(1, 2), family, log_prior, normal)]
    return *kept, log_weight.logsumexp(1, keepdim=True)


def _modes(known: Observations, some: Observations, effort: Effort) -> Ascent:
    """The best modes of each family of kernels: all starts climb on some rows, and the best of them on all rows."""

    def density(observations: Observations, theta: Float[Tensor, "B F S P"]) -> Slope:
        return slope(observations, PRIOR, theta)

    start = _isotropic(known, STARTS)
    first = climb(partial(density, some), Ascent.at(start, density(some, start)), effort.first_steps).best(MODES)
    again = first if some is known else Ascent.at(first.theta, density(known, first.theta))
    return climb(partial(density, known), again, effort.steps)


def _by_value(known: Observations, rows: int) -> Observations:
    """So many rows, at equal distances in the order of their values: their order in the table changes nothing."""
    order = known.y.masked_fill(~known.mask, math.inf).argsort(dim=1, stable=True)
    place = torch.arange(rows, device=order.device) + 0.5
    chosen = order.gather(1, (place * known.mask.sum(1, keepdim=True) / rows).long())
    return Observations(*(pick(part, chosen, dim=1) for part in vars(known).values()))


def _filled(part: Tensor, size: int, index: int) -> Tensor:
    """As many experts as the others have; those that fill up have no weight."""
    missing = size - part.shape[1]
    if missing <= 0 or part.shape[1] == 1:
        return part
    last = part[:, -1:].expand(-1, missing, *part.shape[2:])
    return torch.cat([part, torch.full_like(last, -math.inf) if index == LOG_PRIOR else last], dim=1)


def _isotropic(known: Observations, places: Sequence[tuple[float, float]]) -> Float[Tensor, "B F G P"]:
    """Theta with these lengthscales, times the root of D, and these noises, for every task and family."""
    tasks, _, dim = known.x.shape
    lengthscales, noises = (on_device(values, known.x).log() for values in zip(*places, strict=True))
    lengthscales = (lengthscales + 0.5 * math.log(dim))[:, None].expand(-1, dim)
    return torch.cat([lengthscales, noises[:, None]], dim=1).expand(tasks, len(FAMILIES), -1, -1)


def _amplitude(normal: Float[Tensor, "B K"], count: Tensor, size: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
    """The function's variance at this place of its posterior, by Wilson and Hilferty's quantile of a gamma distribution."""
    shape = SHAPE + count / 2
    inverse = (1 - 1 / (9 * shape) + normal / (3 * shape.sqrt())).clamp(min=FARTHEST) ** 3
    return (RATE + size / 2) / (shape * inverse)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def experts_given(
    x: Float[Tensor, "B C D"],
    y_t: Float[Tensor, "B C"],
    level: Float[Tensor, "B C"],
    mask: Bool[Tensor, "B C"] | None,
    *,
    adaptive: bool,
) -> ExpertPosterior | AdaptiveExperts:
    """The experts of a network given a context: the fixed grid, or those that adapt."""
    seen = torch.ones_like(level, dtype=torch.bool) if mask is None else mask
    kind = AdaptiveExperts if adaptive else ExpertPosterior
    return kind.given(x, y_t, level, seen)


def experts_at_targets(
    x: Float[Tensor, "B N D"],
    y_t: Float[Tensor, "B N"],
    level: Float[Tensor, "B N"],
    mask: Bool[Tensor, "B N"] | None,
    num_context: int,
    of_function: Bool[Tensor, "B"] | None,
    *,
    adaptive: bool,
) -> ExpertPredictions:
    """What the experts predict at the targets, given the first `num_context` points."""
    known = slice(num_context)
    if of_function is None:
        of_function = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    seen = None if mask is None else mask[:, known]
    given = experts_given(x[:, known], y_t[:, known], level[:, known], seen, adaptive=adaptive)
    return given.predict(x[:, num_context:], of_function)
