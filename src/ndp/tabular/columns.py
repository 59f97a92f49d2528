"""The columns of a table as they come: numbers, booleans, categories with and without an order, and cells without a value."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from ndp.core.arrays import LARGEST
from ndp.core.io.tables import listed, parse_number, shown
from ndp.core.messages import short

MOSTLY_NUMBERS = 0.8  # of the cells of text: the others are then mistakes, and not categories
BLANK = {"", "na", "nan", "n/a", "null", "none", "?", "<na>"}  # text that is a cell without a value


class Kind(StrEnum):
    """What a column is taken for."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    ORDERED = "ordered category"
    CATEGORY = "category"


@dataclass(frozen=True)
class ColumnType:
    """What a column was taken for when the regressor was fitted, with the order of its levels where it has one."""

    name: str
    kind: Kind
    order: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """The cells of a column: numbers with NaN for a gap, or for a category its levels as text with None for a gap."""

    type: ColumnType
    values: np.ndarray  # [N]
    labels: np.ndarray | None = None  # of the rows, [N], where the table has an index of its own

    @property
    def missing(self) -> np.ndarray:
        """Which cells are without a value, [N]."""
        return pd.isna(self.values)

    def take(self, rows: np.ndarray) -> "Column":
        return Column(self.type, self.values[rows], None if self.labels is None else self.labels[rows])


def raw_columns(X: Any) -> dict[str, Any]:
    """The columns of a table or an array under their names, or under their numbers; nothing where these are no columns."""
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError("X is a masked array, whose mask would be lost; pass NaN in its masked cells instead")
    if hasattr(X, "to_pandas") and not isinstance(X, pd.DataFrame):
        X = X.to_pandas()
    if isinstance(X, pd.DataFrame):
        twice = [str(name) for name, count in Counter(X.columns).items() if count > 1]
        if twice:
            raise ValueError(f"more than one column is named {listed(twice)}; give each column a name of its own")
        return {str(name): X[name] for name in X.columns}
    array = _array_of(X) if isinstance(X, list | tuple) else X
    if not isinstance(array, np.ndarray):  # such as a sparse matrix
        return {}
    return {str(i): array[:, i] for i in range(array.shape[1])} if array.ndim == 2 else {}


def _array_of(rows: Sequence[Any]) -> np.ndarray:
    """Rows as an array whose numbers stay numbers where other cells are text."""
    try:
        plain = np.asarray(rows)
        return plain if plain.dtype.kind not in "US" else np.asarray(rows, dtype=object)
    except ValueError:  # rows of different lengths
        return np.empty(0)


def has_no_arrays_of_numbers(columns: Mapping[str, Any]) -> bool:
    """Whether some column is not an array of numbers or booleans: text, categories, or objects."""
    return any(getattr(getattr(column, "dtype", None), "kind", "O") not in "iufbcMm" for column in columns.values())


def column_types(columns: Mapping[str, Any], categories: Iterable[Hashable] = ()) -> tuple[ColumnType, ...]:
    """What each column is taken for; `categories` names columns whose numbers are codes."""
    coded = {str(name) for name in categories}
    unknown = sorted(coded - set(columns))
    if unknown:
        raise ValueError(f"categories names {listed(unknown)}, and the columns are: {listed(columns)}")
    return tuple(_type_of(name, column, name in coded) for name, column in columns.items())


def read_columns(columns: Mapping[str, Any], types: Sequence[ColumnType]) -> tuple[Column, ...]:
    """The cells of every column, read as what it was taken for."""
    return tuple(
        Column(one, _read(one, each), _labels(each)) for one, each in zip(types, columns.values(), strict=True)
    )


