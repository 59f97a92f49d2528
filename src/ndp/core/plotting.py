"""Pictures of functions. Nothing here samples: what is drawn was computed before.

Colours are Okabe and Ito's, which people with any kind of colour vision can tell apart.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ndp.core.io.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE, GREY, BLACK = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8a8a8a", "#1a1a1a"
SKY = "#56B4E9"
NUMBERS = "viridis"  # a map of numbers to colours whose lightness rises evenly
ENDINGS = (".png", ".svg", ".pdf", ".jpg")


def new_figure(panels: int, *, title: str | None = None) -> tuple["Figure", list["Axes"]]:
    """A row of panels that share their axes, readable in print and on a projector."""
    figure, axes = new_grid(1, panels, size=(5.2, 4.0), title=title)
    for ax in axes[0]:
        ax.set_xlabel("x")
    axes[0, 0].set_ylabel("y")
    return figure, list(axes[0])


def new_grid(
    rows: int,
    columns: int,
    *,
    size: tuple[float, float],
    title: str | None = None,
    widths: Sequence[float] | None = None,
    heights: Sequence[float] | None = None,
    share_x: bool | Literal["row", "col"] = True,
    share_y: bool | Literal["row", "col"] = True,
) -> tuple["Figure", np.ndarray]:
    """Panels [rows, columns], each of about `size` inches; `widths` and `heights` are relative to it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    widths, heights = widths or [1.0] * columns, heights or [1.0] * rows
    whole = 1.2 + size[0] * sum(widths), size[1] * sum(heights)
    figure = Figure(figsize=whole, layout="constrained", dpi=160)
    FigureCanvasAgg(figure)
    axes = figure.subplots(
        rows, columns, sharex=share_x, sharey=share_y, squeeze=False, width_ratios=widths, height_ratios=heights
    )
    if title:
        figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#e6e6e6", linewidth=0.6)
        ax.set_axisbelow(True)
    return figure, axes


def plot_posterior(
    ax: "Axes",
    x: np.ndarray,
    *,
    draws: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    context: tuple[np.ndarray, np.ndarray] | None = None,
    context_noise: np.ndarray | None = None,
    colour: str = BLUE,
    title: str = "",
    most_draws: int = 24,
) -> None:
    """Draws [S M], mean and a band of two standard deviations at inputs [M], and the observations.

    Of many draws the first `most_draws` are shown, enough to see their shape.
    """
    order = np.argsort(x)
    low, high = (mean - 2 * std)[order], (mean + 2 * std)[order]
    ax.fill_between(x[order], low, high, color=colour, alpha=0.13, linewidth=0, label="mean ± 2 std")
    plot_draws(ax, x, draws[:most_draws], colour=colour)
    ax.plot(x[order], mean[order], color=BLACK, linewidth=1.8, label="mean")
    if context is not None:
        plot_context(ax, *context, noise=context_noise)
    ax.set_title(title, loc="left", fontsize=11)


def plot_draws(ax: "Axes", x: np.ndarray, draws: np.ndarray, *, colour: str = BLUE, alpha: float = 0.45) -> None:
    """Functions [S M] at inputs [M] in one colour."""
    order = np.argsort(x)
    ax.plot(x[order], draws[:, order].T, color=colour, alpha=alpha, linewidth=0.8)
    ax.plot([], [], color=colour, alpha=0.6, linewidth=0.8, label="draws")
    ax.margins(x=0)


