"""The figure, the tables and the bars of `python -m benchmarks images`."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from benchmarks.images import (
    AIMS,
    COMPLETION_CALLS,
    COMPLETIONS,
    FULL,
    QUICK,
    SECONDS,
    Score,
    Sizes,
    as_functions,
    bits_per_value,
    in_half_precision,
    load_image_model,
    measure,
    ours,
    papers,
    seconds_for_completions,
    shown_contexts,
)
from benchmarks.report import Progress, Report, Table
from ndp.core.plotting import BLUE, ORANGE, new_mosaic, plot_errors, plot_picture
from ndp.models.evaluation import Number
from ndp.priors.image import pixel_grid, read_set
from ndp.priors.registry import IMAGE_SETS
from ndp.processes.ndp import NDP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_DRAWS, SPREAD_DRAWS = 5, 16
FIRST_SHOWN = 4  # the pictures of the figure are these and the next
MOST_CALLS = 50


@dataclass(frozen=True)
class Row:
    """One context of the figure: pictures [H W P], draws [S H W P], their spread [H W], and a draw at twice the size."""

    context: str
    truth: np.ndarray
    known: np.ndarray
    draws: np.ndarray
    spread: np.ndarray
    doubled: np.ndarray


@dataclass(frozen=True)
class Bar:
    """A promise about a number."""

    what: str
    aim: str
    found: str
    met: bool | None  # none: not measured in this run

    @property
    def verdict(self) -> str:
        return {True: "met", False: "NOT met", None: "not measured"}[self.met]


def folder_of(image_set: str, data_dir: str) -> str:
    """The folder of a set of pictures: one of its name inside of `data_dir`, or `data_dir` itself."""
    inside = Path(data_dir).expanduser() / image_set
    return str(inside) if data_dir and inside.is_dir() else data_dir


def reproduce_each(
    image_sets: str, *, data_dir: str, model: str, paper: str, quick: bool, device: str, progress: Progress
) -> Iterator[Report]:
    """A report for each set of pictures in a text such as "mnist,celeba32"."""
    chosen = image_sets.split(",")
    for name in chosen:
        if name not in IMAGE_SETS:
            raise ValueError(f"there is no set of pictures named {name!r}; there are: {', '.join(IMAGE_SETS)}")
    if len(chosen) > 1 and (model or paper):
        raise ValueError("--model and --paper are of one set of pictures: name it with --set")
    for name in chosen:
        yield reproduce(
            name, data_dir=data_dir, model=model, paper=paper, quick=quick, device=device, progress=progress
        )


def reproduce(
    image_set: str, *, data_dir: str, model: str, paper: str, quick: bool, device: str, progress: Progress
) -> Report:
    """Measure one set of pictures and show completions."""
    sizes = QUICK if quick else FULL
    network = load_image_model(model or image_set, image_set, device)
    pictures = read_set(image_set, folder_of(image_set, data_dir), "test")
    needed = max(sizes.images, FIRST_SHOWN + 4)
    if len(pictures) < needed:
        raise ValueError(f"{data_dir} holds {len(pictures)} test pictures, and {needed} are needed")
    methods = [ours(network, sizes)]
    if paper:
        methods.append(papers(load_image_model(paper, image_set, device), sizes))
    scores = list(measure(methods, pictures, sizes, progress))
    progress("Drawing the figure")
    rows = complete_rows(network, pictures[FIRST_SHOWN:], sizes)
    progress("Likelihood by the ODE")
    bits = bits_per_value(network, pictures[: sizes.bits_images], sizes.probes)
    progress(f"{COMPLETIONS} completions on two cores")
    seconds = seconds_for_completions(model or image_set, pictures)
    bars = judged(image_set, scores, seconds)
    return Report(
        name=f"images-{image_set}",
        tables=tables(image_set, scores, bars, bits, sizes),
        findings=describe(image_set, scores, bars, bits, sizes, paper=bool(paper)),
        numbers={
            "model": model or image_set,
            "scores": [asdict(score) for score in scores],
            "bits_per_value": asdict(bits),
            "seconds_for_16_completions": seconds,
            "bars": [asdict(bar) for bar in bars],
        },
        figure=picture(image_set, rows, scores),
    )


def complete_rows(model: NDP, pictures: UInt8[Tensor, "T H W P"], sizes: Sizes) -> list[Row]:
    """A picture for each context of the paper's figure, completed."""
    height, width = pictures.shape[1:3]
    x, y = as_functions(pictures)
    rows = []
    for index, (context, known) in enumerate(shown_contexts(x).items()):
        generator = torch.Generator().manual_seed(index)
        draws = y[index].expand(SPREAD_DRAWS, -1, -1).clone()
        with in_half_precision(model):
            posterior = model.condition(x[known][None], y[index : index + 1, known])
            found = posterior.sample(x[~known][None], SPREAD_DRAWS, steps=sizes.steps, generator=generator)
            twice = posterior.sample(pixel_grid(2 * height, 2 * width)[None], 1, steps=sizes.steps, generator=generator)
        draws[:, ~known] = _clipped(found)[:, 0]
        as_pictures = draws.reshape(SPREAD_DRAWS, height, width, -1)
        rows.append(
            Row(
                context,
                y[index].reshape(height, width, -1).numpy(),
                known.reshape(height, width).numpy(),
                as_pictures[:SHOWN_DRAWS].numpy(),
                as_pictures.std(0).mean(-1).numpy(),
                _clipped(twice)[0, 0].reshape(2 * height, 2 * width, -1).numpy(),
            )
        )
    return rows


