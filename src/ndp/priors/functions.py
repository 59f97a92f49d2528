"""A table of the user's own functions as training data.

Columns are `task` (text or number), `x1 .. xD` (or `x`), and `y` (or `y1 .. yP`); others are ignored. A row is one point of
the function that `task` names; a function has any number of rows, in any order, anywhere in the table.
"""

import statistics
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.extras import MissingExtraError
from ndp.core.io.tables import (
    TableError,
    check_named_once,
    is_numbered,
    numbered_columns,
    read_cells,
    read_number,
    readable,
)
from ndp.core.units import FixedUnits
from ndp.priors.tasks import Batch

FEW_TASKS = 50


@final
@dataclass(frozen=True)
class Functions:
    """T functions of at most R rows each; `mask=True` is a real row, and what padding holds is 0."""

    x: Float[Tensor, "T R D"]
    y: Float[Tensor, "T R P"]
    mask: Bool[Tensor, "T R"]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def to(self, device: torch.device) -> "Functions":
        return replace(self, x=self.x.to(device), y=self.y.to(device), mask=self.mask.to(device))


def read_functions(path: Path | str) -> Functions:
    """The functions of a CSV, Parquet or NPZ file, in float64 and in the order in which they first appear."""
    path = Path(path)
    if path.suffix.lower() not in _READERS:
        endings = f"{', '.join(list(_READERS)[:-1])} or {list(_READERS)[-1]}"
        raise TableError(f"{path}: the name of a table of functions must end in {endings}")
    table = _READERS[path.suffix.lower()](path)
    columns = list(table.columns)
    if "task" not in columns:
        raise TableError(
            f"{path} has no column task, which names the function that a row belongs to; "
            f"its columns are: {', '.join(columns)}"
        )
    x_names, y_names = (numbered_columns(path, columns, letter) for letter in "xy")
    names = table.names()
    if not names:
        raise TableError(f"{path} holds no rows")
    x, y = (np.column_stack([table.numbers(name) for name in some]) for some in (x_names, y_names))
    functions = _grouped(names, x, y)
    if len(functions) == 1:
        raise TableError(f"{path} holds one task only, {functions.names[0]!r}; a model of functions needs many")
    if functions.mask.shape[1] < 2:
        raise TableError(f"{path} has one row in every task; at least one task needs two, one of them to be predicted")
    if len(functions) < FEW_TASKS:
        warnings.warn(
            f"{path} holds {len(functions)} tasks: a model trained on so few will know little more than these functions; "
            "a prior with invented variation, or a Gaussian process, may do better",
            UserWarning,
            stacklevel=1,  # one place for all callers, so that Python shows it once
        )
    return functions


def split(functions: Functions, validation_share: float = 0.1, seed: int = 0) -> tuple[Functions, Functions]:
    """Functions to train on and functions to validate with: complete ones, at least one each, chosen by the seed."""
    if not 0 < validation_share < 1:
        raise ValueError(f"validation_share must lie between 0 and 1, not {validation_share}")
    if len(functions) < 2:
        raise ValueError(f"at least two functions are needed for a split, and there is {len(functions)}")
    count = min(max(round(validation_share * len(functions)), 1), len(functions) - 1)
    order = torch.randperm(len(functions), generator=torch.Generator().manual_seed(seed))
    return _taken(functions, order[count:].sort().values), _taken(functions, order[:count].sort().values)


def units_of(functions: Functions) -> FixedUnits:
    """Brings every input dimension to [-2, 2] and every output to mean 0 and standard deviation 1, over all rows.

    A column that holds one value only is shifted to 0 and not scaled.
    """
    x, y = functions.x[functions.mask], functions.y[functions.mask]
    low, high = x.amin(0), x.amax(0)
    varies = y.amin(0) < y.amax(0)
    y_shift = torch.where(varies, y.mean(0), y[0])
    y_scale = torch.where(varies, y.std(0, correction=0), 1.0)
    x_scale = (high - low) / 4
    return FixedUnits(
        x_shift=tuple(((low + high) / 2).tolist()),
        x_scale=tuple(torch.where(x_scale > 0, x_scale, 1.0).tolist()),
        y_shift=tuple(y_shift.tolist()),
        y_scale=tuple(torch.where(y_scale > 0, y_scale, 1.0).tolist()),
    )


