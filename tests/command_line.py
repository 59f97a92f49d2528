"""The command `ndp` called as a user does, and what it wrote."""

from pathlib import Path

import numpy as np
import typer
from matplotlib.image import imread
from typer.testing import CliRunner, Result

from ndp.apps.cli import app


def call(*arguments: str, app: typer.Typer = app) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1"})


def sample(*arguments: str, model: str = "gp-se", at: str = "at.csv") -> Result:
    return call("sample", "--model", model, "--at", at, "--draws", "4", *arguments)


def read(path: Path) -> dict[str, np.ndarray]:
    table = np.genfromtxt(path, delimiter=",", names=True)
    return {name: table[name] for name in table.dtype.names or ()}


def is_a_picture(path: Path) -> bool:
    """A PNG on which there is something to see."""
    return path.read_bytes().startswith(b"\x89PNG") and imread(path)[..., :3].std() > 0.02