def plot_coloured_draws(
    ax: "Axes", x: np.ndarray, draws: np.ndarray, numbers: np.ndarray, *, limits: tuple[float, float]
) -> "ScalarMappable":
    """Functions [S M] at inputs [M], each in the colour of its number [S] on a logarithmic scale; for `figure.colorbar`."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    colours = ScalarMappable(LogNorm(*limits), NUMBERS)
    order = np.argsort(x)
    for draw, colour in zip(draws, colours.to_rgba(numbers), strict=True):
        ax.plot(x[order], draw[order], color=colour, alpha=0.8, linewidth=0.9)
    ax.margins(x=0)
    return colours


def plot_fan(
    ax: "Axes",
    x: np.ndarray,
    quantiles: np.ndarray,
    probabilities: Sequence[float],
    *,
    colour: str = BLUE,
    of: str = "draws",
) -> None:
    """Quantiles [Q M] at inputs [M] as nested bands, darker towards the median; `probabilities` [Q] rise symmetrically.

    `of` is what they are quantiles of, for the legend.
    """
    order, shade = np.argsort(x), 0.18
    pairs = len(probabilities) // 2
    for index in range(pairs):
        inside = probabilities[-1 - index] - probabilities[index]
        low, high = quantiles[index, order], quantiles[-1 - index, order]
        ax.fill_between(x[order], low, high, color=colour, alpha=shade, linewidth=0)
        seen = 1 - (1 - shade) ** (index + 1)  # through the bands around it
        ax.fill_between([], [], [], color=colour, alpha=seen, linewidth=0, label=f"{inside:.0%} of {of}")
    if len(probabilities) % 2:
        ax.plot(x[order], quantiles[pairs, order], color=colour, linewidth=1.8, label="median")
    ax.margins(x=0)


def plot_regression(
    ax: "Axes",
    x: np.ndarray,
    *,
    draws: np.ndarray,
    quantiles: np.ndarray,
    probabilities: Sequence[float],
    observations: tuple[np.ndarray, np.ndarray],
    colour: str = BLUE,
) -> None:
    """Draws [S M] of the function over bands of a new observation, quantiles [Q M], at inputs [M]; and all observations."""
    plot_fan(ax, x, quantiles, probabilities, colour=colour, of="new observations")
    plot_draws(ax, x, draws, colour=GREY)
    plot_context(ax, *observations, size=3.5)


def plot_marginal(
    ax: "Axes", values: np.ndarray, edges: np.ndarray, *, colour: str = BLUE, label: str | None = None
) -> None:
    """The distribution of one function value from draws [S], lying on its side: for a panel beside a slice of functions."""
    shares = np.histogram(values, edges)[0] / len(values)
    ax.stairs(shares, edges, orientation="horizontal", fill=True, color=colour, alpha=0.35)
    ax.stairs(shares, edges, orientation="horizontal", color=colour, linewidth=1.4, label=label)
    ax.set_xlim(left=0)


def plot_context(
    ax: "Axes", x: np.ndarray, y: np.ndarray, *, noise: np.ndarray | None = None, size: float = 6.0
) -> None:
    """Observations, with bars of two standard deviations of their noise where it is known."""
    if not len(x):
        return
    ax.errorbar(
        x,
        y,
        yerr=None if noise is None else 2 * noise,
        fmt="o",
        color=BLACK,
        markersize=size,
        markeredgecolor="white",
        markeredgewidth=0.15 * size,
        capsize=2,
        zorder=5,
        label="observations",
    )


def plot_rank_histogram(ax: "Axes", counts: np.ndarray, *, colour: str = BLUE) -> None:
    """Counts of ranks in equal bins over 0 to 1, with a band that holds 99 in 100 bins of uniform ranks."""
    total, bins = counts.sum(), len(counts)
    expected, spread = total / bins, np.sqrt(total * (1 - 1 / bins) / bins)
    ax.stairs(counts, np.linspace(0, 1, bins + 1), fill=True, color=colour, alpha=0.6)
    band = expected - 2.58 * spread, expected + 2.58 * spread
    ax.axhspan(*band, color=GREY, alpha=0.3, linewidth=0, label="99 in 100 bins of uniform ranks")
    ax.axhline(expected, color=BLACK, linewidth=1)
    ax.set_ylim(bottom=0)
    ax.margins(x=0)


def plot_search(
    ax: "Axes", values: np.ndarray, best: np.ndarray, *, minimum: float | None = None, colour: str = BLUE
) -> None:
    """Values in the order of evaluation and the best so far; NaN is a failed one, marked at the bottom.

    With a known `minimum` both are shown above it, on a logarithmic axis.
    """
    from matplotlib.ticker import MaxNLocator

    steps = np.arange(1, len(values) + 1)
    failed = np.isnan(values)
    if minimum is not None:
        values, best = values - minimum, best - minimum
        ax.set_yscale("log", nonpositive="mask")
    ax.plot(steps[~failed], values[~failed], "o", color=GREY, markersize=4, alpha=0.7, label="evaluations")
    ax.step(steps, best, where="post", color=colour, linewidth=1.8, label="best so far")
    if failed.any():
        across = ax.get_xaxis_transform()  # heights as shares of the axis
        ax.plot(
            steps[failed],
            np.full(failed.sum(), 0.02),
            "x",
            color=ORANGE,
            markersize=5,
            transform=across,
            label="failed",
        )
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("evaluations")
    ax.set_ylabel("value" if minimum is None else "regret")
    ax.legend(frameon=False, fontsize=9)


def new_mosaic(rows: int, columns: int, *, title: str) -> tuple["Figure", np.ndarray, "Axes"]:
    """Square panels [rows, columns] for pictures, and beside them one panel for a curve."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.25 * columns + 5.0, 1.3 * rows + 0.8), layout="constrained", dpi=160)
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    left, right = np.ravel(figure.subfigures(1, 2, width_ratios=(1.25 * columns, 5.0), squeeze=False))
    panels = left.subplots(rows, columns, squeeze=False)
    curve = right.subplots()
    curve.spines[["top", "right"]].set_visible(False)
    curve.grid(color="#e6e6e6", linewidth=0.6)
    return figure, panels, curve