def scaled(functions: Functions, units: FixedUnits) -> Functions:
    """The same functions in model units."""
    padding = ~functions.mask[..., None]
    maps = units.on(functions.x.device)
    x, y = maps.to_model_x(functions.x), maps.to_model_y(functions.y)
    return replace(functions, x=x.masked_fill(padding, 0.0), y=y.masked_fill(padding, 0.0))


@final
@dataclass(frozen=True)
class TableSource:
    """Tasks made of functions in model units: some rows of a function as context, others as targets.

    A function is drawn with replacement and its rows are put in random order. Of r rows, a uniformly random number from 0 to
    min(most_context, r - 1) come first and are context; up to `targets` of the others are targets. Where no `most_context` is
    given it is half of the median number of rows, from 1 to 64.
    """

    functions: Functions
    targets: int = 50
    most_context: int | None = None
    # Places in every batch; those for targets are no more than the longest function can fill.
    num_context: int = field(init=False)
    num_targets: int = field(init=False)
    _copies: dict[torch.device, Functions] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        rows = self.functions.mask.sum(1).tolist()
        if not rows or min(rows) < 1:
            raise ValueError("a source needs functions, and every function needs at least one row")
        if self.targets < 1:
            raise ValueError(f"targets must be at least 1, not {self.targets}")
        if self.most_context is not None and self.most_context < 0:
            raise ValueError(f"most_context cannot be negative, and is {self.most_context}")
        half = min(max(int(statistics.median(rows) / 2), 1), 64)
        object.__setattr__(self, "num_context", half if self.most_context is None else self.most_context)
        object.__setattr__(self, "num_targets", min(self.targets, max(rows)))

    def draw(self, tasks: int, *, generator: torch.Generator) -> Batch:
        device = generator.device
        table = self._on(device)
        which = torch.randint(len(table), (tasks,), generator=generator, device=device)
        mask = table.mask[which]
        rows = mask.sum(1, keepdim=True)
        sizes = (rows - 1).clamp(max=self.num_context) + 1
        chance = torch.rand(tasks, 1, generator=generator, device=device, dtype=torch.float64)
        context = (chance * sizes).long()

        places = self.num_context + self.num_targets
        key = torch.rand(mask.shape, generator=generator, device=device, dtype=torch.float64)
        order = (
            key.masked_fill(~mask, 2.0).topk(min(places, mask.shape[1]), largest=False).indices
        )  # padding comes last
        place = torch.arange(places, device=device)
        is_context = place < self.num_context
        position = torch.where(is_context, place, place - self.num_context + context)
        filled = torch.where(is_context, place < context, position < rows)
        row = order.gather(1, position.clamp(max=order.shape[1] - 1))
        x, y = table.x[which[:, None], row], table.y[which[:, None], row]
        empty = ~filled[..., None]
        return Batch(x.masked_fill(empty, 0.0), y.masked_fill(empty, 0.0), filled, self.num_context, filled)

    def _on(self, device: torch.device) -> Functions:
        """The functions on a device, moved there once."""
        if device not in self._copies:
            self._copies[device] = self.functions.to(device)
        return self._copies[device]


def _grouped(names: list[str], x: np.ndarray, y: np.ndarray) -> Functions:
    """Rows of one task after another, each in the order of the file, padded to the longest."""
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    task = np.array([number[name] for name in names])
    counts = np.bincount(task)
    order = np.argsort(task, kind="stable")
    task = task[order]
    place = np.arange(len(task)) - (np.cumsum(counts) - counts)[task]
    padded = [np.zeros((len(counts), counts.max(), values.shape[1])) for values in (x, y)]
    for target, values in zip(padded, (x, y), strict=True):
        target[task, place] = values[order]
    mask = np.arange(counts.max()) < counts[:, None]
    return Functions(torch.from_numpy(padded[0]), torch.from_numpy(padded[1]), torch.from_numpy(mask), tuple(number))


