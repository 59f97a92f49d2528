"""Reading observations and inputs from CSV files, and writing draws to one.

Columns are `x1 .. xD` (or `x` where there is one), `y`, and optionally `noise`, the standard deviation of each observation.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd

from ndp.core.arrays import LARGEST

MOST_LISTED = 20  # names of columns in a message
# How files begin that are no text in UTF-8, and what they are.
_KINDS = {
    b"\x1f\x8b": "compressed by gzip; unpack it first",
    b"BZh": "compressed by bzip2; unpack it first",
    b"\xfd7zXZ": "compressed by xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard; unpack it first",
    b"PK\x03\x04": "a ZIP archive or an Excel workbook; unpack it, or save its sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an Excel workbook; save its sheet as CSV",
    b"PAR1": "a Parquet file; write it as CSV first",
    b"\x89PNG": "a picture",
    b"\xff\xfe\0\0": "text in UTF-32; save it in UTF-8",
    b"\xff\xfe": "text in UTF-16; save it in UTF-8",
    b"\xfe\xff": "text in UTF-16; save it in UTF-8",
}


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
    cells = read_table(path)
    if "y" not in cells:
        raise TableError(f"{path} has no column y; its columns are: {listed(cells)}")
    inputs = numbered_columns(path, list(cells), "x")
    numbers = to_numbers(path, cells[[*inputs, "y", *(["noise"] if "noise" in cells else [])]])
    noise = numbers["noise"].to_numpy() if "noise" in numbers else None
    if noise is not None and (noise < 0).any():
        row = numbers.index[noise < 0][0]
        raise TableError(f"{path}, row {row}, column noise: a standard deviation cannot be negative")
    return Observations(numbers[inputs].to_numpy(), numbers["y"].to_numpy(), noise)


def read_inputs(path: Path) -> np.ndarray:
    """Inputs alone: [N, D]. A column y or noise is ignored."""
    cells = read_table(path)
    if not len(cells):
        raise TableError(f"{path} holds no rows; at least one input is needed")
    return to_numbers(path, cells[numbered_columns(path, list(cells), "x")]).to_numpy()


def read_table(path: Path) -> pd.DataFrame:
    """All cells of a CSV file as text; the index is the number of the row in the file."""
    columns, lines = read_cells(path)
    return pd.DataFrame([row for _, row in lines], index=[number for number, _ in lines], columns=columns, dtype=object)


def to_numbers(path: Path, cells: pd.DataFrame, read: Callable[[str, str], float] | None = None) -> pd.DataFrame:
    """The numbers in the cells of a table; `read` gets a cell, and where it is (default: `read_number`)."""
    read = read or read_number
    numbers = {
        name: [read(cell, f"{path}, row {row}, column {shown(name)}") for row, cell in column.items()]
        for name, column in cells.items()
    }
    return pd.DataFrame(numbers, index=cells.index, dtype=np.float64)


def write_draws(path: Path, x: np.ndarray, mean: np.ndarray, std: np.ndarray, draws: np.ndarray) -> None:
    """One row an input: its coordinates, mean, standard deviation, and a column for every draw. See `write_table`."""
    results = ["mean", "std", *(f"draw{i + 1}" for i in range(len(draws)))]
    write_table(path, input_columns(x.shape[1]), x, results, np.column_stack([mean, std, draws.T]))


def write_table(path: Path, inputs: Sequence[str], x: np.ndarray, results: Sequence[str], values: np.ndarray) -> None:
    """Inputs to the last digit, for a time stamp has more than nine, and beside them results to nine digits.

    The file is written as it comes: `path` is to be that of an `atomic_write`.
    """
    table = pd.DataFrame(values, columns=list(results)).map("{:.9g}".format)
    known = pd.DataFrame(x, columns=list(inputs))
    if len(known) != len(table):
        raise ValueError(f"{len(table)} rows of results do not fit {len(known)} rows of inputs")
    pd.concat([known, table], axis=1).to_csv(path, index=False)


def input_columns(dim: int) -> list[str]:
    return [f"x{i + 1}" for i in range(dim)]


@contextmanager
def readable(path: Path, kind: str, *damage: type[Exception]) -> Iterator[BinaryIO]:
    """The opened file. An error in opening it, or in reading from it (`damage`), becomes a `TableError` of one line."""
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
        raise TableError(f"{path} is not {kind}: {shown(str(error), 200)}") from error
    except OSError as error:
        raise TableError(f"cannot read {path}: {shown(error.strerror or str(error), 200)}") from error


def read_cells(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of all columns of a CSV file, and the cells of every row that is not blank with its number in the file."""
    with readable(path, "a CSV file", UnicodeDecodeError, csv.Error) as file:
        _check_text(path, file)
        with io.TextIOWrapper(file, newline="", encoding="utf-8-sig") as text:
            rows = list(csv.reader(text))
    if not rows or not any(cell.strip() for cell in rows[0]):
        what = "has an empty first row" if any(cell.strip() for row in rows for cell in row) else "is empty"
        raise TableError(f"{path} {what}; its first row must name the columns, such as x1,y")
    columns = [cell.strip() for cell in rows[0]]
    check_named_once(path, columns)
    for character, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(columns) == 1 and character in columns[0]:
            raise TableError(
                f"{path} has {name} between its cells, and commas are needed, with points in numbers (x1,y and 0.5,1.2)"
            )
    lines = [(number, row) for number, row in enumerate(rows[1:], start=2) if any(cell.strip() for cell in row)]
    for number, row in lines:
        if len(row) != len(columns):
            raise TableError(f"{path}, row {number}: {len(row)} cells where the first row names {len(columns)}")
    return columns, lines


