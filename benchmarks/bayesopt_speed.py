"""Seconds that a surrogate takes at one step of an optimisation: an NDP draws; a refitted GP is fitted and draws."""

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from benchmarks.bayesopt import Draw, Objective, all_at_once, objectives, one_by_one
from benchmarks.report import Progress, Report, Table
from benchmarks.timing import limited_threads, median_seconds
from ndp.core.typing import Process
from ndp.models.registry import load_ndp
from ndp.optimise.thompson import PAPER_RULE, Inquiry, Rule, Thompson
from ndp.processes.ndp import FEWEST_STEPS
from ndp.processes.refitted_gp import RefittedGP

OBSERVATIONS = 100  # before the step that is timed
STEPS, REPEATS = 5, 3  # how many different steps, and how often each is timed


@dataclass(frozen=True)
class Timing:
    """Seconds a step, the median over steps of different searches."""

    surrogate: str
    device: str
    candidates: int
    seconds: float


def reproduce(model: str, *, device: str, threads: int, progress: Progress) -> Report:
    """Seconds a step of every surrogate, as a table."""
    timings = []
    for one in measure(model, device=device, threads=threads):
        timings.append(one)
        progress(f"{one.surrogate}: {one.seconds:.3f} s")
    rows = [(one.surrogate, one.device, str(one.candidates), f"{one.seconds:.4f}") for one in timings]
    table = Table(
        f"A step after {OBSERVATIONS} observations, D = 6",
        ("surrogate", "device", "candidates", "seconds a step"),
        rows,
    )
    return Report("bayesopt-speed", [table], "", {"timings": [asdict(one) for one in timings]})


def measure(name: str, *, device: str, threads: int) -> Iterator[Timing]:
    """Time a step on Hartmann 6 after 100 random evaluations, with the candidates of the paper's rule and of ours."""
    model = load_ndp(name, device)
    on = str(model.device)
    surrogates: list[tuple[str, str, Draw]] = [(f"NDP, {FEWEST_STEPS} calls", on, all_at_once(model))]
    for place in dict.fromkeys(("cpu", on)):
        gp: Process = RefittedGP(device=place)
        surrogates.append(("SingleTaskGP, refitted", place, one_by_one(gp)))
    hartmann = next(one for one in objectives() if one.name == "hartmann6")
    with limited_threads(threads):
        for rule in (PAPER_RULE, Rule()):
            inquiries = [_inquiry(hartmann, rule, seed) for seed in range(STEPS)]
            for surrogate, place, draw in surrogates:
                seconds = statistics.median(
                    # The answer is read on the CPU, which waits for the device.
                    median_seconds(lambda: draw([inquiry]).argmin().item(), repeats=REPEATS)  # noqa: B023
                    for inquiry in inquiries
                )
                yield Timing(surrogate, place, rule.spread + rule.local, seconds)


def _inquiry(objective: Objective, rule: Rule, seed: int) -> Inquiry:
    search = Thompson([[-1.0, 1.0]] * objective.dim, None, rule=rule, seed=seed)
    for _ in range(OBSERVATIONS):
        (point,) = search.ask()
        search.tell(point, objective.function(point))
    return search.inquiry()
