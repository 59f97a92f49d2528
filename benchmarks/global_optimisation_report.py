"""The picture, the tables and the verdicts of `python -m benchmarks global-optimisation`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from benchmarks.global_optimisation import (
    BOUNDS,
    GPR,
    INITIAL,
    JOINT,
    JOINT_NARROWER,
    NEAR,
    RANDOM,
    Effort,
    Searched,
    classical_functions,
    measure,
    random_functions,
    searches,
)
from benchmarks.inputs_given_values import (
    BINS,
    OBSERVATIONS,
    InputDistances,
    Questions,
    compare,
    even_draws,
    exact_draws,
    model_draws,
    values_gap,
)
from benchmarks.report import Progress, Report, Table
from ndp.core.devices import read_device
from ndp.core.plotting import BLACK, BLUE, GREY, ORANGE, label_once, new_grid, plot_context
from ndp.gp.exact import GP
from ndp.gp.inverse import distribution_of_input, shares
from ndp.gp.named import minima_gp
from ndp.models.evaluation import Number
from ndp.models.registry import load
from ndp.optimise.joint_search import JointSearch
from ndp.processes.ndp import NDP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TV_BAR, GAP_BAR, RANDOM_FACTOR = 0.15, 0.05, 3.0
SHOWN_STEPS, PICTURE_DRAWS = (0, 2, 5, 9), 400  # steps after the random ones
OURS, PAPER, EXACT, UNIFORM = "joint NDP", "the paper's recipe, RePaint", "exact draws", "uniform draws"


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    tasks: int = 50
    draws: int = 2000
    gap_tasks: int = 64
    gap_targets: int = 20
    functions: int = 50
    limit: int = 150
    repaint_steps: int = 2000
    repaint_tasks: int = 20
    repaint_draws: int = 500


QUICK = Settings(
    tasks=10, draws=500, gap_tasks=8, functions=8, limit=60, repaint_steps=50, repaint_tasks=5, repaint_draws=100
)


def reproduce(
    model: str, *, paper: str, quick: bool, device: str, progress: Progress, functions: int | None = None
) -> Report:
    """Compare a joint model with the exact distributions, search so many functions with it, and show some searches."""
    settings = QUICK if quick else Settings()
    if functions is not None:
        settings = replace(settings, functions=functions)
    gp = minima_gp()
    joint = _load(model, device)
    by_paper = _load(paper, device) if paper else None
    left_out = [] if paper else [f"{PAPER}: left out, for there is no --paper FOLDER."]
    progress("Drawing inputs")
    distances = _distances(joint, by_paper, gp, settings)
    progress("Densities of values")
    gap = values_gap(joint, gp, tasks=settings.gap_tasks, targets=settings.gap_targets)
    searched = random_functions(gp, max(settings.functions, 1))
    found = searches(joint, gp) if settings.functions else {}
    efforts = [measure(row, start, searched, settings.limit, progress) for row, start in found.items()]
    progress("Drawing the figure")
    return Report(
        name="global-optimisation",
        tables=_tables(distances, gap, efforts),
        findings="\n".join([*verdicts(distances, gap, efforts), *left_out]),
        numbers={
            "total_variation": [asdict(one) for one in distances],
            "gap_of_values": asdict(gap),
            "efforts": [asdict(one) | {"median": one.median} for one in efforts],
            "settings": asdict(settings),
        },
        figure=picture(joint, gp, [searched[0], *classical_functions()]),
    )


def _load(name: str, device: str) -> NDP:
    model = load(name)
    if not isinstance(model, NDP) or not model.of_points:
        raise ValueError(f"{name} is not a joint model; train one with ndp train --model joint")
    if model.input_dims is not None and 1 not in model.input_dims:
        raise ValueError(f"{name} is not for functions of one input")
    return model.to(read_device(device))


def _distances(joint: NDP, paper: NDP | None, gp: GP, settings: Settings) -> list[InputDistances]:
    questions = Questions.of(gp, settings.tasks)
    rows = [compare(EXACT, gp, questions, exact_draws(gp, settings.draws))]
    rows.append(compare(UNIFORM, gp, questions, even_draws(settings.draws)))
    rows.append(compare(OURS, gp, questions, model_draws(joint, settings.draws)))
    if paper is not None:
        painted = model_draws(paper, settings.repaint_draws, repaint_steps=settings.repaint_steps)
        row = f"{PAPER}, {settings.repaint_tasks} tasks"
        rows.append(compare(row, gp, Questions.of(gp, settings.repaint_tasks), painted))
    return rows


def _tables(distances: Sequence[InputDistances], gap: Number, efforts: Sequence[Effort]) -> list[Table]:
    tables = [
        Table(
            f"Distribution of x* given y* and {OBSERVATIONS} observations: total variation to the exact one, {BINS} bins",
            ("", "any value", "a value below the best"),
            [(one.row, str(one.any_value), str(one.below_best)) for one in distances],
        ),
        Table("Values at known inputs: nats a point lost to the exact GP", ("", "gap"), [(OURS, str(gap))]),
    ]
    if efforts:
        title = f"Evaluations until a random function is within {NEAR} of its minimum, after {INITIAL} at random"
        rows = [(e.row, f"{e.median:g}", f"{e.found:.0%}", f"{1e3 * e.seconds:.3g}") for e in efforts]
        tables.append(Table(title, ("", "median", "found", "ms a step"), rows))
    return tables


def verdicts(distances: Sequence[InputDistances], gap: Number, efforts: Sequence[Effort]) -> list[str]:
    """For every bar, whether it is met, with its numbers."""
    lines = []
    for one in distances:
        if one.row == OURS:
            for words, tv in (("any value", one.any_value), ("a value below the best", one.below_best)):
                lines.append(_verdict(f"Total variation of x* given {words}", tv.mean, TV_BAR))
    lines.append(_verdict("Nats a point lost by values at known inputs", gap.mean, GAP_BAR))
    medians = {one.row: one.median for one in efforts}
    for row in (JOINT, JOINT_NARROWER):
        if row in medians:
            lines.append(_verdict(f"Evaluations of {row} against {GPR}", medians[row], medians[GPR]))
            bar = medians[RANDOM] / RANDOM_FACTOR
            lines.append(_verdict(f"Evaluations of {row} against a third of {RANDOM}", medians[row], bar))
    return lines


def _verdict(what: str, value: float, bar: float) -> str:
    return f"{what}: {value:.3g}, at most {bar:.3g}: {'met' if value <= bar else 'NOT met'}."


def picture(model: NDP, gp: GP, functions: Sequence[Searched]) -> "Figure":
    """For every function some steps of its search: observations and y*, and below them p(x* | y*)."""
    figure, axes = new_grid(
        2 * len(functions),
        len(SHOWN_STEPS),
        size=(3.4, 1.9),
        heights=[1.5, 1.0] * len(functions),
        title="Asking where the minimum is",
        share_x=True,
        share_y="row",
    )
    for row, searched in enumerate(functions):
        search = JointSearch(BOUNDS, model, initial=INITIAL, seed=row)
        while search.starting:
            _advance(search, searched)
        for step in range(SHOWN_STEPS[-1] + 1):
            if step in SHOWN_STEPS:
                column = SHOWN_STEPS.index(step)
                _show(axes[2 * row, column], axes[2 * row + 1, column], search, model, gp, searched)
            _advance(search, searched)
        axes[2 * row + 1, 0].set_ylim(bottom=0)
        axes[2 * row, 0].set_ylabel(searched.title)
        axes[2 * row + 1, 0].set_ylabel("p(x* | y*)")
    for ax in axes[-1]:
        ax.set_xlabel("x")
    label_once(figure, axes[0, 0], axes[1, 0])
    return figure


def _advance(search: JointSearch, searched: Searched) -> None:
    (point,) = search.ask()
    search.tell(point, searched.function(point))


def _show(above: "Axes", below: "Axes", search: JointSearch, model: NDP, gp: GP, searched: Searched) -> None:
    """The state of a search, and the distribution of its next input."""
    question = search.question()
    x, y = search.history.known()
    (point,) = search.ask()
    grid = np.linspace(-1, 1, 401)
    above.plot(
        grid, [searched.function(np.array([place])) for place in grid], color=GREY, linewidth=1.2, label="function"
    )
    plot_context(above, x[:, 0], y)
    above.axhline(search.to_value(question.y_star), color=ORANGE, linestyle="--", linewidth=1.2, label="y*")
    above.set_title(f"{len(y)} evaluations, best {y.min():.3g}", loc="left", fontsize=9)
    drawn = model.condition(question.x, question.y).sample_inputs(
        question.y_star, PICTURE_DRAWS, generator=torch.Generator().manual_seed(0)
    )
    edges = np.linspace(-1, 1, BINS + 1)
    histogram = shares(torch.as_tensor(drawn).double().cpu(), BINS)[0]
    below.stairs(histogram.numpy(), edges, fill=True, color=BLUE, alpha=0.5, label="draws of x*")
    exact = gp.condition(question.x[None], question.y[None, :, None])
    density = distribution_of_input(exact, torch.tensor([question.y_star], dtype=torch.float64), BINS)[0]
    below.stairs(density.numpy(), edges, color=BLACK, linewidth=1.0, label="exact p(x* | y*)")
    below.plot([point[0]], [0.0], "^", color="red", markersize=7, clip_on=False, label="next evaluation", zorder=6)
