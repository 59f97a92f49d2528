"""The neural process that the paper's figures show beside the NDP: a shipped one, or one that the user trained."""

from dataclasses import dataclass
from pathlib import Path

from ndp.core.devices import read_device
from ndp.models.registry import load, names, prior_of
from ndp.processes.architectures import package
from ndp.processes.ndp import NDP
from ndp.processes.neural_process import NeuralProcess


@dataclass(frozen=True)
class Rival:
    """A neural process under its name; or none, and in words why not."""

    name: str
    process: NeuralProcess | None
    absence: str = ""


def find_rival(name: str, model: NDP, device: str) -> Rival:
    """The neural process `name`. Without a name, the attentive one that ships for the model's prior, if it can be had."""
    prior = prior_of(model)
    chosen = name or f"anp-{prior}"
    if not name and (reason := _why_not(chosen)):
        return Rival(chosen, None, f"The neural process {chosen} is left out: {reason}.")
    process = load(chosen)
    if not isinstance(process, NeuralProcess):
        raise ValueError(f"{chosen} is not a neural process")
    if prior_of(process) != prior:
        raise ValueError(
            f"{chosen} was trained on {prior_of(process) or 'a table'}, and the model beside it on {prior}"
        )
    return Rival(Path(chosen).name, process.to(read_device(device)))


def _why_not(shipped: str) -> str:
    if shipped not in names():
        return "no such model ships; another can be named (--neural-process FOLDER)"
    try:
        package()
    except ValueError as error:
        return str(error)
    return ""
