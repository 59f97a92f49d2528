"""The model of a regressor: loaded by its name once in a process, on the device that is asked for."""

import hashlib
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from ndp.core.devices import read_device
from ndp.core.units import FixedUnits
from ndp.processes.local import LocalPosterior
from ndp.processes.ndp import NDP
from ndp.processes.posterior import NDPPosterior
from ndp.processes.regions import ROWS_IN_CONTEXT

MOST_ROWS, MOST_COLUMNS = 10_000, 100  # of a table, where each value is conditioned on the rows around it


@dataclass(frozen=True)
class ModelReference:
    """A model by its name or folder, or the model itself, and a device."""

    model: Any
    device: str

    def load(self) -> NDP:
        """The model, if it takes its units from the data."""
        if isinstance(self.model, NDP):
            return _for_any_table(_on_device(self.model, self.device), "the model")
        if not isinstance(self.model, str):
            raise ValueError(f"model must be a name, a folder or an NDP, not {self.model!r}")
        return _for_any_table(loaded(self.model, self.device), self.model)

    @property
    def named(self) -> str | None:
        """The name or folder; none of a model itself."""
        return self.model if isinstance(self.model, str) else None

    @property
    def moved(self) -> tuple[Any, ...]:
        """What changes with the model and its device. A model can be moved to another device in place."""
        return self.model, self.device, self.model.device if isinstance(self.model, NDP) else None


@dataclass(frozen=True)
class Limits:
    """How many rows and encoded columns a model takes."""

    rows: int
    columns: int | None

    @staticmethod
    def of(model: NDP) -> "Limits":
        """Those of tables with contexts of their own for each region, where the model can have them."""
        if model.takes_large_tables:
            return Limits(MOST_ROWS, MOST_COLUMNS)
        return Limits(ROWS_IN_CONTEXT, max(model.input_dims) if model.input_dims else None)


def condition(model: NDP, x: np.ndarray, y: np.ndarray) -> NDPPosterior | LocalPosterior:
    """The posterior of a table: of all rows where the model was trained for as many, else of those around each question."""
    dims = model.input_dims
    if len(x) > ROWS_IN_CONTEXT or (dims and x.shape[1] > max(dims)):
        return model.condition_locally(x, y)
    return model.condition(x, y)


@lru_cache(maxsize=4)
def loaded(name: str, device: str) -> NDP:
    """The model of this name."""
    from ndp.models.registry import load_ndp

    return load_ndp(name, device)


def weights_digest(model: NDP) -> str:
    """SHA-256 of all weights of the network; empty for an exact one, which has none."""
    if not isinstance(model.network, torch.nn.Module):
        return ""
    digest = hashlib.sha256()
    for name, values in sorted(model.network.state_dict().items()):
        digest.update(name.encode())
        digest.update(values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _for_any_table(model: NDP, name: str) -> NDP:
    """The model, if it takes its units from the data. Any other answers in units of its own, far from those of a table."""
    if model.units is None or isinstance(model.units, FixedUnits) or model.num_outputs != 1:
        raise ValueError(
            f"{name} does not take its units from the data, so its predictions for a table would be wrong; use universal, or "
            "ndp.load(...).condition(x, y) in the units that it was trained in"
        )
    return model


def _on_device(model: NDP, device: str) -> NDP:
    """The model itself, or a copy of it if it is on another device."""
    if not isinstance(model.network, torch.nn.Module) or model.device.type == read_device(device).type:
        return model
    twin = copy(model)
    twin.network = deepcopy(model.network).to(read_device(device))
    return twin
