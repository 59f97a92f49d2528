"""`ndp demo`: a table that a network has never seen, what it makes of it, and a Gaussian process fitted to it beside that."""

import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import gpytorch
import numpy as np
import torch

from ndp.core.input_limits import MOST_OBSERVATIONS, rows_to_keep
from ndp.core.io.tables import TableError, read_cells, read_number
from ndp.core.plotting import BLUE, ORANGE, check_ending, label_once, new_figure, plot_regression, save_figure
from ndp.gp.exact import GP
from ndp.gp.fitting import fit_gp
from ndp.models.registry import load_ndp
from ndp.processes.ndp import NDP

MODEL = "universal"
PARTS = 5  # of the observations, each predicted from the others
FEWEST = 2 * PARTS  # observations
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
NOISE_STARTS = (0.3, 1e-3)  # variances, in those of the observations: either may be the better hill to climb


@dataclass(frozen=True)
class Table:
    """Observations of a function of one input."""

    names: tuple[str, str]
    x: np.ndarray  # [N]
    y: np.ndarray  # [N]


@dataclass(frozen=True)
class Row:
    """How well one method predicts observations that it has not seen, in units of their standard deviation."""

    name: str
    seconds: float  # for all that its picture shows
    log_prob: float  # nats an observation
    coverage: float  # share in 90 % intervals


@dataclass(frozen=True)
class Functions:
    """What is drawn: functions [S M], and quantiles [Q M] of a new observation, at the inputs of a grid."""

    draws: np.ndarray
    quantiles: np.ndarray


def shipped_table() -> Path:
    """The CSV that comes with the package: the Nile's yearly flow at Aswan, 1871 to 1970, in 10^8 m^3 (Cobb, 1978)."""
    return Path(str(files("ndp") / "apps" / "data" / "nile.csv"))


def run(table: Path, picture: Path, *, draws: int = 24, steps: int = 20, seed: int = 0) -> list[Row]:
    """Draw the picture, and compare in numbers."""
    check_ending(picture)
    data = read_table(table, seed)
    reach = 0.05 * np.ptp(data.x)
    grid = np.linspace(data.x.min() - reach, data.x.max() + reach, 121)
    methods: tuple[_Network | _FittedGP, ...] = _Network(load_ndp(MODEL), steps), _FittedGP()
    _, axis_y = data.names
    figure, axes = new_figure(len(methods), title=f"{axis_y}: functions behind {len(data.y)} observations")
    rows = []
    for ax, method, colour in zip(axes, methods, (BLUE, ORANGE), strict=True):
        began = time.perf_counter()
        shown = method.functions(data, grid, draws, seed)
        seconds = time.perf_counter() - began
        plot_regression(
            ax,
            grid,
            draws=shown.draws,
            quantiles=shown.quantiles,
            probabilities=QUANTILES,
            observations=(data.x, data.y),
            colour=colour,
        )
        ax.set_title(method.name, loc="left", fontsize=11)
        ax.set_xlabel(data.names[0])
        rows.append(_scored(method, data, seconds))
    axes[0].set_ylabel(axis_y)
    label_once(figure, axes[0])
    save_figure(figure, picture)
    return rows


def read_table(path: Path, seed: int = 0) -> Table:
    """A CSV of two columns of numbers, an input and what was observed there; no more rows than the model was trained for."""
    columns, lines = read_cells(path)
    if len(columns) != 2:
        raise TableError(
            f"the demo draws functions of one input, from two columns; {path} has {len(columns)} (ndp predict takes any number)"
        )
    values = np.array(
        [
            [read_number(cell, f"{path}, row {row}, column {name}") for cell, name in zip(cells, columns, strict=True)]
            for row, cells in lines
        ]
    ).reshape(-1, 2)
    if len(values) < FEWEST or not (np.ptp(values, axis=0) > 0).all():
        raise TableError(
            f"the demo needs at least {FEWEST} rows, and columns that are not constant; {path} falls short"
        )
    values = values[rows_to_keep(values[:, 1], MOST_OBSERVATIONS, np.random.default_rng(seed))]
    return Table((columns[0], columns[1]), values[:, 0], values[:, 1])


