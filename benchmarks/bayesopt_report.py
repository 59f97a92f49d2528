"""The picture, the tables and the verdicts of `python -m benchmarks bayesopt`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float

from benchmarks.bayesopt import (
    INITIAL,
    Objective,
    Row,
    median_interval,
    objectives,
    optimise_missing,
    read_runs,
    regret,
)
from benchmarks.bayesopt_rows import (
    ANP,
    DEFAULT,
    EXACT_DEFAULT,
    EXACT_MARGINAL,
    GPR,
    GPR_DEFAULT,
    NDP_DEFAULT,
    NDP_FIXED,
    NDP_MARGINAL,
    NP,
    RANDOM,
    ROWS,
    chosen_rows,
    make_row,
)
from benchmarks.report import Progress, Report, Table
from ndp.core.devices import read_device
from ndp.core.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, label_once, new_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUICK_SEEDS, QUICK_EVALUATIONS = 4, 15
ALLOWED = 1.1  # times the regret of GPR
SMALLEST_SHOWN = 1e-3  # of a regret, where the axis is logarithmic
COLOURS = {
    NDP_FIXED: SKY,
    NDP_MARGINAL: BLUE,
    GPR: ORANGE,
    ANP: GREEN,
    NP: PURPLE,
    RANDOM: GREY,
    EXACT_MARGINAL: BLACK,
}


@dataclass(frozen=True)
class Curves:
    """Regret of a row on an objective, after every evaluation of every seed, and seconds a step."""

    objective: Objective
    row: str
    regret: Float[np.ndarray, "R T"]
    seconds: float

    @cached_property
    def median(self) -> Float[np.ndarray, "T"]:
        return np.median(self.regret, axis=0)

    @cached_property
    def interval(self) -> Float[np.ndarray, "2 T"]:
        return median_interval(self.regret)

    @property
    def final(self) -> float:
        return float(self.median[-1])


Found = dict[tuple[str, str], Curves]  # by the names of objective and row


@dataclass(frozen=True)
class Asked:
    """What an experiment is asked to make: `objectives` and `rows` limit what is made, and not what is shown.

    Processes that share the work all show the whole of it.
    """

    objectives: list[str]
    rows: list[str]
    seeds: int
    evaluations: int  # 0: those of the objective
    models: Path
    runs: Path
    device: torch.device

    def includes(self, objective: Objective, row: str) -> bool:
        return objective.name in self.objectives and row in self.rows

    def evaluations_of(self, objective: Objective) -> int:
        count = self.evaluations or objective.evaluations
        if count <= INITIAL:
            raise ValueError(f"{INITIAL} evaluations are at random; ask for more than that, not {count}")
        return count


def reproduce(
    *,
    quick: bool,
    seeds: int,
    evaluations: int,
    objective: str,
    rows: str,
    models: Path,
    runs: Path,
    device: str,
    progress: Progress,
) -> Report:
    """Make the runs that are asked for and missing, and show all that there are."""
    asked = Asked(
        chosen_objectives(objective),
        chosen_rows(rows),
        min(seeds, QUICK_SEEDS) if quick else seeds,
        evaluations or (QUICK_EVALUATIONS if quick else 0),
        models,
        runs,
        read_device(device),
    )
    found, left_out = collect(asked, progress)
    if not found:
        raise ValueError(f"there are no runs in {runs}, and none could be made. " + " ".join(left_out))
    shown = [one for one in objectives() if any(one.name == key for key, _ in found)]
    return Report(
        name="bayesopt",
        tables=tables(shown, found),
        findings="\n".join([*verdicts(shown, found), *left_out]),
        numbers={
            "seeds": asked.seeds,
            "initial": INITIAL,
            "objectives": {one.name: one.title for one in shown},
            "rows": [_numbers(curves) for curves in found.values()],
        },
        figure=picture(shown, found),
    )


def collect(asked: Asked, progress: Progress) -> tuple[Found, list[str]]:
    """All curves there are after the missing runs are made, and sentences on rows that have none."""
    found: Found = {}
    left_out: dict[str, None] = {}  # a set that keeps its order
    for objective in objectives():
        for name in ROWS:
            row = make_row(name, objective.dim, models=asked.models, device=asked.device)
            curves = curves_of(objective, name, row, asked, progress)
            if curves is not None:
                found[objective.name, name] = curves
            elif isinstance(row, str):
                left_out[row] = None
    return found, list(left_out)


def curves_of(objective: Objective, name: str, row: Row | str, asked: Asked, progress: Progress) -> Curves | None:
    """Regret of a row whose missing runs are made first; kept runs are shown even if the network is not there any more."""
    count = asked.evaluations_of(objective)
    version = None
    if isinstance(row, Row):
        version = row.version
        if asked.includes(objective, name):
            optimise_missing(objective, row, range(asked.seeds), count, asked.runs, progress)
    kept = [run for run in read_runs(asked.runs, objective, name, count, version=version) if run.seed < asked.seeds]
    if not kept:
        return None
    return Curves(objective, name, regret(objective, kept), float(np.mean([run.seconds for run in kept])))


def chosen_objectives(only: str) -> list[str]:
    """Names of objectives from text such as "hartmann3,ackley5"; no text is all of them."""
    known = [one.name for one in objectives()]
    asked = [part.strip().lower() for part in only.split(",")] if only else known
    for part in asked:
        if part not in known:
            raise ValueError(f"there is no objective {part!r}; there are: {', '.join(known)}")
    return asked


def tables(shown: Sequence[Objective], found: Found) -> list[Table]:
    """Final regret, and seconds a step."""
    names = [name for name in ROWS if any((one.name, name) in found for one in shown)]
    headings = ("", *(one.title for one in shown))
    lengths = ", ".join(str(_length(one, found)) for one in shown)
    return [
        Table(
            f"Regret after {lengths} evaluations: median over {_seeds(found)} seeds, and its 95 % interval by bootstrap",
            headings,
            [(name, *(_final(found.get((one.name, name))) for one in shown)) for name in names],
        ),
        Table(
            "Milliseconds a step of the surrogate; an NDP draws for all seeds in one call, and this is the share of one seed",
            headings,
            [(name, *(_speed(found.get((one.name, name))) for one in shown)) for name in names],
        ),
    ]


def _seeds(found: Found) -> str:
    least, most = (edge(len(curves.regret) for curves in found.values()) for edge in (min, max))
    return str(most) if least == most else f"{least} to {most}"


def _length(objective: Objective, found: Found) -> int:
    return next(curves.regret.shape[1] for (name, _), curves in found.items() if name == objective.name)


def _final(curves: Curves | None) -> str:
    if curves is None:
        return ""
    low, high = curves.interval[:, -1]
    return f"{curves.final:.3g} ({low:.3g} to {high:.3g})"


def _speed(curves: Curves | None) -> str:
    return "" if curves is None or not curves.seconds else f"{1e3 * curves.seconds:.3g}"


def verdicts(shown: Sequence[Objective], found: Found) -> list[str]:
    """For every bar, whether it is met, with its numbers."""
    lines = []
    for one in shown:
        finals = {name: curves.final for (key, name), curves in found.items() if key == one.name}
        lines += [f"{one.title}: {said}" for said in _verdicts(one, finals)]
    return lines


def _verdicts(objective: Objective, finals: dict[str, float]) -> list[str]:
    """The bars of one objective, from the final median regrets of its rows."""
    lines = []
    ours, gpr = finals.get(NDP_MARGINAL), finals.get(GPR)
    if ours is not None:
        if gpr is not None and objective.name.startswith("hartmann"):
            lines.append(_compared(NDP_MARGINAL, ours, f"{ALLOWED} times {GPR}", ALLOWED * gpr))
        for name in (ANP, NP, RANDOM):
            if name in finals:
                excused = name == RANDOM and gpr is not None and gpr >= finals[RANDOM]
                excuse = f" ({GPR}, at {gpr:.3g}, does not beat it either)" if excused else ""
                lines.append(_compared(NDP_MARGINAL, ours, name, finals[name]) + excuse)
    for better, plain in ((NDP_DEFAULT, NDP_MARGINAL), (GPR_DEFAULT, GPR), (EXACT_DEFAULT, EXACT_MARGINAL)):
        if better in finals and plain in finals:
            lines.append(_compared(better, finals[better], plain, finals[plain]))
    return lines


def _compared(name: str, value: float, bar: str, limit: float) -> str:
    met = "met" if value <= limit else "NOT met"
    return f"{name} at {value:.3g} against {bar} at {limit:.3g}: {met}."


def picture(shown: Sequence[Objective], found: Found) -> "Figure":
    """Median regret of every row, with the interval of the median as a band; our default rule is dashed."""
    figure, axes = new_grid(
        1,
        len(shown),
        size=(3.9, 4.0),
        title="Thompson sampling: median regret over seeds, and its 95 % interval",
        share_y=False,
        share_x=False,
    )
    for one, ax in zip(shown, axes[0], strict=True):
        for name in ROWS:
            curves = found.get((one.name, name))
            colour = COLOURS.get(name.removesuffix(DEFAULT))
            if curves is None or colour is None:
                continue
            steps = np.arange(1, curves.regret.shape[1] + 1)
            style = "--" if name.endswith(DEFAULT) else ":" if name == EXACT_MARGINAL else "-"
            median, low, high = np.maximum([curves.median, *curves.interval], SMALLEST_SHOWN)
            ax.plot(steps, median, style, color=colour, linewidth=1.6, label=name)
            if colour != BLACK:  # a line to compare with; its band would hide others
                ax.fill_between(steps, low, high, color=colour, alpha=0.12, linewidth=0)
        ax.axvline(INITIAL, color=GREY, linewidth=0.8, linestyle=":")
        ax.set_yscale("log")
        ax.set_title(one.title, loc="left", fontsize=11)
        ax.set_xlabel("evaluations")
        ax.margins(x=0)
    axes[0, 0].set_ylabel("regret")
    label_once(figure, *axes[0])
    return figure


def _numbers(curves: Curves) -> dict[str, Any]:
    return {
        "objective": curves.objective.name,
        "row": curves.row,
        "seeds": len(curves.regret),
        "final_median": curves.final,
        "final_interval": curves.interval[:, -1].tolist(),
        "seconds_per_step": curves.seconds,
        "median": curves.median.tolist(),
        "interval": curves.interval.tolist(),
    }