def _clipped(draws: object) -> Tensor:
    return torch.as_tensor(draws).double().cpu().clamp(0, 1)


def judged(image_set: str, scores: Sequence[Score], seconds: float) -> list[Bar]:
    """The bars, and whether they are met."""
    mine = {score.fraction: score for score in scores if score.method == "ours"}
    theirs = {score.fraction: score for score in scores if score.method != "ours"}
    bars = [
        Bar(
            f"error at {fraction:.0%} known",
            f"at most {aim:.3f}",
            str(mine[fraction].whole),
            mine[fraction].whole.mean <= aim,
        )
        for fraction, aim in AIMS[image_set].items()
    ]
    calls = next(iter(mine.values())).calls
    better = [fraction for fraction in theirs if better_by(mine[fraction], theirs[fraction]).mean > 0]
    bars.append(
        Bar(
            "better than the paper's recipe",
            f"at every fraction, in at most {MOST_CALLS} calls",
            f"at {len(better)} of {len(theirs)}, in {calls} calls" if theirs else "no model given (--paper)",
            len(better) == len(theirs) and calls <= MOST_CALLS if theirs else None,
        )
    )
    if image_set == "mnist":
        limit, found = f"under {SECONDS} s", f"{seconds:.1f} s, {COMPLETION_CALLS} calls"
        bars.append(Bar(f"{COMPLETIONS} completions on two cores", limit, found, seconds < SECONDS))
    return bars


def better_by(score: Score, other: Score) -> Number:
    """How much lower the error is than another method's, on the pictures that both have completed."""
    common = min(score.images, other.images)
    return Number.of(torch.tensor(other.errors[:common]) - torch.tensor(score.errors[:common]))


def tables(image_set: str, scores: Sequence[Score], bars: Sequence[Bar], bits: Number, sizes: Sizes) -> list[Table]:
    errors = [
        (s.method, f"{s.fraction:.0%}", f"{s.calls:,}", str(s.images), _short(s.whole), _short(s.unknown))
        for s in scores
    ]
    return [
        Table(
            f"{image_set}: mean squared error of the mean of five draws, values from 0 to 1",
            ("method", "known", "calls a draw", "pictures", "whole picture", "unknown pixels"),
            errors,
        ),
        Table("Must show", ("what", "aim", "found", "verdict"), [(b.what, b.aim, b.found, b.verdict) for b in bars]),
        Table(
            "Likelihood by the ODE",
            ("", "bits a value", "pictures", "random signs for the divergence"),
            [("ours, no pixel known", str(bits), str(sizes.bits_images), str(sizes.probes))],
        ),
    ]


def _short(number: Number) -> str:
    return f"{number.mean:.5f} ± {number.standard_error:.5f}"


def describe(
    image_set: str, scores: Sequence[Score], bars: Sequence[Bar], bits: Number, sizes: Sizes, *, paper: bool
) -> str:
    """The findings, from the numbers."""
    missed = [bar.what for bar in bars if bar.met is False]
    verdict = f"Not met: {'; '.join(missed)}." if missed else "Every bar that was measured is met."
    if sizes.images < 200:
        verdict += f" With {sizes.images} pictures that says little: without --quick there are {FULL.images}."
    left_out = "" if paper else " The paper's recipe is left out: name a model that was trained by it with --paper."
    kind = "digits" if image_set == "mnist" else "faces"
    return (
        f"{verdict} A value costs {bits.mean:.2f} bits; the divergence is estimated with random signs, because the exact one "
        f"needs a backward pass for each value of the picture at every step.{left_out} The picture shows whether draws look "
        f"like {kind} and differ. Its last columns are the standard deviation of {SPREAD_DRAWS} draws at every pixel, and one "
        "draw at twice the resolution from the same context."
    )


def picture(image_set: str, rows: Sequence[Row], scores: Sequence[Score]) -> "Figure":
    """Truth, context, draws, their spread and a draw at twice the resolution, a row a context; and the curve of errors."""
    headings = ("truth", "context", *("draw",) * SHOWN_DRAWS, "spread", "twice the size")
    figure, panels, curve = new_mosaic(
        len(rows), len(headings), title=f"{IMAGE_SETS[image_set].title}: completed from some of the pixels"
    )
    brightest = max(float(row.spread.max()) for row in rows) or 1.0
    for row, axes in zip(rows, panels, strict=True):
        plot_picture(axes[0], row.truth)
        plot_picture(axes[1], row.truth, known=row.known)
        for ax, draw in zip(axes[2:-2], row.draws, strict=True):
            plot_picture(ax, draw)
        plot_picture(axes[-2], row.spread / brightest, coloured=True)
        plot_picture(axes[-1], row.doubled)
        axes[0].set_ylabel(row.context, fontsize=11)
    for ax, heading in zip(panels[0], headings, strict=True):
        ax.set_title(heading, fontsize=11)
    for method, colour in zip(dict.fromkeys(score.method for score in scores), (BLUE, ORANGE), strict=False):
        some = [score for score in scores if score.method == method]
        plot_errors(
            curve,
            np.array([score.fraction for score in some]),
            np.array([score.whole.mean for score in some]),
            np.array([score.whole.standard_error for score in some]),
            colour=colour,
            label=f"{method}, {some[0].calls:,} calls",
        )
    aims = AIMS[image_set]
    curve.plot(list(aims), list(aims.values()), "_", color="black", markersize=14, label="aim")
    curve.set_xlabel("share of the pixels that is known")
    curve.set_title("mean squared error of the mean of five draws", fontsize=11)
    curve.legend(frameon=False, fontsize=9)
    return figure
