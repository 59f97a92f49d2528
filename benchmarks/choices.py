"""The choices that the library makes for its users, each measured against its alternatives at an equal budget."""

from dataclasses import dataclass
from typing import Any

import torch
from lightning_fabric import Fabric

from ndp.diffusion.objective import Error
from ndp.diffusion.prediction import Prediction
from ndp.models.evaluation import Number, evaluate
from ndp.models.registry import regression_gp
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
class Outcome:
    """What a choice costs: nats a point lost to the exact GP, and milliseconds a training step."""

    choice: str
    dim: int
    steps: int
    net_gap: Number
    mean_error: float
    milliseconds: float


def measure(choice: str, kernel: str, dim: int, steps: int, batch: int, tasks: int, draws: int) -> Outcome:
    """Train with one choice and score the model."""
    torch.set_float32_matmul_precision("high")
    recipe = Recipe(prior=kernel, dims=(dim,), steps=steps, batch=batch, **CHOICES[choice])
    fabric = Fabric(accelerator="auto", devices=1)
    model = make_ndp(recipe)
    speed = fit(model, make_sources(recipe, fabric.device), recipe, fabric=fabric)
    result = evaluate(model, regression_gp(kernel), dim=dim, tasks=tasks, draws=draws, steps=20, ode_tasks=0)
    return Outcome(choice, dim, steps, result.net_gap, result.mean_error, speed.step)


def selected(dims: tuple[int, ...], only: str) -> list[tuple[str, int]]:
    """Choices whose name holds the text `only`. At D = 1 both forms of attention over points are the same."""
    return [(c, d) for d in dims for c in CHOICES if only in c and (d > 1 or "per dimension" not in c)]