def plot_picture(ax: "Axes", values: np.ndarray, *, known: np.ndarray | None = None, coloured: bool = False) -> None:
    """A picture [H W], [H W 1] or [H W 3] of values from 0 to 1; where `known` [H W] is False it is not shown.

    `coloured` shows numbers [H W] by the map of numbers to colours.
    """
    shown = np.repeat(values, 3, axis=-1) if values.ndim == 3 and values.shape[-1] == 1 else values
    if known is not None:
        unknown = (0.60, 0.72, 0.86)  # of no digit and few faces
        shown = np.where(known[..., None], shown, unknown)
    ax.imshow(shown, vmin=0, vmax=1, cmap=NUMBERS if coloured else "gray", interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_color("#c0c0c0")


def plot_errors(
    ax: "Axes", shares: np.ndarray, errors: np.ndarray, spreads: np.ndarray, *, colour: str, label: str
) -> None:
    """Errors on a logarithmic axis against shares between 0 and 1, with bars of two standard errors."""
    ax.errorbar(shares, errors, yerr=2 * spreads, fmt="o-", color=colour, capsize=3, label=label)
    ax.set_xscale("logit")
    ax.set_yscale("log")
    ax.set_xticks(shares, [f"{share:.0%}" for share in shares])
    ax.minorticks_off()


def label_once(figure: "Figure", *axes: "Axes") -> None:
    """One legend below the figure for what is labelled in `axes`, each label once, in as many columns as there is room for."""
    named: dict[str, Artist] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    for columns in range(len(named), 0, -1):
        legend = figure.legend(
            list(named.values()), list(named), loc="outside lower center", ncols=columns, frameon=False, fontsize=9
        )
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()


def check_ending(path: Path) -> None:
    """A picture that cannot be drawn is better known before the functions are."""
    if path.suffix.lower() not in ENDINGS:
        what = f"as {path.suffix}" if path.suffix else "without an ending"
        raise ValueError(f"cannot draw {path} {what}; use one of {', '.join(ENDINGS)}")


def save_figure(figure: "Figure", path: Path) -> None:
    """Write the picture whole or not at all; the kind is that of the path's ending."""
    check_ending(path)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lower().lstrip("."))
