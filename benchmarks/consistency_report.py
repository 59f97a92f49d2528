"""The picture and the tables of `python -m benchmarks consistency`."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from benchmarks.baseline import find_baseline
from benchmarks.consistency import (
    CONFIGURATIONS,
    FULL,
    QUICK,
    STATISTICS,
    BayesGap,
    Sizes,
    Spread,
    bayes_gap,
    exact_statistics,
    ratio,
    spread,
    statistics_at_zero,
)
from benchmarks.report import Progress, Report, Table
from ndp.core.plotting import BLACK, BLUE, GREEN, ORANGE, label_once, new_grid
from ndp.core.typing import Process
from ndp.gp.exact import GP
from ndp.models.evaluation import Number
from ndp.models.registry import exact_process_of, load_ndp

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR = 1.3
PAPER = {
    "GP": (0.005687, 0.001491, 0.005245, 0.010979, 0.011858),
    "NDP": (0.019796, 0.002985, 0.018961, 0.018718, 0.010045),
}


def reproduce(model: str, *, neural_process: str, quick: bool, device: str, progress: Progress) -> Report:
    """The exact process, the NDP, and a neural process."""
    network = load_ndp(model, device)
    exact = exact_process_of(network, model)
    baseline = find_baseline(neural_process, network, device)
    processes: list[tuple[str, Process]] = [("GP", exact), (model, network)]
    if baseline.process is not None:
        processes.append((baseline.name, baseline.process))
    return report(processes, exact, QUICK if quick else FULL, note=baseline.absence, progress=progress)


def report(processes: list[tuple[str, Process]], exact: GP, sizes: Sizes, *, note: str, progress: Progress) -> Report:
    """Every process, the exact one first and the NDP next, on the same contexts, inputs and pairs."""
    statistics: dict[str, list[Tensor]] = {}
    gaps = []
    for index, (name, process) in enumerate(processes):
        progress(f"{name}: the marginal at x = 0")
        generator = torch.Generator().manual_seed(10)
        rounds = 1 if index else sizes.exact_rounds
        statistics[name] = [statistics_at_zero(process, exact, sizes, generator) for _ in range(rounds)]
        progress(f"{name}: Bayes' rule")
        gaps.append(bayes_gap(name, process, exact, sizes.pairs))
    spreads = [spread(name, found) for name, found in statistics.items()]
    return Report(
        name="consistency",
        tables=tables(spreads, gaps),
        findings=" ".join([describe(spreads, gaps, sizes.draws), *([note] if note else [])]),
        numbers={
            "spreads": [asdict(one) for one in spreads],
            "ratios": {one.process: {s: asdict(r) for s, r in ratios(spreads[0], one).items()} for one in spreads[1:]},
            "bayes": [{k: v for k, v in asdict(one).items() if k != "gaps"} for one in gaps],
        },
        figure=picture(
            {name: found[0][:, 0] for name, found in statistics.items()}, exact_statistics(exact, sizes), gaps
        ),
    )


def ratios(exact: Spread, ours: Spread) -> dict[str, Number]:
    """How many times the exact process's sampling noise each statistic varies."""
    return {name: ratio(ours.spreads[name], exact.spreads[name]) for name in STATISTICS}


