"""One function with more and more observations: the paper's first figure, for every process in a list."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import gpytorch
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.baseline import find_baseline
from benchmarks.report import Progress, Report, Table
from benchmarks.rescaled_inputs import RescaledInputs
from ndp.core.plotting import BLACK, BLUE, GREEN, ORANGE, label_once, new_grid, plot_posterior
from ndp.core.typing import Posterior, Process
from ndp.gp.exact import GP
from ndp.gp.parameters import LENGTHSCALE, OBSERVATION_NOISE
from ndp.models.registry import load_ndp, prior_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_LENGTHSCALE = 0.2
OBSERVATIONS = (1, 3, 5, 10)
POINTS, HELD_OUT = 81, 20


@dataclass(frozen=True)
class Shown:
    """A process with its name and its colour in the picture."""

    name: str
    colour: str
    process: Process


@dataclass(frozen=True)
class Panel:
    """A posterior on a grid, and how far it is from the exact one."""

    process: str
    observations: int
    draws: Float[Tensor, "S M"]
    mean: Float[Tensor, "M"]
    std: Float[Tensor, "M"]
    score: "Score"


@dataclass(frozen=True)
class Score:
    """Root mean square errors over the grid, and the log-density of held-out values in nats a point."""

    mean_error: float
    std_error: float
    log_prob: float


@dataclass(frozen=True)
class Truth:
    """The function shown: values to observe and to hold out, and on a fine grid."""

    x: Float[Tensor, "C 1"]
    y: Float[Tensor, "C"]
    x_held_out: Float[Tensor, "H 1"]
    y_held_out: Float[Tensor, "H"]
    grid: Float[Tensor, "M"]
    function: Float[Tensor, "M"]


def reproduce(model: str, *, neural_process: str, quick: bool, device: str, progress: Progress) -> Report:
    """The paper's order: the exact Gaussian process, an attentive neural process, the NDP."""
    network = load_ndp(model, device)
    if prior_of(network) != "se":
        raise ValueError(f"{model} was not trained on squared exponentials, which are what this figure shows")
    baseline = find_baseline(neural_process, network, device)
    exact = squared_exponential()
    shown = [Shown("Gaussian process", ORANGE, exact)]
    if baseline.process is not None:
        shown.append(Shown(baseline.process.kind.words.capitalize(), GREEN, at_shown_lengthscale(baseline.process)))
    shown.append(Shown("Neural diffusion process", BLUE, at_shown_lengthscale(network)))
    return report(shown, exact, draws=24 if quick else 64, note=baseline.absence, progress=progress)


def squared_exponential() -> GP:
    """The Gaussian process of the figure: lengthscale 0.2, noise 0.05."""
    kernel = gpytorch.kernels.RBFKernel()
    kernel.lengthscale = SHOWN_LENGTHSCALE
    return GP(kernel, noise=OBSERVATION_NOISE)


def at_shown_lengthscale(process: Process) -> RescaledInputs:
    """Models of squared exponentials have lengthscale 1/4; in another unit of x it is the one shown."""
    return RescaledInputs(process, SHOWN_LENGTHSCALE / LENGTHSCALE)


def draw_truth(exact: GP, seed: int = 4) -> Truth:
    """A function in [-1, 1]."""
    generator = torch.Generator().manual_seed(seed)
    grid = torch.linspace(-1, 1, POINTS, dtype=torch.float64)
    places = 2 * torch.rand(max(OBSERVATIONS) + HELD_OUT, generator=generator, dtype=torch.float64) - 1
    x = torch.cat([places, grid])[:, None]
    values = torch.as_tensor(exact.sample(x, observation_noise=True, generator=generator))
    cut = max(OBSERVATIONS)
    end = cut + HELD_OUT
    return Truth(places[:cut, None], values[:cut], places[cut:end, None], values[cut:end], grid, values[end:])


