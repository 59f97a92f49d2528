"""The paper's log-likelihood table: every model in it on the same test functions, and the exact process beside it.

The protocol is that of the paper's text: lengthscale sqrt(D) / 4, noise 0.05, 1 to 10 D context points, 50 targets, 128 test
functions. Where a model has no density the paper fits a Gaussian to 128 draws. That estimator costs even the exact posterior
0.2 nats a point, so likelihoods by draws stand beside those of the exact posterior by the same estimator. Models with a density
are scored by it. All values carry observation noise.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.weights_folder import WEIGHTS
from ndp.core.devices import read_device
from ndp.gp.named import exact_process
from ndp.models.evaluation import Number, given
from ndp.models.metrics import fitted_gaussian_log_prob
from ndp.models.registry import load, names, read_model
from ndp.priors.registry import make_prior
from ndp.priors.tasks import Batch, Synthetic
from ndp.processes.architectures import Kind
from ndp.processes.ndp import NDP
from ndp.processes.neural_process import NeuralProcess
from ndp.processes.repaint import RePaintPosterior

SEED = 2023
TEST_FUNCTIONS = 128
# The paper's six cells, and two more that later papers report; these have no exact process.
KERNELS, DIMS = ("se", "matern52"), (1, 2, 3)
OTHERS = ("sawtooth", "mixture")
DENSITY = "density"
TRUTH, DIAGONAL, OURS, PAPER = "GP (truth)", "GP (diagonal)", "NDP (ours)", "NDP (paper)"
NEURAL_PROCESSES = {"GNP": Kind.GNP, "ConvNP": Kind.CONVNP, "ANP": Kind.ANP, "ConvCNP": Kind.CONVCNP}
ROWS = (TRUTH, OURS, PAPER, *NEURAL_PROCESSES, DIAGONAL)


@dataclass(frozen=True)
class Score:
    """A row in one cell, in nats a point; `gap` is what it loses to the exact process, if any, on the same functions."""

    row: str
    kernel: str
    dim: int
    shift: float
    estimator: str  # DENSITY, or of how many draws a Gaussian was fitted
    log_prob: Number
    gap: Number | None
    calls: int | None  # network calls a draw
    seconds_per_draw: float | None  # of one function at 50 targets, many drawn in one batch
    device: str
    nats: tuple[float, ...]  # of every test function, in the order in which they are made: for paired differences

    @property
    def place(self) -> tuple[str, str, int, float, str]:
        """What is measured: a newer measurement of the same replaces this one."""
        return self.row, self.kernel, self.dim, self.shift, self.estimator

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Score":
        gap = values["gap"]
        numbers = {"log_prob": Number(**values["log_prob"]), "gap": None if gap is None else Number(**gap)}
        return Score(**(values | numbers | {"nats": tuple(values["nats"])}))


@dataclass(frozen=True)
class Settings:
    """How much to measure."""

    tasks: int = TEST_FUNCTIONS
    draws: tuple[int, ...] = (128, 1024)
    draw_tasks: int = TEST_FUNCTIONS
    steps: int = 20
    density_tasks: int = TEST_FUNCTIONS  # the NDP's density costs a backward pass for every target
    repaint_levels: int = 500
    repaint_tasks: int = TEST_FUNCTIONS  # RePaint costs thousands of network calls a draw
    device: str = "cpu"


QUICK = Settings(tasks=16, draws=(128,), draw_tasks=6, steps=10, density_tasks=6, repaint_levels=20, repaint_tasks=2)


@dataclass(frozen=True)
class Method:
    """How a row gets its posterior, and what can be asked of it."""

    posterior: Callable[[Batch], Any]
    density_tasks: int  # 0: it has none
    draws: tuple[int, ...] = ()
    joint: bool = True  # False: its density is the product of those of single values
    drawn_from: Callable[[Batch], Any] | None = None  # a compiled twin of the posterior, where that is faster
    options: dict[str, Any] = field(default_factory=dict)  # of `sample`
    calls: int = 0
    draw_tasks: int | None = None  # functions to draw for (none: as many as the settings say)


def measure(
    row: str, kernel: str, dim: int, settings: Settings, *, models: Path, shift: float = 0.0
) -> Iterator[Score]:
    """All scores of one row in one cell; none where there is no such model. `shift` moves every input."""
    method = _method(row, kernel, dim, settings, models)
    if method is None:
        return
    batch = held_out_functions(kernel, dim, settings.tasks)
    batch = batch.shifted(shift).to(settings.device)
    gp = exact_process(kernel)
    exact = None
    if gp is not None:
        there = gp.to(torch.device(settings.device))
        exact = _densities(lambda piece: given(there, piece), batch)

    def score(estimator: str, found: Float[Tensor, "B"], seconds: float | None = None) -> Score:
        lost = None if exact is None else Number.of(exact[: len(found)] - found)
        nats = tuple(round(value, 5) for value in found.tolist())
        log_prob = Number.of(found)
        place = row, kernel, dim, shift, estimator
        return Score(*place, log_prob, lost, method.calls or None, seconds, settings.device, nats)

    if method.density_tasks:
        few = batch.rows(slice(0, method.density_tasks))
        yield score(DENSITY, _densities(method.posterior, few, joint=method.joint))
    for count in method.draws:
        found, seconds = _by_draws(method, batch.rows(slice(0, method.draw_tasks or settings.draw_tasks)), count)
        yield score(f"{count} draws", found, seconds)


def _method(row: str, kernel: str, dim: int, settings: Settings, models: Path) -> Method | None:
    """What a row of the table is in one cell; none where there is no such model."""
    tasks = settings.tasks if settings.density_tasks else 0
    if row in (TRUTH, DIAGONAL):
        return _exact_method(kernel, settings, tasks, joint=row == TRUTH)
    if row == OURS:
        return _our_method(models / f"ndp-{kernel}", kernel, settings, min(tasks, settings.density_tasks))
    if row == PAPER:
        return _paper_method(folder_of(f"ndp-paper-{kernel}-{dim}", models), kernel, settings)
    process = neural_process(models, NEURAL_PROCESSES[row], kernel, dim)
    if process is None:
        return None
    process.to(read_device(settings.device))
    return Method(lambda piece: given(process, piece), tasks, settings.draws[:1], calls=1)


def _exact_method(kernel: str, settings: Settings, density_tasks: int, *, joint: bool) -> Method | None:
    """The exact process, or the product of its marginal densities."""
    exact = exact_process(kernel)
    if exact is None:
        return None
    gp = exact.to(read_device(settings.device))
    return Method(lambda piece: given(gp, piece), density_tasks, settings.draws if joint else (), joint)


def _our_method(folder: Path, kernel: str, settings: Settings, density_tasks: int) -> Method | None:
    if not folder.exists() and kernel not in names():
        return None
    device = read_device(settings.device)
    model = trained_ndp(folder, kernel).to(device)
    fast = model.compiled() if device.type == "cuda" else model
    return Method(
        lambda piece: given(model, piece),
        density_tasks,
        settings.draws,
        drawn_from=lambda piece: given(fast, piece),
        options={"steps": settings.steps},
        calls=settings.steps,
    )


def _paper_method(folder: Path, kernel: str, settings: Settings) -> Method | None:
    """The paper's recipe: RePaint on a network without a context. It has no density."""
    if not folder.exists():
        return None
    model = trained_ndp(folder, kernel).to(read_device(settings.device))
    levels, repeats = settings.repaint_levels, 5
    return Method(
        partial(_repainted, model),
        0,
        settings.draws[:1],
        options={"steps": levels, "repeats": repeats},
        calls=levels * repeats,
        draw_tasks=settings.repaint_tasks,
    )


