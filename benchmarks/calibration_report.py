"""The picture and the table of `python -m benchmarks calibration`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.calibration import COVERAGES, FULL, PROBABILITIES, QUICK, RANKED, Calibration, measure
from benchmarks.report import Progress, Report, Table
from ndp.core.plotting import BLACK, BLUE, label_once, new_grid, plot_rank_histogram
from ndp.models.registry import exact_process_of, load_ndp

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reproduce(models: list[str], *, dims: tuple[int, ...], quick: bool, device: str, progress: Progress) -> Report:
    """Each model after the exact process that it was trained on."""
    sizes = QUICK if quick else FULL
    found = []
    for model in models:
        network = load_ndp(model, device)
        exact = exact_process_of(network, model)
        for dim in dims:
            found.append(measure(f"exact process of {model}", exact, exact, dim, sizes, progress))
            found.append(measure(model, network, exact, dim, sizes, progress))
    ours = found[1::2]
    return Report(
        name="calibration",
        tables=[table(found)],
        findings=describe(ours, sizes.tasks),
        numbers={"tasks": sizes.tasks, "draws": sizes.draws, "calibration": [_plain(one) for one in found]},
        figure=picture(ours),
    )


def picture(found: list[Calibration]) -> "Figure":
    """Rank histograms and the calibration curve, a row for each model."""
    title = "Simulation-based calibration: ranks of true functions among posterior draws"
    figure, axes = new_grid(len(found), 4, size=(3.2, 2.6), title=title, share_x=False, share_y=False)
    for one, row in zip(found, axes, strict=True):
        for ax, name in zip(row, RANKED, strict=False):
            plot_rank_histogram(ax, one.counts[name].numpy(), colour=BLUE)
            ax.set_title(
                f"{one.process}, D = {one.dim}: {name}\nchi-square p = {one.p_values[name]:.2g}", loc="left", fontsize=9
            )
            ax.set_yticks([])
            ax.set_xlabel("rank / draws")
        last = row[-1]
        last.plot([0, 1], [0, 1], color=BLACK, linewidth=1, linestyle="--", label="perfectly calibrated")
        last.plot(PROBABILITIES, one.curve, "o-", color=BLUE, markersize=3.5, linewidth=1.2)
        last.set_title("share of values below\ntheir quantile of probability p", loc="left", fontsize=9)
        last.set_xlabel("p")
        last.set_xlim(0, 1)
        last.set_ylim(0, 1)
    label_once(figure, axes[0, 0], axes[0, -1])
    return figure


def table(found: list[Calibration]) -> Table:
    """One row a process and dimension."""
    rows = [
        (
            one.process,
            str(one.dim),
            *(f"{one.p_values[name]:.3f}" for name in RANKED),
            *(f"{100 * share.mean:.1f} ± {100 * share.standard_error:.1f}" for share in one.coverage.values()),
            f"{one.crps.mean:.3f} ± {one.crps.standard_error:.3f}",
            f"{one.energy.mean:.3f} ± {one.energy.standard_error:.3f}",
        )
        for one in found
    ]
    headings = (
        "process",
        "D",
        *(f"p, {name}" for name in RANKED),
        *(f"in {level:.0%} interval" for level in COVERAGES),
        "CRPS",
        "energy score",
    )
    return Table("Calibration: p-values of uniform ranks, coverage in per cent, scores", headings, rows)


def describe(ours: list[Calibration], tasks: int) -> str:
    """The findings, from the numbers."""
    failed = [f"{one.process} at D = {one.dim}" for one in ours if one.least_p_value <= 0.01]
    verdict = f"fails for {', '.join(failed)}" if failed else "holds for all"
    least = min(one.least_p_value for one in ours)
    off = max(abs(share.mean - float(level)) for one in ours for level, share in one.coverage.items())
    return (
        f"Over {tasks} tasks the bar, chi-square p above 0.01 for every rank histogram, {verdict}; the least p is {least:.3g} "
        f"of {len(ours) * len(RANKED)}. Coverage of central intervals is off by at most {100 * off:.1f} per cent points (with "
        "few draws even the intervals of the exact process are a little narrow: its row shows by how much)."
    )


def _plain(one: Calibration) -> dict[str, Any]:
    """As JSON holds it."""
    values = asdict(one)
    return {**values, "counts": {k: v.tolist() for k, v in one.counts.items()}, "curve": one.curve.tolist()}