def _check_text(path: Path, file: BinaryIO) -> None:
    """Raise an error that says what a file is, if it is no text."""
    start = file.read(4096)
    file.seek(0)
    for beginning, what in _KINDS.items():
        if start.startswith(beginning):
            raise TableError(f"{path} is not a CSV file: it is {what}")
    if b"\0" in start:
        raise TableError(f"{path} is not a CSV file: it holds zero bytes, as UTF-16 and binary files do")


def check_named_once(path: Path, columns: list[str]) -> None:
    twice = sorted({name for name in columns if name and columns.count(name) > 1})
    if twice:
        raise TableError(f"{path} names the column {shown(twice[0])} more than once")


def shown(text: str, longest: int = 60) -> str:
    """Text of a file in one short line, as a message can hold it."""
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= longest else f"{line[:longest]}..."


def listed(names: Iterable[str]) -> str:
    """The names of columns, or of the first of many."""
    every = [shown(name) for name in names]
    more = f" and {len(every) - MOST_LISTED} more" if len(every) > MOST_LISTED else ""
    return ", ".join(every[:MOST_LISTED]) + more


def parse_number(cell: str) -> float:
    """The number that a cell holds; a `ValueError` for what is none, such as 1_000, which Python reads as 1000."""
    if "_" in cell or not cell.isascii():
        raise ValueError
    return float(cell)


def check_size(value: float, cell: str, where: str) -> float:
    """The number itself, if it is finite and of a size with which float64 can compute."""
    if not math.isfinite(value):
        raise TableError(f"{where}: a finite number is needed, and there is {shown(cell)}")
    if abs(value) > LARGEST:
        raise TableError(f"{where}: numbers of at most {LARGEST:g} in size are needed, and there is {shown(cell)}")
    return value


def read_number(cell: str, where: str) -> float:
    """The finite number in a cell; `where` names its file, row and column in the error for anything else."""
    try:
        value = parse_number(cell)
    except ValueError:
        what = "nothing" if not cell.strip() else f"{shown(cell)!r}"
        raise TableError(f"{where}: a number is needed, and there is {what}") from None
    return check_size(value, cell, where)


def numbered_columns(path: Path, columns: list[str], letter: str) -> list[str]:
    """The names of the inputs (letter x) or of the outputs (letter y), in order: x1 to xD, or x alone."""
    names = [name for name in columns if is_numbered(name, letter)]
    expected = [letter] if names == [letter] else [f"{letter}{i + 1}" for i in range(max(len(names), 1))]
    missing = [name for name in expected if name not in names]
    if missing:
        rule = {"x": "inputs are named x1 to xD (or x)", "y": "outputs are named y1 to yP (or y)"}[letter]
        raise TableError(f"{path} has no column {missing[0]}; {rule}, and its columns are: {listed(columns)}")
    return expected


def is_numbered(name: str, letter: str) -> bool:
    return re.fullmatch(rf"{letter}\d*", name) is not None