def panel(name: str, posterior: Posterior, exact: Posterior, truth: Truth, observations: int, num_draws: int) -> Panel:
    """Draws of one posterior, and its distance from the exact one. Values carry observation noise."""
    grid = truth.grid[:, None]
    mean, std = (torch.as_tensor(part).double().cpu() for part in posterior.moments(grid, observation_noise=True))
    true_mean, true_std = (torch.as_tensor(part) for part in exact.moments(grid, observation_noise=True))
    log_p = torch.as_tensor(posterior.log_prob(truth.x_held_out, truth.y_held_out, observation_noise=True)).item()
    generator = torch.Generator().manual_seed(observations)
    draws = posterior.sample(grid, num_draws, observation_noise=True, generator=generator)
    return Panel(
        process=name,
        observations=observations,
        draws=torch.as_tensor(draws).double().cpu(),
        mean=mean,
        std=std,
        score=Score(_root_mean_square(mean - true_mean), _root_mean_square(std - true_std), log_p / HELD_OUT),
    )


def report(shown: list[Shown], exact: GP, *, draws: int, note: str, progress: Progress) -> Report:
    """A row of panels for each process, a column for each number of observations."""
    truth = draw_truth(exact)
    rows = []
    for one in shown:
        progress(f"{one.name}: draws")
        panels = []
        for count in OBSERVATIONS:
            x, y = truth.x[:count], truth.y[:count]
            panels.append(panel(one.name, one.process.condition(x, y), exact.condition(x, y), truth, count, draws))
        rows.append(panels)
    found = [one for panels in rows for one in panels]
    return Report(
        name="illustration",
        tables=[table(found)],
        findings=describe(rows, note),
        numbers={
            "panels": [{"process": one.process, "observations": one.observations, **asdict(one.score)} for one in found]
        },
        figure=picture(rows, [one.colour for one in shown], truth),
    )


def picture(rows: list[list[Panel]], colours: list[str], truth: Truth) -> "Figure":
    """Draws, mean and two standard deviations, and the function behind."""
    title = "One function, with more and more observations"
    figure, axes = new_grid(len(rows), len(OBSERVATIONS), size=(3.3, 2.6), title=title)
    for panels, line, colour in zip(rows, axes, colours, strict=True):
        for one, ax in zip(panels, line, strict=True):
            plot_posterior(
                ax,
                truth.grid.numpy(),
                draws=one.draws.numpy(),
                mean=one.mean.numpy(),
                std=one.std.numpy(),
                context=(truth.x[: one.observations, 0].numpy(), truth.y[: one.observations].numpy()),
                colour=colour,
                title=f"{one.process}, {one.observations} observed",
            )
            ax.plot(truth.grid, truth.function, color=BLACK, linewidth=1.2, linestyle=":", label="the function")
            ax.set_ylim(-3.2, 3.2)
        line[0].set_ylabel("y")
    for ax in axes[-1]:
        ax.set_xlabel("x")
        ax.set_xticks((-0.5, 0, 0.5))
    label_once(figure, axes[-1, -1])
    return figure


def table(found: list[Panel]) -> Table:
    """One row a panel."""
    return Table(
        "Against the exact posterior",
        ("process", "observations", "error of mean", "error of std", "log-density, nats a point"),
        [
            (
                one.process,
                str(one.observations),
                f"{one.score.mean_error:.4f}",
                f"{one.score.std_error:.4f}",
                f"{one.score.log_prob:.4f}",
            )
            for one in found
        ],
    )


def describe(rows: list[list[Panel]], note: str) -> str:
    """The findings, from the numbers."""
    said = [
        f"{panels[0].process}: the mean is off the exact one by at most {max(p.score.mean_error for p in panels):.3f}, the "
        f"standard deviation by at most {max(p.score.std_error for p in panels):.3f} (root mean square over the grid)."
        for panels in rows[1:]
    ]
    return " ".join(
        ["The exact band closes around the function as observations grow.", *said, *([note] if note else [])]
    )


def _root_mean_square(values: Tensor) -> float:
    return float(np.sqrt(values.square().mean().item()))
