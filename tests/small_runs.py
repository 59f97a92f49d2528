"""Training of a small network, and the command that does it."""

import os
import sys

import torch
from lightning_fabric import Fabric

from ndp.training.build import make_model, make_sources
from ndp.training.config import Recipe
from ndp.training.loop import fit
from ndp.training.run_folder import RunFolder

CPU = torch.device("cpu")
SMALL = {"width": 16, "heads": 2, "blocks": 1, "level_width": 8}


def recipe(**changes: object) -> Recipe:
    settings = {"prior": "se", "steps": 48, "batch": 4, "warmup": 5, "network": SMALL} | changes
    return Recipe.from_dict(settings)


def cpu() -> Fabric:
    return Fabric(accelerator="cpu", devices=1)


def weights_after(recipe: Recipe, folder: RunFolder | None = None, **options: object) -> dict[str, torch.Tensor]:
    model = make_model(recipe)
    fit(model, make_sources(recipe, CPU), recipe, folder=folder, fabric=cpu(), **options)
    return dict(model.network.state_dict())


def assert_same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ndp", "train", *arguments]


def one_thread() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}
