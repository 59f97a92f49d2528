"""`ndp demo`: what a pretrained network makes of a table that it has never seen, beside a Gaussian process fitted to it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path

import gpytorch
import numpy as np
import torch
from torch import Tensor

from ndp.core.input_limits import MAX_OBSERVATIONS, rows_to_keep
from ndp.core.io.tables import TableError, read_table, to_numbers
from ndp.core.plotting import BLUE, ORANGE, check_ending, label_once, new_figure, plot_regression, save_figure
from ndp.core.typing import Array, Posterior
from ndp.core.units import Units, standard_units
from ndp.gp.exact import GP
from ndp.gp.fitting import fit_gp
from ndp.models.registry import load_ndp
from ndp.processes.ndp import NDP

MODEL = "universal"
PARTS = 5  # of the observations, each predicted from the others
FEWEST = 2 * PARTS  # observations
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
NOISE_STARTS = (0.3, 1e-3)  # variances in standard units, from which the fit of a GP starts: it may end at two maxima


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


def shipped_table() -> Path:
    """The CSV that comes with the package: the Nile's yearly flow at Aswan, 1871 to 1970, in 10^8 m^3 (Cobb, 1978)."""
    return Path(str(files("ndp") / "apps" / "data" / "nile.csv"))


def run(table: Path, picture: Path, *, draws: int = 24, steps: int = 20, seed: int = 0) -> list[Row]:
    """Draw the picture, and compare in numbers."""
    check_ending(picture)
    data = read_data(table, seed)
    margin = 0.05 * np.ptp(data.x)
    grid = np.linspace(data.x.min() - margin, data.x.max() + margin, 121)
    methods: dict[str, Callable[[Table], _Conditioned]] = {
        "Neural diffusion process, pretrained": partial(_condition, load_ndp(MODEL), steps),
        "Gaussian process, fitted to the table": _fit,
    }
    _, axis_y = data.names
    figure, axes = new_figure(len(methods), title=f"{axis_y}: functions behind {len(data.y)} observations")
    rows = []
    for ax, (name, condition), colour in zip(axes, methods.items(), (BLUE, ORANGE), strict=True):
        began = time.perf_counter()
        posterior = condition(data)
        functions, quantiles = posterior.draws(grid, draws, seed), posterior.quantiles(grid, QUANTILES)
        seconds = time.perf_counter() - began
        plot_regression(
            ax,
            grid,
            draws=functions,
            quantiles=quantiles,
            probabilities=QUANTILES,
            observations=(data.x, data.y),
            colour=colour,
        )
        ax.set_title(name, loc="left", fontsize=11)
        ax.set_xlabel(data.names[0])
        rows.append(_score(name.partition(",")[0], condition, data, seconds))
    axes[0].set_ylabel(axis_y)
    label_once(figure, axes[0])
    save_figure(figure, picture)
    return rows


def read_data(path: Path, seed: int = 0) -> Table:
    """A CSV of two columns of numbers, an input and what was observed there; no more rows than the model was trained for."""
    cells = read_table(path)
    columns = list(cells)
    if len(columns) != 2:
        raise TableError(
            f"the demo draws functions of one input, from two columns; {path} has {len(columns)} (ndp predict takes any number)"
        )
    values = to_numbers(path, cells).to_numpy()
    if len(values) < FEWEST or not (np.ptp(values, axis=0) > 0).all():
        raise TableError(
            f"the demo needs at least {FEWEST} rows, and columns that are not constant; {path} falls short"
        )
    values = values[rows_to_keep(values[:, 1], MAX_OBSERVATIONS, np.random.default_rng(seed))]
    return Table((columns[0], columns[1]), values[:, 0], values[:, 1])


@dataclass(frozen=True)
class _Conditioned:
    """A posterior given a table, asked and answering in the units of the table."""

    posterior: Posterior
    units: Units
    sample: Callable[..., Array]  # that of the posterior

    def draws(self, x: np.ndarray, count: int, seed: int) -> np.ndarray:
        """Functions, without observation noise: [S M]."""
        generator = torch.Generator().manual_seed(seed)
        return self._give(self.sample(self._inputs(x), count, observation_noise=False, generator=generator))

    def quantiles(self, x: np.ndarray, probabilities: tuple[float, ...]) -> np.ndarray:
        """Quantiles of a new observation: [Q M]."""
        return self._give(self.posterior.quantiles(self._inputs(x), probabilities, joint=False, observation_noise=True))

    def log_prob(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log-density of an observation at every input: [M]."""
        values = self.units.to_model_y(_column(y))
        log_p = self.posterior.log_prob(self._inputs(x), values, joint=False, observation_noise=True)
        return (torch.as_tensor(log_p) + self.units.log_det(1)).flatten().numpy()

    def _inputs(self, x: np.ndarray) -> Tensor:
        return self.units.to_model_x(_column(x))

    def _give(self, values: Array) -> np.ndarray:
        return self.units.from_model_y(torch.as_tensor(values))[:, 0, :, 0].numpy()


def _condition(ndp: NDP, steps: int, data: Table) -> _Conditioned:
    """A pretrained NDP given the table: it is not fitted, and standardises the data by itself."""
    posterior = ndp.condition(_column(data.x), _column(data.y))
    zero, one = torch.zeros(1, 1, 1, dtype=torch.float64), torch.ones(1, 1, 1, dtype=torch.float64)
    return _Conditioned(posterior, Units(zero, one, zero, one), partial(posterior.sample, steps=steps))


def _fit(data: Table) -> _Conditioned:
    """A Matern-5/2 process whose scales and noise maximise the marginal likelihood of the table, in standard units."""
    units = standard_units(_column(data.x), _column(data.y))
    x, y = units.to_model_x(_column(data.x)), units.to_model_y(_column(data.y))
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5))
    fitted = fit_gp(kernel, x[0], y[0, :, 0], noises=NOISE_STARTS)
    posterior = GP(fitted.kernel, noise=fitted.noise, jitter=1e-6).condition(x, y)
    return _Conditioned(posterior, units, posterior.sample)


def _column(values: np.ndarray) -> Tensor:
    """Numbers as a batch of one task with one dimension."""
    return torch.from_numpy(values)[None, :, None]


def _score(name: str, condition: Callable[[Table], _Conditioned], data: Table, seconds: float) -> Row:
    """Every part of the observations, predicted from the others."""
    part = np.arange(len(data.y)) % PARTS
    log_prob, inside = np.zeros(len(data.y)), np.zeros(len(data.y))
    for left_out in (part == number for number in range(PARTS)):
        posterior = condition(Table(data.names, data.x[~left_out], data.y[~left_out]))
        x, y = data.x[left_out], data.y[left_out]
        log_prob[left_out] = posterior.log_prob(x, y)
        low, high = posterior.quantiles(x, (QUANTILES[0], QUANTILES[-1]))
        inside[left_out] = (low <= y) & (y <= high)
    return Row(name, seconds, float(log_prob.mean() + np.log(data.y.std())), float(inside.mean()))
