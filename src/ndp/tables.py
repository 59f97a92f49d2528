"""Reading observations and inputs from CSV files, and writing draws to one.

Columns are `x1 .. xD` (or `x` where there is one), `y`, and optionally `noise`, the standard deviation of each observation.
"""

import csv
import math
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np


class TableError(ValueError):
    """A file that cannot be read as asked; the message names file, row and column."""


@dataclass(frozen=True)
class Observations:
    """Points of one function."""

    x: np.ndarray  # [N, D]
    y: np.ndarray  # [N]
    noise: np.ndarray | None  # [N]


def read_observations(path: Path) -> Observations:
    """Inputs, values and, where there is such a column, noise."""
    columns, table = _read(path, "y", "noise")
    if "y" not in columns:
        raise TableError(f"{path} has no column y; its columns are: {', '.join(columns)}")
    noise = table[:, columns.index("noise")] if "noise" in columns else None
    return Observations(_inputs(path, columns, table), table[:, columns.index("y")], noise)


def read_inputs(path: Path) -> np.ndarray:
    """Inputs alone: [N, D]. A column y or noise is ignored."""
    columns, table = _read(path)
    if not len(table):
        raise TableError(f"{path} holds no rows; at least one input is needed")
    return _inputs(path, columns, table)


def write_draws(path: Path, x: np.ndarray, mean: np.ndarray, std: np.ndarray, draws: np.ndarray) -> None:
    """One row an input: its coordinates, mean, standard deviation, and a column for every draw."""
    header = [*input_columns(x.shape[1]), "mean", "std", *(f"draw{i + 1}" for i in range(len(draws)))]
    values = np.column_stack([mean, std, draws.T])
    with whole_file(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for point, row in zip(x, values, strict=True):  # inputs as they were: a time stamp has more than nine digits
            writer.writerow([*(repr(float(value)) for value in point), *(f"{value:.9g}" for value in row)])


def input_columns(dim: int) -> list[str]:
    return [f"x{i + 1}" for i in range(dim)]


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path that becomes `path` only when everything was written."""
    if path.exists() and not path.is_file():
        raise TableError(f"cannot write {path}: it is {'a folder' if path.is_dir() else 'not a regular file'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    except FileExistsError:
        raise TableError(f"cannot write {path}: {path.parent} is not a folder") from None
    except OSError as error:
        raise TableError(f"cannot write {path}: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: Path, *others: str) -> tuple[list[str], np.ndarray]:
    """The names of all columns, and the numbers in those of inputs and in `others`."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except FileNotFoundError:
        raise TableError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise TableError(f"{path} is a folder, not a CSV file") from None
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise TableError(f"{path} is not a CSV file: {error}") from error
    if not rows or not any(cell.strip() for cell in rows[0]):
        what = "has an empty first row" if any(cell.strip() for row in rows for cell in row) else "is empty"
        raise TableError(f"{path} {what}; its first row must name the columns, such as x1,y")
    columns = [cell.strip() for cell in rows[0]]
    twice = sorted({name for name in columns if name and columns.count(name) > 1})
    if twice:
        raise TableError(f"{path} names the column {twice[0]} more than once")
    lines = [(number, row) for number, row in enumerate(rows[1:], start=2) if any(cell.strip() for cell in row)]
    wanted = [i for i, name in enumerate(columns) if name in others or _is_input(name)]
    table = np.zeros((len(lines), len(columns)))
    for position, (number, row) in enumerate(lines):
        if len(row) != len(columns):
            raise TableError(f"{path}, row {number}: {len(row)} cells where the first row names {len(columns)}")
        for i in wanted:
            where = f"{path}, row {number}, column {columns[i]}"
            table[position, i] = _number(row[i], where)
            if columns[i] == "noise" and table[position, i] < 0:
                raise TableError(f"{where}: a standard deviation cannot be negative")
    return columns, table


def _inputs(path: Path, columns: list[str], table: np.ndarray) -> np.ndarray:
    names = [name for name in columns if _is_input(name)]
    expected = ["x"] if names == ["x"] else input_columns(max(len(names), 1))
    missing = [name for name in expected if name not in names]
    if missing:
        raise TableError(
            f"{path} has no column {missing[0]}; inputs are named x1 to xD (or x), and its columns are: {', '.join(columns)}"
        )
    return table[:, [columns.index(name) for name in expected]]


def _is_input(name: str) -> bool:
    return re.fullmatch(r"x\d*", name) is not None


def _number(cell: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        what = "nothing" if not cell.strip() else f"{cell.strip()!r}"
        raise TableError(f"{where}: a number is needed, and there is {what}") from None
    if not math.isfinite(value):
        raise TableError(f"{where}: a finite number is needed, and there is {cell.strip()}")
    return value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
