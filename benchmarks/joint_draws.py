"""Joint draws of `universal`: dependence by the GP experts against many network calls, exact posteriors and the clock."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.regressors import single_task_gp_draws
from benchmarks.report import Progress, Report, Table
from benchmarks.timing import limited_threads, median_seconds
from benchmarks.universal import hierarchical_prior
from ndp.core.devices import read_device
from ndp.models.evaluation import Number
from ndp.models.metrics import energy_score
from ndp.models.registry import load_ndp
from ndp.priors.tasks import Synthetic
from ndp.priors.universal import Universal
from ndp.processes.ndp import NDP
from ndp.processes.posterior import NDPPosterior
from ndp.sklearn import NDPRegressor

EXPERTS = "experts"
COVARIANCE_BAR, SPREAD_BAR, CLOCK_BAR = 0.05, 0.03, 2.0
ROWS = ((200, 5), (200, 10))  # of the clock: rows and inputs

Draw = Callable[[NDPPosterior, Tensor, int], Tensor]  # a posterior, inputs and the number of draws to draws [S B M]


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    functions: int
    draws: int
    calls: tuple[int, ...]  # of the network a draw, the reference last
    covariance_draws: int


QUICK, FULL = Sizes(12, 128, (9, 20), 1000), Sizes(128, 256, (9, 100), 4000)


def reproduce(model: str, *, quick: bool, device: str, threads: int, progress: Progress) -> Report:
    """Energy scores on held-out functions, covariances on GP data, spread against `predict`, and seconds."""
    sizes, ndp = QUICK if quick else FULL, load_ndp(model, device)
    ways = {EXPERTS: _by_experts} | {f"network, {calls} calls": _by_network(calls) for calls in sizes.calls}
    energy = {dim: energies(ndp, dim, ways, sizes, progress) for dim in (1, 5)}
    spread = {dim: covariances(ndp, dim, ways, sizes, progress) for dim in (1, 5)}
    seconds = [clock(rows, dim, device=device, threads=threads, progress=progress) for rows, dim in ROWS]
    reference = list(ways)[-1]
    no_worse = all(one[EXPERTS].mean < 2 * one[EXPERTS].standard_error for one in energy.values())
    covariance = max(one[EXPERTS].covariance for one in spread.values())
    wider = max(abs(one[EXPERTS].spread - 1) for one in spread.values())
    slowest = max(one.ratio for one in seconds)
    findings = [
        f"Energy score against {reference}: no worse within two standard errors: {_met(no_worse)}.",
        f"Covariance off by {covariance:.1%} (bar: {COVARIANCE_BAR:.0%}): {_met(covariance <= COVARIANCE_BAR)}.",
        f"Standard deviations of draws off by {wider:.1%} from single values "
        f"(bar: {SPREAD_BAR:.0%}): {_met(wider <= SPREAD_BAR)}.",
    ]
    if read_device(device).type == "cpu":
        findings.append(
            f"Draws take {slowest:.1f} times the GP's seconds (bar: {CLOCK_BAR:g}): {_met(slowest <= CLOCK_BAR)}."
        )
    return Report(
        "joint-draws",
        [
            Table(
                f"Energy score less that of {reference}, held-out functions, units of the context (lower is better)",
                ("draws by", "D = 1", "D = 5"),
                [(way, *(str(one[way]) for one in energy.values())) for way in ways],
            ),
            Table(
                "GP data: covariance of draws against the exact posterior, and their spread against single values",
                ("draws by", "covariance, D = 1", "spread", "covariance, D = 5", "spread"),
                [(way, *(text for one in spread.values() for text in one[way].words)) for way in spread[1]],
            ),
            Table(
                f"Seconds for the table and 64 joint draws at 100 rows, {threads} threads",
                ("rows, inputs", "GP", "ndp", "ratio"),
                [one.words for one in seconds],
            ),
        ],
        " ".join(findings),
        {
            "energy": {dim: {way: asdict(number) for way, number in one.items()} for dim, one in energy.items()},
            "gp data": {dim: {way: asdict(one[way]) for way in one} for dim, one in spread.items()},
            "clock": [asdict(one) for one in seconds],
        },
    )


def _by_experts(posterior: NDPPosterior, x: Tensor, count: int) -> Tensor:
    return _drawn(posterior, x, count, dependence=EXPERTS)


def _by_network(calls: int) -> Draw:
    return lambda posterior, x, count: _drawn(posterior, x, count, dependence="network", steps=calls)


def _drawn(posterior: NDPPosterior, x: Tensor, count: int, **how: object) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    drawn = posterior.sample(x, count, observation_noise=True, generator=generator, **how)  # type: ignore[arg-type]
    return torch.as_tensor(drawn)[..., 0].cpu()


def energies(ndp: NDP, dim: int, ways: dict[str, Draw], sizes: Sizes, progress: Progress) -> dict[str, Number]:
    """The energy score of each way less that of the last one, on the same functions, in units of the context."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    for index, (x, y, at, values) in enumerate(_held_out(dim, sizes.functions)):
        progress(f"held-out functions, D = {dim}: {index} of {sizes.functions}")
        posterior = ndp.condition(x, y)
        for way, draw in ways.items():
            score = energy_score(draw(posterior, at, sizes.draws)[..., None], values)
            found[way].append(score.item())
    scores = {way: torch.tensor(each, dtype=torch.float64) for way, each in found.items()}
    reference = scores[list(ways)[-1]]
    return {way: Number.of(one - reference) for way, one in scores.items()}


