"""Reading observations and inputs from CSV files, and writing draws to one.

Columns are `x1 .. xD` (or `x` where there is one), `y`, and optionally `noise`, the standard deviation of each observation.
"""

import csv
import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ndp.core.io.files import atomic_write


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
    with atomic_write(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for point, row in zip(x, values, strict=True):  # inputs as they were: a time stamp has more than nine digits
            writer.writerow([*(repr(float(value)) for value in point), *(f"{value:.9g}" for value in row)])


def input_columns(dim: int) -> list[str]:
    return [f"x{i + 1}" for i in range(dim)]


@contextmanager
def readable(path: Path, kind: str, *damage: type[Exception]) -> Iterator[BinaryIO]:
    """The opened file; what is wrong with it, or with reading from it (`damage`), is told in one line."""
    try:
        with path.open("rb") as file:
            yield file
    except TableError:
        raise
    except FileNotFoundError:
        raise TableError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise TableError(f"{path} is a folder, not {kind}") from None
    except damage as error:
        raise TableError(f"{path} is not {kind}: {' '.join(str(error).split())}") from error
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror or error}") from error


def read_cells(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of all columns of a CSV file, and the cells of every row that is not blank with its number in the file."""
    with (
        readable(path, "a CSV file", UnicodeDecodeError, csv.Error) as file,
        io.TextIOWrapper(file, newline="", encoding="utf-8-sig") as text,
    ):
        rows = list(csv.reader(text))
    if not rows or not any(cell.strip() for cell in rows[0]):
        what = "has an empty first row" if any(cell.strip() for row in rows for cell in row) else "is empty"
        raise TableError(f"{path} {what}; its first row must name the columns, such as x1,y")
    columns = [cell.strip() for cell in rows[0]]
    check_named_once(path, columns)
    lines = [(number, row) for number, row in enumerate(rows[1:], start=2) if any(cell.strip() for cell in row)]
    for number, row in lines:
        if len(row) != len(columns):
            raise TableError(f"{path}, row {number}: {len(row)} cells where the first row names {len(columns)}")
    return columns, lines


def check_named_once(path: Path, columns: list[str]) -> None:
    twice = sorted({name for name in columns if name and columns.count(name) > 1})
    if twice:
        raise TableError(f"{path} names the column {twice[0]} more than once")


def read_number(cell: str, where: str) -> float:
    """The finite number in a cell; `where` names file, row and column to whoever wrote something else."""
    try:
        value = float(cell)
    except ValueError:
        what = "nothing" if not cell.strip() else f"{cell.strip()!r}"
        raise TableError(f"{where}: a number is needed, and there is {what}") from None
    if not math.isfinite(value):
        raise TableError(f"{where}: a finite number is needed, and there is {cell.strip()}")
    return value


def numbered_columns(path: Path, columns: list[str], letter: str) -> list[str]:
    """The names of the inputs (letter x) or of the outputs (letter y), in order: x1 to xD, or x alone."""
    names = [name for name in columns if is_numbered(name, letter)]
    expected = [letter] if names == [letter] else [f"{letter}{i + 1}" for i in range(max(len(names), 1))]
    missing = [name for name in expected if name not in names]
    if missing:
        rule = {"x": "inputs are named x1 to xD (or x)", "y": "outputs are named y1 to yP (or y)"}[letter]
        raise TableError(f"{path} has no column {missing[0]}; {rule}, and its columns are: {', '.join(columns)}")
    return expected


def is_numbered(name: str, letter: str) -> bool:
    return re.fullmatch(rf"{letter}\d*", name) is not None


def _read(path: Path, *others: str) -> tuple[list[str], np.ndarray]:
    """The names of all columns, and the numbers in those of inputs and in `others`."""
    columns, lines = read_cells(path)
    wanted = [i for i, name in enumerate(columns) if name in others or is_numbered(name, "x")]
    table = np.zeros((len(lines), len(columns)))
    for position, (number, row) in enumerate(lines):
        for i in wanted:
            where = f"{path}, row {number}, column {columns[i]}"
            table[position, i] = read_number(row[i], where)
            if columns[i] == "noise" and table[position, i] < 0:
                raise TableError(f"{where}: a standard deviation cannot be negative")
    return columns, table


def _inputs(path: Path, columns: list[str], table: np.ndarray) -> np.ndarray:
    return table[:, [columns.index(name) for name in numbered_columns(path, columns, "x")]]
