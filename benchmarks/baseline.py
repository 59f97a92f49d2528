"""The neural process that the paper's figures show beside the NDP: one with trained weights, or one that the user trained."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.weights_folder import WEIGHTS, find_weights
from ndp.core.devices import read_device
from ndp.core.extras import MissingExtraError
from ndp.core.io.checkpoint import CONFIG
from ndp.models.registry import load, prior_of
from ndp.processes.architectures import package
from ndp.processes.ndp import NDP
from ndp.processes.neural_process import NeuralProcess


@dataclass(frozen=True)
class Baseline:
    """A neural process under its name; or none, and the reason in words."""

    name: str
    process: NeuralProcess | None
    absence: str = ""


def find_baseline(name: str, model: NDP, device: str) -> Baseline:
    """The neural process `name`. Without a name, the attentive one that comes for the model's prior, if it can be loaded."""
    prior = prior_of(model)
    chosen = name or f"anp-{prior}"
    if not name and (reason := _why_not(chosen)):
        return Baseline(chosen, None, f"The neural process {chosen} is left out: {reason}.")
    process = load(find_weights(chosen))
    if not isinstance(process, NeuralProcess):
        raise ValueError(f"{chosen} is not a neural process")
    if prior_of(process) != prior:
        raise ValueError(
            f"{chosen} was trained on {prior_of(process) or 'a table'}, and the model beside it on {prior}"
        )
    return Baseline(Path(chosen).name, process.to(read_device(device)))


def _why_not(name: str) -> str:
    if not (WEIGHTS / name / CONFIG).exists():
        return "no such model ships; another can be named (--neural-process FOLDER)"
    try:
        package()
    except MissingExtraError as error:
        return str(error)
    return ""
