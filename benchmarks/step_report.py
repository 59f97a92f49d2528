"""The picture and tables of `python -m benchmarks step`: the NDP beside two GPs fitted to the same values."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import gpytorch
import numpy as np
import torch
from torch import Tensor

from benchmarks.drawing import draw, draw_one_value
from benchmarks.report import Progress, Report, Table
from benchmarks.step import EXACT, FULL, QUICK, WITHIN, MarginalScore, Outcome, measure, methods
from ndp.core.plotting import BLACK, BLUE, GREEN, ORANGE, label_once, new_grid, plot_context, plot_draws, plot_marginal
from ndp.core.typing import Posterior
from ndp.gp.fitting import fit_gp
from ndp.models.registry import load_ndp
from ndp.priors.step import Step

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OBSERVED = torch.tensor([-0.85, -0.6, -0.3, 0.5, 0.8], dtype=torch.float64)
SHOWN = 20


@dataclass(frozen=True)
class Row:
    """Draws [S M] of a prior and of its posterior, and values [T] of the posterior at x = 0."""

    name: str
    colour: str
    prior: np.ndarray
    posterior: np.ndarray
    at_zero: np.ndarray


def reproduce(model: str, *, quick: bool, paper: str, device: str, progress: Progress) -> Report:
    """Measure, and show beside Gaussian processes."""
    sizes = QUICK if quick else FULL
    outcome = measure(methods(model, paper, device, sizes), sizes, progress)
    progress("Fitting Gaussian processes")
    grid = torch.linspace(-1, 1, sizes.points, dtype=torch.float64)
    rows = draw_rows(model, device, grid, sizes.draws_at_zero)
    at_zero = {row.name: float((row.at_zero > 0.5).mean()) for row in rows}
    exact = Step().condition(OBSERVED[None, :, None], _step(OBSERVED)[None, :, None])
    expected = exact.probability_of_one(torch.zeros(1, 1, 1, dtype=torch.float64)).item()
    return Report(
        name="step",
        tables=tables(outcome),
        findings=describe(outcome, model, expected, at_zero[rows[0].name]),
        numbers={"model": model, **outcome.as_dict(), "shown": {"exact": expected, "share above 0.5": at_zero}},
        figure=picture(rows, grid.numpy(), expected),
    )


def draw_rows(model: str, device: str, grid: Tensor, values: int) -> list[Row]:
    """The rows of the picture. The GPs model what is left after the mean value 1/2 is taken away."""
    x, y = OBSERVED[:, None], _step(OBSERVED)
    network = load_ndp(model, device)
    rows = [
        _row(
            "Neural diffusion process",
            BLUE,
            network.condition(_none(), _none()),
            network.condition(x[None], y[None, :, None]),
            grid,
            values,
            0.0,
        )
    ]
    for name, colour, kernel in (
        ("GP, squared exponential", ORANGE, gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())),
        ("GP, spectral mixture", GREEN, spectral_mixture()),
    ):
        gp = fit_gp(kernel, x, y - 0.5)
        posterior = gp.condition(x[None], (y - 0.5)[None, :, None])
        rows.append(_row(name, colour, gp.condition(_none(), _none()), posterior, grid, values, 0.5))
    return rows


def spectral_mixture(mixtures: int = 3) -> gpytorch.kernels.Kernel:
    """Three Gaussians in the spectrum, of frequencies 0.2 to 0.8 a unit of x to start from."""
    kernel = gpytorch.kernels.SpectralMixtureKernel(num_mixtures=mixtures).double()
    kernel.mixture_means = torch.linspace(0.2, 0.8, mixtures, dtype=torch.float64)[:, None, None]
    kernel.mixture_scales = torch.full((mixtures, 1, 1), 0.3, dtype=torch.float64)
    kernel.mixture_weights = torch.full((mixtures,), 0.25 / mixtures, dtype=torch.float64)
    return kernel


def _row(name: str, colour: str, prior: Posterior, posterior: Posterior, grid: Tensor, values: int, mean: float) -> Row:
    generator = torch.Generator().manual_seed(0)
    x, zero = grid[None, :, None], torch.zeros(1, 1, 1, dtype=torch.float64)
    return Row(
        name,
        colour,
        mean + draw(prior, x, SHOWN, generator)[:, 0, :, 0].numpy(),
        mean + draw(posterior, x, SHOWN, generator)[:, 0, :, 0].numpy(),
        mean + draw_one_value(posterior, zero, values, generator)[:, 0].numpy(),
    )


def picture(rows: list[Row], grid: np.ndarray, expected: float) -> "Figure":
    """Prior draws, conditional draws, and the marginal at x = 0 on its side, a row for each process."""
    title = "A step at an unknown place: what a neural diffusion process can draw and a Gaussian process cannot"
    figure, axes = new_grid(
        len(rows), 3, size=(4.0, 2.5), title=title, widths=(1.0, 1.0, 0.55), share_x="col", share_y="row"
    )
    for row, (prior, posterior, marginal) in zip(rows, axes, strict=True):
        plot_draws(prior, grid, row.prior, colour=row.colour, alpha=0.6)
        prior.set_title(f"{row.name}: prior", loc="left", fontsize=11)
        plot_draws(posterior, grid, row.posterior, colour=row.colour, alpha=0.6)
        posterior.axvline(0, color=BLACK, linewidth=1, linestyle=":")
        plot_context(posterior, OBSERVED.numpy(), _step(OBSERVED).numpy())
        posterior.set_title("given five values", loc="left", fontsize=11)
        plot_marginal(marginal, row.at_zero, np.linspace(-1.025, 2.025, 62), colour=row.colour)
        marginal.plot([1 - expected, expected], [0, 1], "D", color=BLACK, markersize=6, label="exact p(y | x = 0)")
        marginal.set_title("p(y | x = 0)", loc="left", fontsize=11)
        marginal.set_xlim(0, 1)
        prior.set_ylabel("y")
        prior.set_ylim(-1.0, 2.0)
    for ax, label in zip(axes[-1], ("x", "x", "share of draws"), strict=True):
        ax.set_xlabel(label)
        ax.set_xticks((-1, -0.5, 0, 0.5, 1) if label == "x" else (0, 0.5, 1))
    label_once(figure, axes[0, 1], axes[0, 2])
    return figure


def tables(outcome: Outcome) -> list[Table]:
    functions = [
        (
            score.method,
            str(score.observations),
            f"{score.bracket[0]:.2f} to {score.bracket[1]:.2f}",
            f"{score.draws:,}",
            f"{score.clean.mean:.3f} ± {score.clean.standard_error:.3f}",
            f"{score.distance.mean:.3f} ± {score.distance.standard_error:.3f}",
        )
        for score in outcome.functions
    ]
    marginals = [
        (
            score.method,
            str(score.other_targets) if score.other_targets else "none",
            f"{score.draws:,}",
            f"{score.within.mean:.2f} ± {score.within.standard_error:.2f}",
            str(score.error),
            f"{score.noise:.4f}",
            f"{score.largest:.3f}",
        )
        for score in outcome.marginals
    ]
    return [
        Table(
            "Drawn functions",
            ("method", "observations", "jump between", "draws", "one clean step", "jump positions, KS"),
            functions,
        ),
        Table(
            f"P(y = 1 | x = 0) over {outcome.marginals[0].contexts} random contexts",
            ("method", "other targets", "draws", "within 0.02", "mean error", "of sampling", "largest error"),
            marginals,
        ),
    ]


def describe(outcome: Outcome, model: str, expected: float, shown: float) -> str:
    """The findings, from the numbers."""
    ours = [score for score in outcome.functions if score.method == model]
    exact = [score for score in outcome.functions if score.method == EXACT]
    marginals = [_bar(score) for score in outcome.marginals if score.method == model]
    clean = [score.clean.mean for score in ours]
    worst, worst_exact = (max(score.distance.mean for score in scores) for scores in (ours, exact))
    return (
        f"Between {min(clean):.1%} and {max(clean):.1%} of the draws are one clean step (the bar is 98 %). Their jumps are "
        f"at a Kolmogorov-Smirnov distance of at most {worst:.3f} from the uniform distribution (the bar is 0.05 at 2,000 "
        f"draws; draws of the exact posterior are at up to {worst_exact:.3f} at {ours[0].draws:,}). "
        f"P(y = 1 | x = 0) {'; '.join(marginals)} (the bar is all contexts). "
        "In the picture the marginal has two modes, of weight "
        f"{1 - shown:.2f} and {shown:.2f} where {1 - expected:.2f} and {expected:.2f} are exact; both Gaussian processes have "
        "one mode, in between, on values that no step takes."
    )


def _bar(score: MarginalScore) -> str:
    asked = f"drawn with {score.other_targets} other targets" if score.other_targets else "drawn as the only target"
    return (
        f"{asked} is within {WITHIN} of the exact value in {score.within.mean:.0%} of {score.contexts} contexts, "
        f"off by {score.error.mean:.3f} on average"
    )


def _step(x: Tensor) -> Tensor:
    return (x > 0.1).double()


def _none() -> Tensor:
    return torch.zeros(1, 0, 1, dtype=torch.float64)
