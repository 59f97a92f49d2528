"""The picture and the tables of `python -m benchmarks marginalisation`."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.marginalisation import (
    BINS,
    FULL,
    NODES,
    QUICK,
    TRUE_LENGTHSCALE,
    Lengthscales,
    Likelihood,
    context_of,
    lengthscales,
    likelihood,
)
from benchmarks.report import Progress, Report, Table
from ndp.core.plotting import BLACK, BLUE, ORANGE, label_once, new_grid, plot_coloured_draws, plot_context
from ndp.gp.named import marginalised_gp
from ndp.models.registry import load_ndp

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 30
LIMITS = (0.1, 2.0)  # of the colours


def reproduce(model: str, *, quick: bool, device: str, progress: Progress) -> Report:
    """Measure and show."""
    sizes = QUICK if quick else FULL
    network = load_ndp(model, device)
    found = []
    for observations in sizes.observations:
        progress(f"Draws after {observations} observations, and their lengthscales")
        found.append(lengthscales(network, observations, sizes))
    scored = likelihood(network, sizes, progress)
    return Report(
        name="marginalisation",
        tables=tables(found, scored),
        findings=describe(found, scored),
        numbers={
            "model": model,
            "edges": bin_edges().tolist(),
            "lengthscales": [
                {
                    "observations": one.observations,
                    "counts": one.counts.tolist(),
                    "exact_counts": one.exact_counts.tolist(),
                    "exact_posterior": one.posterior.tolist(),
                    "total_variation": asdict(one.distance),
                    "sampling_noise": asdict(one.noise),
                }
                for one in found
            ],
            "likelihood": asdict(scored),
        },
        figure=picture(found),
    )


def bin_edges() -> np.ndarray:
    """Edges of the histograms' bins: halfway between lengthscales of the grid."""
    _, nodes = marginalised_gp(NODES)
    place = np.log(nodes.numpy())
    step = place[1] - place[0]
    return np.exp(place[0] - step / 2 + step * (NODES // BINS) * np.arange(BINS + 1))


def picture(found: list[Lengthscales]) -> "Figure":
    """Draws in the colour of their lengthscale, histograms of it below: the model's, exact draws', and the exact posterior."""
    title = "An unknown lengthscale: draws in the colour of their most likely one, and how often each occurs"
    figure, axes = new_grid(
        2, len(found), size=(2.6, 2.7), title=title, heights=(1.15, 1.0), share_x="row", share_y="row"
    )
    edges = bin_edges()
    for one, (top, bottom) in zip(found, axes.T, strict=True):
        grid = np.linspace(-1, 1, one.draws.shape[1])
        x, y = context_of(one.observations)
        colours = plot_coloured_draws(top, grid, one.draws[:SHOWN].numpy(), one.fitted[:SHOWN].numpy(), limits=LIMITS)
        plot_context(top, x.flatten().numpy(), y.flatten().numpy())
        top.set_title(
            f"{one.observations} observations" if one.observations != 1 else "1 observation", loc="left", fontsize=11
        )
        top.set_xlabel("x")
        top.set_ylim(-3, 3)
        bottom.stairs(one.counts / one.counts.sum(), edges, fill=True, color=BLUE, alpha=0.4, label="NDP draws")
        exact = one.exact_counts / one.exact_counts.sum()
        bottom.stairs(exact, edges, color=BLACK, linewidth=1.5, label="exact draws, the same fit")
        middle = np.sqrt(edges[1:] * edges[:-1])
        bottom.plot(middle, one.posterior, "o", color=ORANGE, markersize=4, label="exact posterior of the lengthscale")
        bottom.axvline(
            TRUE_LENGTHSCALE, color=BLACK, linewidth=1, linestyle=":", label="lengthscale of the observed function"
        )
        bottom.set_xscale("log")
        bottom.set_xlim(0.06, 4)
        bottom.set_xticks([0.1, 0.3, 1, 3], labels=["0.1", "0.3", "1", "3"])
        bottom.minorticks_off()
        bottom.set_xlabel("lengthscale")
        bottom.set_title(f"total variation {one.distance.mean:.2f}", loc="left", fontsize=9)
    axes[0, 0].set_ylabel("y")
    axes[1, 0].set_ylabel("share")
    bar = figure.colorbar(colours, ax=axes[0].tolist(), label="lengthscale", aspect=14, pad=0.01)
    bar.set_ticks([0.1, 0.3, 1, 2], labels=["0.1", "0.3", "1", "2"])
    bar.minorticks_off()
    label_once(figure, axes[0, -1], axes[1, 0])
    return figure


def tables(found: list[Lengthscales], scored: Likelihood) -> list[Table]:
    """Distances between histograms, and likelihoods."""
    distances = [
        (
            str(one.observations),
            f"{len(one.draws):,}",
            f"{one.distance.mean:.3f} ± {one.distance.standard_error:.3f}",
            f"{one.noise.mean:.3f}",
        )
        for one in found
    ]
    losses = [
        ("exact hierarchical posterior", str(scored.exact), "0"),
        ("NDP", "", str(scored.lost)),
        ("GP of the most likely lengthscale", "", str(scored.lost_by_point_estimate)),
        ("share of functions on which the NDP is better than that", str(scored.better_than_point_estimate), ""),
    ]
    return [
        Table(
            "Most likely lengthscales, total variation to those of exact draws",
            ("observations", "draws", "NDP", "as many exact draws"),
            distances,
        ),
        Table(
            f"Log-density of held-out values, nats a point, {scored.tasks} functions",
            ("posterior", "log-density", "lost to the exact"),
            losses,
        ),
    ]


def describe(found: list[Lengthscales], scored: Likelihood) -> str:
    """The findings, from the numbers."""
    worst = max(found, key=lambda one: one.distance.mean)
    better = "less" if scored.lost.mean < scored.lost_by_point_estimate.mean else "more"
    return (
        "With nothing observed the draws have all lengthscales of the prior, and with more observations they narrow down to "
        f"the one of the function. Their histogram is off the exact one by {worst.distance.mean:.3f} ± "
        f"{worst.distance.standard_error:.3f} in total variation at worst, after {worst.observations} observations (the bar is "
        f"0.10; as many exact draws are at {worst.noise.mean:.3f}). The NDP loses {scored.lost} nats a point to the exact "
        f"hierarchical posterior (the bar is 0.03), on average {better} than the Gaussian process of the most likely "
        "lengthscale, which loses "
        f"{scored.lost_by_point_estimate}; the NDP is the better of the two for "
        f"{scored.better_than_point_estimate.mean:.0%} of the functions."
    )
