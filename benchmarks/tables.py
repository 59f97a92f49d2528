"""The regressor on tables that Python packages ship: small numeric ones, ones with text or gaps, and long ones."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from scipy.stats import rankdata

from benchmarks.report import Progress, Report, Table
from benchmarks.tables_list import Spec
from benchmarks.tables_methods import BEFORE, CATBOOST, FOREST, GP, ONE_HOT, OURS, Method, methods
from benchmarks.tables_reading import GROUPS, Frame, read
from benchmarks.universal import Score, pooled_coverage, score

COMPARED = {
    "numeric": (OURS, BEFORE),
    "text or gaps": (OURS, ONE_HOT, CATBOOST, FOREST, GP),
    "long": (OURS, CATBOOST, FOREST, GP),
}


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    splits: int
    tested: int
    known: int  # rows to learn from, at the most
    tables: int = 99


FULL = {"numeric": Sizes(2, 48, 250), "text or gaps": Sizes(2, 48, 250), "long": Sizes(1, 48, 20_000)}
QUICK = {group: Sizes(1, 32, known, tables=2) for group, known in zip(GROUPS, (100, 100, 500), strict=True)}


def reproduce(
    model: str,
    *,
    quick: bool,
    groups: Sequence[str],
    only: Sequence[str],
    runs: Path,
    device: str,
    progress: Progress,
) -> Report:
    """Score all tables; those whose scores are in the file `runs` are not measured again."""
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise ValueError(f"there is no group {unknown[0]!r}; there are: {', '.join(GROUPS)}")
    all_sizes = QUICK if quick else FULL
    found: dict[str, list[Score]] = {}
    missing = []
    for group in groups or GROUPS:
        found[group], sizes = [], all_sizes[group]
        for spec in GROUPS[group][: sizes.tables]:
            if only and spec.name not in only:
                continue
            try:
                found[group] += _scores(spec, group, methods(model, device), sizes, runs, progress)
            except ModuleNotFoundError as error:
                missing.append(f"{spec.name} is left out: {error.name} is not installed (extra `benchmarks`).")
    found = {group: scores for group, scores in found.items() if scores}
    tables = [table for group, scores in found.items() for table in _tables(group, scores)]
    findings = " ".join([*(words for group, scores in found.items() for words in verdicts(group, scores)), *missing])
    sizes_of = {group: asdict(sizes) for group, sizes in all_sizes.items()}
    numbers = {"model": model, "sizes": sizes_of, **{g: [one.as_dict() for one in s] for g, s in found.items()}}
    return Report("tables", tables, findings, numbers)


def _scores(
    spec: Spec, group: str, known: dict[str, Method], sizes: Sizes, runs: Path, progress: Progress
) -> list[Score]:
    done = {(one["where"], one["method"]): one for one in _lines(runs, sizes)}
    wanted = [name for name in COMPARED[group] if (spec.name, name) not in done]
    if wanted:
        frame = read(spec)
        for name in wanted:
            progress(f"{group}: {spec.name}: {name}")
            one = measure(frame, name, known[name], sizes)
            done[spec.name, name] = one.as_dict()
            runs.parent.mkdir(parents=True, exist_ok=True)
            with runs.open("a") as file:
                file.write(json.dumps(one.as_dict() | {"sizes": asdict(sizes)}) + "\n")
    return [_score(done[spec.name, name]) for name in COMPARED[group]]


def _lines(runs: Path, sizes: Sizes) -> Iterator[dict]:
    for line in runs.read_text().splitlines() if runs.exists() else []:
        one = json.loads(line)
        if one.pop("sizes") == asdict(sizes):
            yield one


def _score(numbers: dict) -> Score:
    return Score(**numbers)


def measure(frame: Frame, name: str, method: Method, sizes: Sizes) -> Score:
    """One method on random splits of one table."""
    scores, weights, seconds = [], [], []
    for split in range(sizes.splits):
        order = np.random.default_rng(split).permutation(len(frame.y))
        known = min(sizes.known, int(0.75 * len(frame.y)))
        train, test = order[:known], order[known : known + sizes.tested]
        y, y_new = frame.y[train], frame.y[test]
        predicted = method(frame.x.iloc[train], y, frame.x.iloc[test], y_new)
        scores.append(score(predicted, y_new, float(y.std()) or 1.0))
        weights.append(len(test))
        seconds.append(predicted.seconds)
    nll, ranked, inside = np.average(np.array(scores), axis=0, weights=weights)
    return Score(name, frame.name, float(nll), float(ranked), float(inside), fmean(seconds), sum(weights))


def _tables(group: str, scores: list[Score]) -> list[Table]:
    names = list(dict.fromkeys(one.method for one in scores))
    rows = []
    for where in dict.fromkeys(one.where for one in scores):
        here = {one.method: one for one in scores if one.where == where}
        rows.append((where, *(f"{here[name].nll:.3f} ({here[name].crps:.3f})" for name in names)))
    ranks = mean_ranks(scores)
    summary = [
        (
            name,
            f"{ranks[name]:.2f}",
            f"{_mean(scores, name, 'nll'):.3f}",
            f"{_mean(scores, name, 'crps'):.3f}",
            f"{100 * pooled_coverage(scores, name):.1f} %",
            f"{_mean(scores, name, 'seconds'):.2f}",
        )
        for name in names
    ]
    headings = ("method", "mean NLL rank", "NLL", "CRPS", "in 90 % interval", "seconds a fit and predict")
    return [
        Table(f"{group}: NLL (CRPS), in units of the targets", ("table", *names), rows),
        Table(f"{group}: all {len(rows)} tables", headings, summary),
    ]


def mean_ranks(scores: list[Score]) -> dict[str, float]:
    """Each method's rank by NLL, averaged over tables; equal ones share their ranks."""
    found: dict[str, list[float]] = {}
    for where in dict.fromkeys(one.where for one in scores):
        here = [one for one in scores if one.where == where]
        for one, rank in zip(here, rankdata(np.round([each.nll for each in here], 6)), strict=True):
            found.setdefault(one.method, []).append(float(rank))
    return {method: fmean(ranks) for method, ranks in found.items()}


def _mean(scores: list[Score], name: str, what: str) -> float:
    return fmean(getattr(one, what) for one in scores if one.method == name)


def verdicts(group: str, scores: list[Score]) -> list[str]:
    """What is promised for a group of tables, and whether it is met."""
    ranks = mean_ranks(scores)
    nll = {name: _mean(scores, name, "nll") for name in ranks}
    crps = {name: _mean(scores, name, "crps") for name in ranks}
    if group == "numeric":
        met = ranks[OURS] <= ranks[BEFORE] and nll[OURS] <= nll[BEFORE]
        found = [(f"Mean rank and NLL are no worse than before ({nll[OURS]:.3f} and {nll[BEFORE]:.3f})", met)]
    elif group == "text or gaps":
        coverage = pooled_coverage(scores, OURS)
        found = [
            (f"Mean rank {ranks[OURS]:.2f}, the best of all", ranks[OURS] <= min(ranks.values())),
            (f"90 % intervals hold {100 * coverage:.1f} % (bar: 86 to 94)", 0.86 <= coverage <= 0.94),
        ]
    else:
        others = [name for name in ranks if name != OURS]
        met = all(nll[OURS] < nll[name] and crps[OURS] < crps[name] for name in others)
        found = [(f"Mean NLL {nll[OURS]:.3f} and CRPS {crps[OURS]:.3f} are below those of all others", met)]
    return [f"{group}: {words}: {'met' if met else 'NOT met'}." for words, met in found]