def _repainted(model: NDP, batch: Batch) -> RePaintPosterior:
    x, y, mask = batch.context
    return model.repaint(x, y, mask=mask)


def _densities(posterior: Callable[[Batch], Any], batch: Batch, *, joint: bool = True) -> Float[Tensor, "B"]:
    """Nats a point of the targets of every task."""
    found = []
    for piece in batch.split(32):
        log_p = posterior(piece).log_prob(*piece.targets, joint=joint, observation_noise=True)
        found.append(torch.as_tensor(log_p).double().reshape(len(piece.x), -1).sum(1))
    return torch.cat(found) / batch.targets[0].shape[1]


def _by_draws(method: Method, batch: Batch, count: int) -> tuple[Float[Tensor, "B"], float]:
    """Nats a point under Gaussians fitted to draws, and seconds a draw."""
    generator = torch.Generator(batch.x.device).manual_seed(SEED)
    found, seconds = [], 0.0
    posterior = method.drawn_from or method.posterior
    for piece in batch.split(32):
        x, y = piece.targets
        began = time.perf_counter()
        drawn = posterior(piece).sample(x, count, observation_noise=True, generator=generator, **method.options)
        drawn = torch.as_tensor(drawn).double().cpu()  # which waits for the device
        seconds += time.perf_counter() - began
        found.append(fitted_gaussian_log_prob(drawn, y.cpu()).to(y.device) / x.shape[1])
    return torch.cat(found), seconds / (count * len(batch.x))


def held_out_functions(kernel: str, dim: int, tasks: int) -> Batch:
    """The functions that every row is scored on, or the first of them: a function of the seed, the same everywhere."""
    prior = make_prior(kernel, torch.device("cpu"))
    source = Synthetic(prior, dim=dim, most_context=10 * dim, least_context=1)
    generator = torch.Generator().manual_seed(SEED + dim)
    return source.draw(max(tasks, TEST_FUNCTIONS), generator=generator).rows(slice(0, tasks))


def folder_of(name: str, models: Path) -> Path:
    """The weights of a row: the user's, or else those that come with the benchmarks."""
    return models / name if (models / name).exists() else WEIGHTS / name


def trained_ndp(folder: Path, kernel: str) -> NDP:
    """The NDP of a folder, or the shipped one."""
    model = read_model(folder) if folder.exists() else load(kernel)
    if not isinstance(model, NDP):
        raise ValueError(f"{folder} does not hold an NDP")
    return model


def neural_process(models: Path, kind: Kind, kernel: str, dim: int) -> NeuralProcess | None:
    """A trained neural process, if there is one."""
    folder = folder_of(f"{kind}-{kernel}-{dim}", models)
    if not folder.exists():
        return None
    model = read_model(folder)
    if not isinstance(model, NeuralProcess):
        raise ValueError(f"{folder} does not hold a neural process")
    return model