def _taken(functions: Functions, tasks: Tensor) -> Functions:
    names = tuple(functions.names[i] for i in tasks.tolist())
    index = tasks.to(functions.mask.device)
    return Functions(functions.x[index], functions.y[index], functions.mask[index], names)


@dataclass(frozen=True)
class _Table:
    """Columns as a file holds them, and what its user calls the i-th row. Columns that are not wanted hold nothing."""

    path: Path
    columns: Mapping[str, Sequence[Any] | np.ndarray]
    row: Callable[[int], str] = "row {} (counting from 0)".format

    def numbers(self, column: str) -> np.ndarray:
        values = self.columns[column]
        if isinstance(values, np.ndarray) and values.dtype.kind in "iuf" and np.isfinite(values).all():
            return values.astype(np.float64)
        return np.array(
            [read_number(_text(value), self._where(i, column)) for i, value in enumerate(values)], dtype=float
        )

    def names(self) -> list[str]:
        """What the tasks are called; the same for the number 3, the number 3.0 and the text 3."""
        values = self.columns["task"]
        names = [_text(value).strip() for value in values]
        if isinstance(values, np.ndarray) and values.dtype.kind == "f":
            names = ["" if name == "nan" else name.removesuffix(".0") for name in names]
        if "" in names:
            raise TableError(
                f"{self._where(names.index(''), 'task')}: a name or number is needed, and there is nothing"
            )
        return names

    def _where(self, i: int, column: str) -> str:
        return f"{self.path}, {self.row(i)}, column {column}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _wanted(name: str) -> bool:
    return name == "task" or is_numbered(name, "x") or is_numbered(name, "y")


def _read_csv(path: Path) -> _Table:
    names, lines = read_cells(path)
    columns = {name: [row[i] for _, row in lines] if _wanted(name) else [] for i, name in enumerate(names)}
    return _Table(path, columns, lambda i: f"row {lines[i][0]}")


def _read_parquet(path: Path) -> _Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(f"{path} needs pyarrow to be read", "parquet") from None
    with readable(path, "a Parquet file", pyarrow.ArrowException) as file:
        parquet = pyarrow.parquet.ParquetFile(file)
        names = parquet.schema_arrow.names
        check_named_once(path, names)
        table = parquet.read(columns=[name for name in names if _wanted(name)])
    columns: dict[str, Sequence[Any] | np.ndarray] = {name: [] for name in names}
    for name, column in zip(table.column_names, table.columns, strict=True):
        is_numeric = pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)
        columns[name] = column.to_numpy() if is_numeric and not column.null_count else column.to_pylist()
    return _Table(path, columns)


def _read_npz(path: Path) -> _Table:
    damage = (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
    arrays: dict[str, np.ndarray | list[Any]] = {}
    with readable(path, "an NPZ file", *damage) as file:
        if not zipfile.is_zipfile(file):
            raise TableError(f"{path} is not an NPZ file")
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            for name in archive.files:
                try:
                    arrays[name] = archive[name] if _wanted(name) else []
                except ValueError:
                    raise TableError(
                        f"{path}: array {name} holds Python objects, which are never read, or is damaged; store numbers or text"
                    ) from None
    columns: list[tuple[str, np.ndarray | list[Any]]] = []
    for name, array in arrays.items():
        if isinstance(array, np.ndarray) and array.ndim == 2 and name in ("x", "y"):
            columns += [(f"{name}{i + 1}", column) for i, column in enumerate(array.T)]
        elif isinstance(array, np.ndarray) and array.ndim != 1:
            needed = "[rows] or [rows, columns]" if name in ("x", "y") else "[rows]"
            raise TableError(f"{path}: array {name} has shape {list(array.shape)}, and {needed} is needed")
        else:
            columns.append((name, array))
    check_named_once(path, [name for name, _ in columns])
    lengths = {name: len(array) for name, array in arrays.items() if _wanted(name)}
    first = next(iter(lengths), "")
    for name, length in lengths.items():
        if length != lengths[first]:
            raise TableError(f"{path}: array {first} has {lengths[first]} rows and array {name} has {length}")
    return _Table(path, dict(columns))


_READERS = {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}