def picture(statistics: dict[str, Tensor], truth: Tensor, gaps: list[BayesGap]) -> "Figure":
    """Statistics [Q K R] of each process over repeats for each set of other inputs, and the gaps in Bayes' rule."""
    title = "Does a value depend on the other targets? Statistics at x = 0 for five sets of other inputs"
    figure, axes = new_grid(2, 3, size=(4.0, 2.9), title=title, share_x=False, share_y=False)
    colours = dict(zip(statistics, (ORANGE, BLUE, GREEN), strict=False))
    for index, (ax, name) in enumerate(zip(axes.flat, STATISTICS, strict=False)):
        for group, (process, found) in enumerate(statistics.items()):
            places = np.arange(CONFIGURATIONS) + group * (CONFIGURATIONS + 1)
            _boxes(ax, found[index].numpy(), places, colours[process])
        ax.axhline(truth[index].item(), color=BLACK, linewidth=1, linestyle="--", label="exact")
        ax.set_title(name, loc="left", fontsize=11)
        middles = (CONFIGURATIONS - 1) / 2 + np.arange(len(statistics)) * (CONFIGURATIONS + 1)
        ax.set_xticks(middles, list(statistics))
        ax.grid(axis="x", visible=False)
    last = axes.flat[len(STATISTICS)]
    reach = max(float(one.gaps.abs().quantile(0.995)) for one in gaps[1:])
    for one in gaps[1:]:
        values = one.gaps.clamp(-reach, reach).numpy()
        last.hist(values, bins=40, color=colours[one.process], alpha=0.6, label=f"{one.process}, gaps")
    last.axvline(0, color=ORANGE, linewidth=2, label="GP, always 0")
    last.set_title("log p(y1, y2) - log p(y1) - log p(y2 | y1)", loc="left", fontsize=11)
    last.set_xlabel("nats")
    last.set_yticks([])
    label_once(figure, axes[0, 0], last)
    return figure


def _boxes(ax: "Axes", values: np.ndarray, places: np.ndarray, colour: str) -> None:
    """A box for each row of values [K R], without the extremes' markers."""
    boxes = ax.boxplot(values.T, positions=places, widths=0.7, patch_artist=True, showfliers=False, manage_ticks=False)
    for box in boxes["boxes"]:
        box.set(facecolor=colour, alpha=0.45, edgecolor=colour)
    for part in ("medians", "whiskers", "caps"):
        for line in boxes[part]:
            line.set(color=BLACK if part == "medians" else colour, linewidth=1.3)


def tables(spreads: list[Spread], gaps: list[BayesGap]) -> list[Table]:
    """The paper's table with ours above it, and Bayes' rule."""
    rows: list[tuple[str, ...]] = []
    for index, one in enumerate(spreads):
        rows.append((one.process, *(str(one.spreads[s]) for s in STATISTICS)))
        if index:
            found = ratios(spreads[0], one).values()
            rows.append((f"{one.process} / GP", *(f"{r.mean:.2f} ± {r.standard_error:.2f}" for r in found)))
            rows.append((f"{one.process}, beyond its noise", *(str(one.beyond[s]) for s in STATISTICS)))
    rows += [(f"paper's {name}", *(f"{value:.4f}" for value in values)) for name, values in PAPER.items()]
    rows.append(("paper's NDP / GP", *(f"{n / g:.2f}" for g, n in zip(*PAPER.values(), strict=True))))
    return [
        Table("Spread of statistics at x = 0 over sets of other inputs", ("process", *STATISTICS), rows),
        Table(
            "Bayes' rule for two values, nats",
            ("process", "mean gap", "mean absolute gap", "error of log p(y1, y2)"),
            [(one.process, str(one.mean), str(one.size), str(one.joint_error)) for one in gaps],
        ),
    ]


def describe(spreads: list[Spread], gaps: list[BayesGap], draws: int) -> str:
    """The findings, from the numbers."""
    found = ratios(spreads[0], spreads[1])
    worst = max(found, key=lambda name: found[name].mean)
    met = [name for name in STATISTICS if found[name].mean <= BAR]
    said = [
        f"With other inputs beside it, the distribution of the value at x = 0 under {spreads[1].process} varies by at most "
        f"{found[worst].mean:.2f} ± {found[worst].standard_error:.2f} times the Gaussian process's sampling noise of "
        f"{draws} draws, in its {worst} (the bar is {BAR} in every column, and met for {', '.join(met) or 'none'}; the paper's "
        f"mean varies 3.5 times as much). Beyond sampling noise its mean varies by {spreads[1].beyond['mean']}."
    ]
    for one, gap in zip(spreads[1:], gaps[1:], strict=True):
        said.append(
            f"{one.process}: the density of two values differs from the product of two steps by {gap.size} nats on average, "
            f"beside an error of {gap.joint_error} of that density itself."
        )
    if len(spreads) > 2:
        said.append(
            "Given its context a neural process is consistent by construction: its ratio shows that its values are more or "
            "less certain than they should be. It violates Bayes' rule."
        )
    return " ".join(said)
