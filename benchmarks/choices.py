"""The library's choices of attention, inputs and objective, each measured against its alternatives at an equal budget."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from lightning_fabric import Fabric

from benchmarks.report import Progress, Report, Table
from ndp.diffusion.objective import Error
from ndp.diffusion.prediction import Prediction
from ndp.gp.named import regression_gp
from ndp.models.evaluation import Number, evaluate
from ndp.training.build import make_ndp, make_sources
from ndp.training.config import Recipe
from ndp.training.loop import fit

OURS = "ours: summed logits, rotary, separate context, v with L2"
CHOICES: dict[str, dict[str, Any]] = {
    OURS: {},
    "full attention between context and targets": {"network": {"context": "full"}},
    "attention per dimension (paper)": {"network": {"attention": "per_dimension"}},
    "raw inputs (paper)": {"network": {"inputs": "raw"}},
    "Fourier inputs": {"network": {"inputs": "fourier"}},
    "eps with L1 on the cosine schedule (paper)": {
        "prediction": Prediction.EPS,
        "error": Error.L1,
        "schedule": 500,
    },
}


@dataclass(frozen=True)
class Budget:
    """How long each choice is trained, and on how many test functions and draws it is scored."""

    steps: int
    batch: int
    tasks: int
    draws: int


@dataclass(frozen=True)
class Outcome:
    """What a choice costs: nats a point lost to the exact GP, and milliseconds a training step."""

    choice: str
    dim: int
    steps: int
    net_gap: Number
    mean_error: float
    milliseconds: float


def reproduce(kernel: str, *, dims: tuple[int, ...], budget: Budget, only: str, progress: Progress) -> Report:
    """Every choice whose name holds the text `only`, as a table."""
    outcomes = []
    for choice, dim in selected(dims, only):
        progress(f"D = {dim}: {choice}")
        outcomes.append(measure(choice, kernel, dim, budget))
    rows = [
        (str(one.dim), one.choice, str(one.net_gap), f"{one.mean_error:.4f}", f"{one.milliseconds:.2f}")
        for one in outcomes
    ]
    headings = ("D", "choice", "net gap, nats a point", "error of mean", "ms a step")
    table = Table(f"{kernel}, {budget.steps} steps", headings, rows)
    return Report("choices", [table], "", {"choices": [asdict(one) for one in outcomes]})


def measure(choice: str, kernel: str, dim: int, budget: Budget) -> Outcome:
    """Train with one choice and score the model."""
    torch.set_float32_matmul_precision("high")
    recipe = Recipe(prior=kernel, dims=(dim,), steps=budget.steps, batch=budget.batch, **CHOICES[choice])
    fabric = Fabric(accelerator="auto", devices=1)
    model = make_ndp(recipe)
    speed = fit(model, make_sources(recipe, fabric.device), recipe, fabric=fabric)
    gp = regression_gp(kernel)
    result = evaluate(model, gp, dim=dim, tasks=budget.tasks, draws=budget.draws, steps=20, ode_tasks=0)
    return Outcome(choice, dim, budget.steps, result.net_gap, result.mean_error, speed.step)


def selected(dims: tuple[int, ...], only: str) -> list[tuple[str, int]]:
    """Choices whose name holds the text `only`. At D = 1 both forms of attention over points are the same."""
    return [(c, d) for d in dims for c in CHOICES if only in c and (d > 1 or "per dimension" not in c)]
