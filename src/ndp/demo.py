"""`ndp demo`: observations from a small table, the exact posterior, and that of a trained network, side by side."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from ndp.models import load, regression_gp
from ndp.plotting import BLUE, ORANGE, check_ending, label_once, new_figure, plot_posterior, save_figure
from ndp.process import NDP
from ndp.tables import read_observations
from ndp.typing import Posterior


@dataclass(frozen=True)
class Row:
    """How a posterior compares with the exact one over the grid and on a held-out function."""

    name: str
    calls: int
    mean_error: float
    std_error: float
    log_prob: float


def shipped_observations() -> Path:
    """The CSV that comes with the package."""
    return Path(str(files("ndp") / "data" / "demo.csv"))


def _trained() -> NDP:
    model = load("matern52")
    assert isinstance(model, NDP)
    return model


def run(observations: Path, picture: Path, *, draws: int = 64, steps: int = 20, seed: int = 0) -> list[Row]:
    """Condition on the table, draw the picture, and compare in numbers."""
    check_ending(picture)
    data = read_observations(observations)
    if data.x.shape[1] != 1:
        raise ValueError(f"the demo draws functions of one input; {observations} has {data.x.shape[1]}")
    reach = max(2.0, float(np.abs(data.x).max(initial=0.0)) + 0.25)
    grid = np.linspace(-reach, reach, 121)
    held_out = grid[::6]
    gp = regression_gp("matern52")
    exact = gp.condition(data.x, data.y, noise=data.noise)
    diffusion = _trained().condition(data.x, data.y, noise=data.noise)
    truth = exact.sample(held_out, generator=torch.Generator().manual_seed(seed))
    true_mean, true_std = exact.moments(grid)
    posteriors: tuple[Posterior, Posterior] = exact, diffusion
    drawn = (
        (exact.moments(grid), exact.sample(grid, draws, generator=torch.Generator().manual_seed(seed))),
        (
            diffusion.moments(grid, num_samples=128, steps=steps),
            diffusion.sample(grid, draws, steps=steps, generator=torch.Generator().manual_seed(seed)),
        ),
    )

    figure, axes = new_figure(2, title="One set of observations, two ways to the posterior")
    rows = []
    names = "Exact Gaussian process", f"Neural diffusion process, {steps} network calls"
    for ax, colour, name, posterior, ((mean, std), functions) in zip(
        axes, (ORANGE, BLUE), names, posteriors, drawn, strict=True
    ):
        context = data.x[:, 0], data.y
        plot_posterior(
            ax,
            grid,
            draws=np.asarray(functions),
            mean=np.asarray(mean),
            std=np.asarray(std),
            context=context,
            context_noise=data.noise,
            colour=colour,
            title=name,
        )
        rows.append(
            Row(
                name=name.partition(",")[0],
                calls=0 if posterior is exact else steps,
                mean_error=float(np.abs(mean - true_mean).max()),
                std_error=float(np.abs(std - true_std).max()),
                log_prob=float(posterior.log_prob(held_out, truth)) / len(held_out),
            )
        )
    label_once(figure, axes[0])
    save_figure(figure, picture)
    return rows
