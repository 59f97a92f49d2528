"""Weights that come with the benchmarks and not with the package: baselines, and a model of CelebA."""

from pathlib import Path

from ndp.core.io.checkpoint import CONFIG

WEIGHTS = Path(__file__).parent / "weights"


def find_weights(name: str) -> str:
    """What `ndp.load` reads: the folder of a model that comes with the benchmarks, or else the name as it is."""
    folder = WEIGHTS / name
    return str(folder) if name and (folder / CONFIG).exists() else name