class _Network:
    """A pretrained NDP: no fitting, units of the table's own."""

    def __init__(self, ndp: NDP, steps: int) -> None:
        self.name = f"Neural diffusion process, pretrained: {steps} calls a draw"
        self._ndp, self._steps = ndp, steps

    def functions(self, data: Table, grid: np.ndarray, draws: int, seed: int) -> Functions:
        posterior = self._ndp.condition(data.x, data.y)
        generator = torch.Generator().manual_seed(seed)
        return Functions(
            np.asarray(posterior.sample(grid, draws, steps=self._steps, generator=generator)),
            np.asarray(posterior.observations.marginals.quantiles(grid, QUANTILES)),
        )

    def predict(self, known: Table, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        laws = self._ndp.condition(known.x, known.y).observations.marginals
        return np.asarray(laws.log_prob(x, y)), np.asarray(laws.quantiles(x, (QUANTILES[0], QUANTILES[-1])))


class _FittedGP:
    """A Matern-5/2 process whose scales and noise have the greatest likelihood, in standard units."""

    name = "Gaussian process, fitted to the table"

    def functions(self, data: Table, grid: np.ndarray, draws: int, seed: int) -> Functions:
        gp, (x, y), x_new, (centre, spread) = self._fit(data, grid)
        generator = torch.Generator().manual_seed(seed)
        function = GP(gp.kernel, jitter=1e-6).condition(x, y, noise=gp.noise)
        return Functions(
            centre + spread * np.asarray(function.sample(x_new, draws, generator=generator)),
            centre + spread * np.asarray(gp.condition(x, y).quantiles(x_new, QUANTILES)),
        )

    def predict(self, known: Table, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gp, (x_known, y_known), x_new, (centre, spread) = self._fit(known, x)
        posterior = gp.condition(x_known, y_known)
        mean, std = (np.asarray(moment) for moment in posterior.moments(x_new))
        z = ((y - centre) / spread - mean) / std
        quantiles = np.asarray(posterior.quantiles(x_new, (QUANTILES[0], QUANTILES[-1])))
        return -0.5 * z**2 - np.log(std * spread * np.sqrt(2 * np.pi)), centre + spread * quantiles

    @staticmethod
    def _fit(
        data: Table, x_new: np.ndarray
    ) -> tuple[GP, tuple[np.ndarray, np.ndarray], np.ndarray, tuple[float, float]]:
        """The process, the observations and new inputs in standard units, and the units of the target."""
        middle, width, centre, spread = data.x.mean(), data.x.std(), data.y.mean(), data.y.std()
        x, y = (data.x - middle) / width, (data.y - centre) / spread
        kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5))
        gp = fit_gp(kernel, torch.as_tensor(x[:, None]), torch.as_tensor(y), noises=NOISE_STARTS)
        return gp, (x, y), (x_new - middle) / width, (float(centre), float(spread))


def _scored(method: _Network | _FittedGP, data: Table, seconds: float) -> Row:
    """Every part of the observations, predicted from the others."""
    part = np.arange(len(data.y)) % PARTS
    log_prob, inside = np.zeros(len(data.y)), np.zeros(len(data.y))
    for left_out in (part == number for number in range(PARTS)):
        known = Table(data.names, data.x[~left_out], data.y[~left_out])
        y = data.y[left_out]
        log_prob[left_out], (low, high) = method.predict(known, data.x[left_out], y)
        inside[left_out] = (low <= y) & (y <= high)
    unit = np.log(data.y.std())
    return Row(method.name.partition(",")[0], seconds, float(log_prob.mean() + unit), float(inside.mean()))
