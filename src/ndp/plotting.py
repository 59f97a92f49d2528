"""Pictures of functions. Nothing here samples: what is drawn was computed before.

Colours are Okabe and Ito's, which people with any kind of colour vision can tell apart.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ndp.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, BLACK = "#0072B2", "#D55E00", "#1a1a1a"
ENDINGS = (".png", ".svg", ".pdf", ".jpg")


def new_figure(panels: int, *, title: str | None = None) -> tuple["Figure", list["Axes"]]:
    """A row of panels that share their axes, readable in print and on a projector."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.2 + 5.2 * panels, 4.0), layout="constrained", dpi=160)
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, panels, sharex=True, sharey=True, squeeze=False)[0]
    if title:
        figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#e6e6e6", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.set_xlabel("x")
    axes[0].set_ylabel("y")
    return figure, list(axes)


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
    x = x[order]
    low, high = (mean - 2 * std)[order], (mean + 2 * std)[order]
    ax.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0, label="mean ± 2 std")
    ax.plot(x, draws[:most_draws, order].T, color=colour, alpha=0.45, linewidth=0.8)
    ax.plot([], [], color=colour, alpha=0.6, linewidth=0.8, label="draws")
    ax.plot(x, mean[order], color=BLACK, linewidth=1.8, label="mean")
    if context is not None and len(context[0]):
        ax.errorbar(
            *context,
            yerr=None if context_noise is None else 2 * context_noise,
            fmt="o",
            color=BLACK,
            markersize=6,
            markeredgecolor="white",
            markeredgewidth=0.9,
            capsize=2,
            zorder=5,
            label="observations",
        )
    ax.set_title(title, loc="left", fontsize=11)
    ax.margins(x=0)


def check_ending(path: Path) -> None:
    """A picture that cannot be drawn is better known before the functions are."""
    if path.suffix.lower() not in ENDINGS:
        what = f"as {path.suffix}" if path.suffix else "without an ending"
        raise ValueError(f"cannot draw {path} {what}; use one of {', '.join(ENDINGS)}")


def save_figure(figure: "Figure", path: Path) -> None:
    """Write the picture whole or not at all; the kind is that of the path's ending."""
    check_ending(path)
    with whole_file(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lower().lstrip("."))