def _type_of(name: str, column: Any, coded: bool) -> ColumnType:
    dtype = column.dtype
    if str(dtype) == "category":
        order = tuple(_level(value) for value in dtype.categories) if dtype.ordered else ()
        return ColumnType(name, Kind.ORDERED if order else Kind.CATEGORY, () if coded else order)
    if isinstance(dtype, pd.DatetimeTZDtype) or getattr(dtype, "kind", "O") in "Mm":
        raise ValueError(f"columns hold dates or times, not numbers: {name}. Write them as days or seconds first")
    if getattr(dtype, "kind", "O") == "c":
        raise ValueError("Complex data not supported: split it into real and imaginary parts")
    if coded:
        return ColumnType(name, Kind.CATEGORY)
    if getattr(dtype, "kind", "O") in "iuf":
        return ColumnType(name, Kind.NUMBER)
    cells = _present(column)
    if getattr(dtype, "kind", "O") == "b" or (len(cells) and all(isinstance(cell, bool | np.bool_) for cell in cells)):
        return ColumnType(name, Kind.BOOLEAN)
    _check_cells(name, cells)
    text = [cell for cell in cells if isinstance(cell, str)]
    if len(text) < len(cells) and text:
        return ColumnType(name, Kind.CATEGORY)
    wrong = [cell for cell in text if not _is_number(cell)]
    if wrong and len(wrong) <= (1 - MOSTLY_NUMBERS) * len(text) and len(set(wrong)) == len(wrong):
        where = next(i for i, cell in enumerate(_objects(column)) if isinstance(cell, str) and cell == wrong[0])
        raise ValueError(
            f"column {shown(name)} holds {shown(wrong[0])!r} in {_row(column, where)}, and numbers in most of its cells; "
            "correct the cell, leave it empty, or name the column among the categories"
        )
    return ColumnType(name, Kind.CATEGORY if wrong else Kind.NUMBER)


def _read(one: ColumnType, column: Any) -> np.ndarray:
    if one.kind is Kind.CATEGORY:
        return np.array([None if _is_blank(cell) else _level(cell) for cell in _objects(column)], dtype=object)
    if one.kind is Kind.ORDERED:
        place = {level: float(index) for index, level in enumerate(one.order)}
        return np.array([np.nan if _is_blank(cell) else place.get(_level(cell), np.nan) for cell in _objects(column)])
    if getattr(column.dtype, "kind", "O") in "iufb":
        cells = column if isinstance(column, np.ndarray) else column.to_numpy(np.float64, na_value=np.nan)
        return _finite(one, cells.astype(np.float64), column)
    return _finite(one, np.array([_number(one, cell) for cell in _objects(column)], dtype=np.float64), column)


def _finite(one: ColumnType, values: np.ndarray, column: Any) -> np.ndarray:
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST) & ~np.isnan(values))
    if len(wrong):
        value, where = values[wrong[0]], _row(column, int(wrong[0]))
        advice = "leave the cell empty" if np.isinf(value) else "divide the column by a constant first"
        raise ValueError(
            f"column {shown(one.name)} of X holds {value} in {where}, and numbers must be finite and at most {LARGEST:g} in "
            f"size; {advice}"
        )
    return values


def _number(one: ColumnType, cell: Any) -> float:
    if _is_blank(cell):
        return np.nan
    try:
        return parse_number(cell) if isinstance(cell, str) else float(cell)
    except OverflowError:
        raise ValueError(
            f"column {shown(one.name)} holds {short(cell)}, and cells must be numbers that float64 can hold"
        ) from None
    except (ValueError, TypeError):
        raise ValueError(
            f"column {shown(one.name)} was taken for a {one.kind}, and one of its cells is {short(cell)}"
        ) from None


def _labels(column: Any) -> np.ndarray | None:
    """The index of a table, unless it counts from 0."""
    index = getattr(column, "index", None)
    counts = not isinstance(index, pd.Index) or index.equals(pd.RangeIndex(len(column)))
    return None if counts else np.asarray(index, dtype=object)


def _row(column: Any, where: int) -> str:
    labels = _labels(column)
    return f"row {where} (counted from 0)" if labels is None else f"row {shown(str(labels[where]))}"


def _check_cells(name: str, cells: Sequence[Any]) -> None:
    for cell in cells:
        if isinstance(cell, complex | np.complexfloating):
            raise ValueError("Complex data not supported: split it into real and imaginary parts")
        if hasattr(cell, "year") and hasattr(cell, "day"):
            raise ValueError(f"columns hold dates or times, not numbers: {name}. Write them as days or seconds first")
        if not isinstance(cell, str | Real | np.bool_) and not hasattr(cell, "__float__"):
            raise TypeError(
                f"column {shown(name)} holds a {type(cell).__name__}, and a cell's argument must be a string or a number"
            )


def _present(column: Any) -> list[Any]:
    return [cell for cell in _objects(column) if not _is_blank(cell)]


def _objects(column: Any) -> np.ndarray:
    return column.astype(object) if isinstance(column, np.ndarray) else np.asarray(column.astype(object), dtype=object)


def _is_blank(cell: Any) -> bool:
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return True
    if isinstance(cell, str):
        return cell.strip().lower() in BLANK
    return isinstance(cell, float) and cell != cell


def _is_number(cell: str) -> bool:
    try:
        parse_number(cell)
    except ValueError:
        return False
    return True


def _level(cell: Any) -> str:
    """The name of a level: 1, 1.0 and "1" are the same one."""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).strip()
