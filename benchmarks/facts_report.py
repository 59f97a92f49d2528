"""The tables and the verdicts of `python -m benchmarks facts`."""

from dataclasses import asdict, dataclass

from benchmarks.facts_calibration import Calibration, Speed, calibrations, speeds
from benchmarks.facts_exact import (
    GAUSSIAN,
    Distances,
    Evidence,
    Moments,
    distances,
    evidences,
    intervals,
    models,
    moments,
    monotone,
)
from benchmarks.facts_tables import HeldOut, held_out
from benchmarks.report import Progress, Report, Table
from ndp.models.registry import load_ndp

UNIFORM_BAR, DISTANCE_BAR, CALLS_BAR, SECONDS_BAR, PAGE_BAR = 0.01, 0.03, 50, 10.0, 2.0


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    particles: int
    reference: int  # draws of truncated normals
    repetitions: int  # of evidences
    evidence_particles: tuple[int, ...]
    chains: int  # of elliptical slice sampling, of 25 kept steps each
    calibrations: int
    splits: int
    intervals: tuple[int, ...]
    monotone: tuple[int, ...]


QUICK = Sizes(4096, 50_000, 12, (128, 512), 800, 20, 6, (1, 5, 10), (5, 10))
FULL = Sizes(4096, 200_000, 50, (128, 256, 512, 1024), 4000, 200, 40, (1, 2, 3, 5, 10), (5, 10, 15, 20))


def reproduce(model: str, *, quick: bool, device: str, progress: Progress) -> Report:
    """Facts beside what is exact, calibration, seconds and real tables."""
    sizes = QUICK if quick else FULL
    exact, oracle = models()
    problems = [GAUSSIAN, *map(intervals, sizes.intervals), *map(monotone, sizes.monotone)]
    found = []
    for one in (exact, oracle):
        for problem in problems:
            progress(f"{one.name}: {problem if isinstance(problem, str) else problem.name}")
            found.append(moments(one, problem, sizes.particles, sizes.reference))
    ratios = [
        each
        for one in (exact, oracle)
        for each in evidences(one, sizes.repetitions, sizes.evidence_particles, sizes.reference, progress)
    ]
    progress("classes and counts")
    away = [each for one in (exact, oracle) for each in distances(one, 4 * sizes.particles, sizes.chains)]
    universal = load_ndp(model, device)
    trained = {model: universal, "se": load_ndp("se", device), "matern52": load_ndp("matern52", device)}
    ranks = calibrations(trained, sizes.calibrations, progress)
    clock = speeds({model: universal}, (64, 256), 100, progress) + speeds(
        {"se": trained["se"]}, (64,) if quick else (64, 256), 100, progress
    )
    gains = held_out(universal, sizes.splits, progress)
    return Report(
        "facts",
        [
            _moments(found),
            _evidences(ratios, sizes),
            _distances(away),
            _calibrations(ranks),
            _speeds(clock),
            _held_out(gains),
        ],
        " ".join(verdicts(found, ratios, away, ranks, clock, gains)),
        {
            "moments": [asdict(each) for each in found],
            "evidences": [asdict(each) | {"slope": each.slope} for each in ratios],
            "distances": [asdict(each) for each in away],
            "calibrations": [asdict(each) for each in ranks],
            "speeds": [asdict(each) for each in clock],
            "held out": [asdict(each) for each in gains],
        },
    )


