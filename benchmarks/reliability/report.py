"""Attempts to break the library, counted: how many were made of each family, and how many it held against."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.reliability.attempts import FULL, QUICK, Family, Sizes
from benchmarks.reliability.families import FAMILIES, family
from benchmarks.report import Progress, Report, Table

LEAST = 2000  # attempts that the full command makes
SHOWN = 20  # failures that are printed; all are in the file of numbers


@dataclass(frozen=True)
class Failure:
    """An attempt against which the library did not hold, and what went wrong."""

    attempt: str
    found: str


@dataclass(frozen=True)
class Count:
    """One family: attempts that were made, and those that the library did not hold against."""

    name: str
    tried: int
    failures: tuple[Failure, ...]
    seconds: float

    @property
    def held(self) -> int:
        return self.tried - len(self.failures)


def reproduce(names: Sequence[str], *, quick: bool, progress: Progress) -> Report:
    """The named families, or all; failed if the library did not hold against every attempt."""
    chosen = {name: family(name) for name in names or FAMILIES}
    sizes = QUICK if quick else FULL
    counts = [count(name, one, sizes, progress) for name, one in chosen.items()]
    tried, failures = sum(one.tried for one in counts), [failure for one in counts for failure in one.failures]
    findings = f"{tried} attempts, {tried - len(failures)} held."
    if not names and not quick:
        findings += f" At least {LEAST} attempts: {'met' if tried >= LEAST else 'NOT met'}."
    lines = [f"{failure.attempt}: {failure.found}" for failure in failures[:SHOWN]]
    if len(failures) > SHOWN:
        lines.append(f"and {len(failures) - SHOWN} more, in the file of numbers")
    rows = [
        (f"{one.name}: {FAMILIES[one.name]}", str(one.tried), str(one.held), f"{one.seconds:.0f}") for one in counts
    ]
    table = Table("", ("family", "tried", "held", "seconds"), rows)
    return Report(
        "reliability",
        [table],
        "\n".join([findings, *lines]),
        {"families": [asdict(one) | {"held": one.held} for one in counts]},
        failed=bool(failures),
    )


def count(name: str, attempts: Family, sizes: Sizes, progress: Progress) -> Count:
    """Make the attempts of a family, one after another, in a folder that is removed."""
    tried, failures, began = 0, [], time.monotonic()
    with TemporaryDirectory(prefix="ndp-reliability-") as folder:
        for attempt in attempts(sizes, Path(folder)):
            tried += 1
            progress(f"{name}, {tried}: {attempt.name}")
            found = attempt.run()
            if found is not None:
                failures.append(Failure(f"{name}: {attempt.name}", found))
    return Count(name, tried, tuple(failures), time.monotonic() - began)
