"""The picture, the tables and the verdicts of `python -m benchmarks universal`."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import regressors
from benchmarks.datasets import datasets
from benchmarks.report import Progress, Report, Table
from benchmarks.universal import (
    FULL,
    QUICK,
    Clock,
    Score,
    hierarchical_gap,
    mean_ranks,
    measure_datasets,
    measure_functions,
    measure_speed,
    pooled_coverage,
)
from ndp.core.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, label_once, new_grid
from ndp.models.evaluation import Number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "NDP"
COLOURS = {OURS: BLUE, "SingleTaskGP": ORANGE, "GaussianProcessRegressor": GREEN, "random forest": PURPLE}
GAP_BARS = {1: 0.10, 5: 0.20}


def reproduce(model: str, *, quick: bool, device: str, progress: Progress) -> Report:
    """Everything that the universal model promises, measured in one run."""
    sizes = QUICK if quick else FULL
    methods = {
        OURS: regressors.universal(model, device),
        "SingleTaskGP": regressors.single_task_gp,
        "GaussianProcessRegressor": regressors.gaussian_process_regressor,
        "random forest": regressors.random_forest,
    }
    sets, missing = datasets()
    real = measure_datasets(sets, methods, sizes, progress)
    held_out = measure_functions(methods, sizes, progress)
    gaps = {dim: hierarchical_gap(model, device, dim, sizes.hierarchical, progress) for dim in GAP_BARS}
    progress("seconds")
    clock = measure_speed(model, device)
    return Report(
        name="universal",
        tables=[
            scores_table("Tables of scikit-learn and statsmodels", real),
            scores_table("Held-out functions of the prior", held_out),
            _summary(real),
        ],
        findings=" ".join(part for part in (*verdicts(real, gaps, clock, device), missing) if part),
        numbers={
            "model": model,
            "sizes": asdict(sizes),
            "real": [one.as_dict() for one in real],
            "held_out": [one.as_dict() for one in held_out],
            "gaps": {str(dim): asdict(gap) for dim, gap in gaps.items()},
            "seconds": asdict(clock),
        },
        figure=picture(real, held_out),
    )


def scores_table(title: str, scores: list[Score]) -> Table:
    """Negative log-density of every method, a row a place."""
    methods = list(dict.fromkeys(one.method for one in scores))
    rows = []
    for where in dict.fromkeys(one.where for one in scores):
        here = {one.method: one for one in scores if one.where == where}
        rows.append((where, *(f"{here[method].nll:.3f}" for method in methods)))
    return Table(f"{title}: negative log-density, in units of the targets", ("", *methods), rows)


def _summary(scores: list[Score]) -> Table:
    ranks = mean_ranks(scores)
    rows = []
    for method, rank in ranks.items():
        ours = [one for one in scores if one.method == method]
        rows.append(
            (
                method,
                f"{rank:.2f}",
                f"{np.mean([one.crps for one in ours]):.3f}",
                f"{100 * pooled_coverage(scores, method):.1f} %",
                f"{np.mean([one.seconds for one in ours]):.2f}",
            )
        )
    headings = ("method", "mean NLL rank", "CRPS", "in 90 % interval", "seconds a fit and predict")
    return Table("All of these tables", headings, rows)


def verdicts(real: list[Score], gaps: dict[int, Number], clock: Clock, device: str) -> list[str]:
    """Every promise, with its number, and whether it is met."""
    ranks = mean_ranks(real)
    coverage = pooled_coverage(real, OURS)
    on_gpu = device != "cpu" and _has_gpu()
    bound = clock.gp_on_device / 10 if on_gpu else 2 * clock.gp
    wanted = f"twice the GP's {clock.gp:.2f} s"
    if on_gpu:
        wanted = f"a tenth of the GP's {clock.gp_on_device:.2f} s there, which on the CPU takes {clock.gp:.2f} s"
    lines = [
        (f"Mean NLL rank on real tables {ranks[OURS]:.2f}, the lowest of all", ranks[OURS] <= min(ranks.values())),
        (f"90 % intervals hold {100 * coverage:.1f} % (bar: 86 to 94)", 0.86 <= coverage <= 0.94),
        *(
            (f"Loses {gap} nats a value to the exact posterior at D = {dim} (bar: {bar:.2f})", gaps[dim].mean <= bar)
            for (dim, gap), bar in zip(gaps.items(), GAP_BARS.values(), strict=True)
        ),
        (f"Mean and std in {clock.predict:.3f} s (bar: {wanted})", clock.predict <= bound),
        (f"64 joint draws in {clock.draws:.1f} s (bar: 8)", clock.draws < 8),
    ]
    return [f"{words}: {'met' if met else 'NOT met'}." for words, met in lines]


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def picture(real: list[Score], held_out: list[Score]) -> "Figure":
    """NLL above the best of each place, and coverage, for tables and functions."""
    figure, axes = new_grid(
        2,
        2,
        size=(5.6, 3.2),
        title="One model, no fitting: against fitted ones",
        widths=[1.6, 1.0],
        share_x="col",
        share_y="row",
    )
    axes[0, 0].set_yscale("symlog", linthresh=0.1)
    for column, (scores, words) in enumerate(((real, "real tables"), (held_out, "held-out functions"))):
        places = list(dict.fromkeys(one.where for one in scores))
        for method, colour in COLOURS.items():
            mine = {one.where: one for one in scores if one.method == method}
            best = {where: min(one.nll for one in scores if one.where == where) for where in places}
            shift = 0.15 * (list(COLOURS).index(method) - 1.5)
            at = np.arange(len(places)) + shift
            axes[0, column].plot(
                at, [mine[where].nll - best[where] for where in places], "o", color=colour, markersize=5, label=method
            )
            axes[1, column].plot(at, [100 * mine[where].coverage for where in places], "o", color=colour, markersize=5)
        axes[0, column].set_title(words, loc="left", fontsize=11)
        axes[1, column].set_xticks(np.arange(len(places)), places, rotation=60, fontsize=8)
        axes[1, column].axhline(90, color=BLACK, linewidth=1)
    axes[0, 0].set_ylabel("NLL above the best, nats")
    axes[1, 0].set_ylabel("in 90 % interval, %")
    drawn = [float(value) for ax in axes[0] for line in ax.lines for value in np.asarray(line.get_ydata())]
    axes[0, 0].set_ylim(-0.02, 1.3 * max(0.1, *drawn))
    label_once(figure, axes[0, 0])
    return figure