def verdicts(
    found: list[Moments],
    ratios: list[Evidence],
    away: list[Distances],
    ranks: list[Calibration],
    clock: list[Speed],
    gains: list[HeldOut],
) -> list[str]:
    """Each target value and whether it is met."""
    worst = max(found, key=lambda one: one.in_errors)
    biased = max(ratios, key=lambda one: abs(one.ratio - 1) / one.error)
    slopes = [one.slope for one in ratios]
    far = max(one.distance for one in away)
    least = min(p for one in ranks for p in one.p_values)
    ours, page = clock[1], clock[0]
    helped = [one for one in gains if one.gain.mean < 0]
    return [
        f"Moments are off by {worst.in_errors:.1f} standard errors at worst ({worst.model}, {worst.problem}) and by "
        f"{max(one.in_stds for one in found):.1%} of a standard deviation (bars: 3 and 5 %): "
        f"{_met(all(one.met for one in found))}.",
        f"Evidences are off by {abs(biased.ratio - 1) / biased.error:.1f} standard errors at worst (bar: 2): "
        f"{_met(abs(biased.ratio - 1) <= 2 * biased.error)}; their error falls with a slope of {min(slopes):.2f} to "
        f"{max(slopes):.2f} (bar: -0.5 ± 0.1): {_met(all(abs(one + 0.5) <= 0.1 for one in slopes))}.",
        f"Largest Kolmogorov-Smirnov distance {far:.3f} (bar: {DISTANCE_BAR}): {_met(far <= DISTANCE_BAR)}.",
        f"Smallest p-value of ranks {least:.3f} (bar: {UNIFORM_BAR}): {_met(least > UNIFORM_BAR)}.",
        f"{ours.model}: {ours.calls} calls and {ours.seconds:.1f} s for 256 particles at 100 points, {page.seconds:.1f} s "
        f"for 64 (bars: {CALLS_BAR}, {SECONDS_BAR:g} and {PAGE_BAR:g}): "
        f"{_met(ours.calls <= CALLS_BAR and ours.seconds <= SECONDS_BAR and page.seconds <= PAGE_BAR)}.",
        f"Facts lower the negative log-density of held-out rows on {len(helped)} of {len(gains)} tables.",
    ]


def _met(held: bool) -> str:
    return "met" if held else "NOT met"


def _moments(found: list[Moments]) -> Table:
    rows = [
        (
            f"{one.model}, {one.problem}",
            f"{one.effective:.0f}",
            f"{one.in_errors:.1f}",
            f"{one.in_stds:.1%}",
            f"{one.evidence:.2f}",
            f"{one.exact_evidence:.2f}",
        )
        for one in found
    ]
    headings = ("problem", "effective size", "standard errors", "standard deviations", "log-evidence", "exact")
    return Table("Means and standard deviations given facts: the largest error at any place", headings, rows)


def _evidences(ratios: list[Evidence], sizes: Sizes) -> Table:
    rows = [(f"{one.model}, {one.problem}", f"{one.ratio:.3f} ± {one.error:.3f}", f"{one.slope:.2f}") for one in ratios]
    title = f"Evidence over the exact one, {sizes.repetitions} repetitions, and how its error falls with particles"
    return Table(title, ("problem", f"ratio at {sizes.evidence_particles[-1]} particles", "slope"), rows)


def _distances(away: list[Distances]) -> Table:
    rows = [(f"{one.model}, {one.problem}", f"{one.distance:.3f}", f"{one.effective:.0f}") for one in away]
    title = "Marginals beside elliptical slice sampling of 100,000 steps: the largest Kolmogorov-Smirnov distance"
    return Table(title, ("problem", "distance", "effective size"), rows)


def _calibrations(ranks: list[Calibration]) -> Table:
    rows = [(f"{one.model}, {one.fact}", *(f"{p:.3f}" for p in one.p_values), str(one.repetitions)) for one in ranks]
    title = "Simulation-based calibration: p-values of uniform ranks"
    return Table(title, ("model, fact", "at a place of facts", "between", "functions"), rows)


def _speeds(clock: list[Speed]) -> Table:
    rows = [
        (one.model, str(one.particles), f"{one.seconds:.1f}", str(one.calls), f"{one.effective:.0f}") for one in clock
    ]
    title = "Seconds for moments at 100 points given bounds and an order"
    return Table(title, ("model", "particles", "seconds", "network calls", "effective size"), rows)


def _held_out(gains: list[HeldOut]) -> Table:
    rows = [(f"{one.table}: {one.words}", str(one.without), str(one.told), str(one.gain)) for one in gains]
    return Table("Negative log-density of held-out rows", ("table and facts", "without", "told", "difference"), rows)