def _held_out(dim: int, functions: int) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Functions of the universal prior with three observations or more and eight targets or more, each in its own units."""
    source = Universal(dim, most_context=100, targets=20, independent=True)
    batch = source.draw(6 * functions, generator=torch.Generator().manual_seed(2**42 + dim))
    assert batch.of_function is not None
    known, asked = batch.mask[:, :100].sum(1), batch.mask[:, 100:].sum(1)
    for task in ((known >= 3) & (asked >= 8) & ~batch.of_function).nonzero()[:functions, 0].tolist():
        x, y, real = (t[task] for t in (batch.x, batch.y, batch.mask))
        first, last = real[:100], real[100:]
        yield x[:100][first][None], y[:100][first][None], x[100:][last][None], y[100:][last][None]


@dataclass(frozen=True)
class GPData:
    """Draws on GP data: the error of their covariance, and their standard deviation over that of single values."""

    covariance: float
    spread: float

    @property
    def words(self) -> tuple[str, str]:
        return f"{self.covariance:.1%}", f"{self.spread:.3f}"


def covariances(ndp: NDP, dim: int, ways: dict[str, Draw], sizes: Sizes, progress: Progress) -> dict[str, GPData]:
    """Against exact hierarchical posteriors of GPs with unknown lengthscale and noise: the median over functions.

    The error is the Frobenius norm of the difference over that of the exact covariance. Exact draws are a row of their own.
    """
    exact = hierarchical_prior()
    source = Synthetic(exact, dim=dim, targets=16, most_context=64, least_context=32)
    functions = max(4, sizes.functions // 8)
    batch = source.draw(functions, generator=torch.Generator().manual_seed(2**43 + dim))
    x, y, mask = batch.context
    at = batch.targets[0]
    errors: dict[str, list[float]] = {}
    spreads: dict[str, list[float]] = {}
    for task in range(functions):
        progress(f"GP data, D = {dim}: {task} of {functions}")
        real, one = mask[task], slice(task, task + 1)
        given = x[one][:, real], y[one][:, real]
        best = exact.condition(*given)
        many = torch.as_tensor(
            best.sample(at[one], 30_000, observation_noise=True, generator=torch.Generator().manual_seed(1))
        )
        covariance = torch.cov(many[:, 0, :, 0].T)
        posterior = ndp.condition(*given)
        std = torch.as_tensor(posterior.std(at[one], joint=False, observation_noise=True))[0, :, 0].cpu()
        drawn = {way: draw(posterior, at[one], sizes.covariance_draws)[:, 0] for way, draw in ways.items()}
        drawn["exact draws"] = many[: sizes.covariance_draws, 0, :, 0]
        for way, draws in drawn.items():
            found = torch.cov(draws.double().T)
            errors.setdefault(way, []).append(((found - covariance).norm() / covariance.norm()).item())
            spreads.setdefault(way, []).append((found.diagonal().sqrt() / std).mean().item())
    return {way: GPData(statistics.median(errors[way]), statistics.median(spreads[way])) for way in errors}


@dataclass(frozen=True)
class Clock:
    """Seconds for a table: fitting a GP and 64 of its joint draws at 100 rows, and the same of the regressor."""

    rows: int
    dim: int
    gp: float
    draws: float

    @property
    def ratio(self) -> float:
        return self.draws / self.gp

    @property
    def words(self) -> tuple[str, ...]:
        return f"{self.rows}, {self.dim}", f"{self.gp:.2f}", f"{self.draws:.2f}", f"{self.ratio:.1f}"


def clock(rows: int, dim: int, *, device: str, threads: int, progress: Progress) -> Clock:
    """Both on the same table, in one run."""
    progress(f"clock: {rows} rows of {dim} inputs")
    rng = np.random.default_rng(0)
    x, x_new = rng.normal(size=(rows, dim)), rng.normal(size=(100, dim))
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=rows)
    regressor = NDPRegressor(device=device)
    with limited_threads(threads):
        return Clock(
            rows,
            dim,
            gp=median_seconds(lambda: single_task_gp_draws(x, y, x_new, 64), 3),
            draws=median_seconds(lambda: regressor.fit(x, y).sample_y(x_new, 64), 3),
        )


def _met(held: bool) -> str:
    return "met" if held else "NOT met"
