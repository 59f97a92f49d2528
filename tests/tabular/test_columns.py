"""Columns are taken for what they are, cell by cell, and mistakes are named."""

import datetime

import numpy as np
import pandas as pd
import pytest

from ndp.tabular.columns import Kind, column_types, has_no_arrays_of_numbers, raw_columns, read_columns


def taken(table: object, categories: tuple[object, ...] = ()) -> dict[str, tuple[Kind, list[object]]]:
    raw = raw_columns(table)
    columns = read_columns(raw, column_types(raw, categories))
    return {column.type.name: (column.type.kind, column.values.tolist()) for column in columns}


def test_pandas_columns_are_taken_for_what_they_are() -> None:
    table = pd.DataFrame(
        {
            "whole": [1, 2, 3],
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "flag": [True, False, True],
            "maybe": [True, None, False],
            "text": ["b", None, "a"],
            "string": pd.array(["b", pd.NA, "a"], dtype="string"),
            "unordered": pd.Categorical(["x", "y", "x"]),
            "ordered": pd.Categorical(["low", "high", "low"], categories=["low", "high"], ordered=True),
            "numbers as text": ["1.5", "", "2"],
            "mixed": ["a", 2, 3.0],
        }
    )
    found = taken(table)
    nan = float("nan")
    expected = {
        "whole": (Kind.NUMBER, [1.0, 2.0, 3.0]),
        "nullable": (Kind.NUMBER, [1.0, nan, 3.0]),
        "flag": (Kind.BOOLEAN, [1.0, 0.0, 1.0]),
        "maybe": (Kind.BOOLEAN, [1.0, nan, 0.0]),
        "text": (Kind.CATEGORY, ["b", None, "a"]),
        "string": (Kind.CATEGORY, ["b", None, "a"]),
        "unordered": (Kind.CATEGORY, ["x", "y", "x"]),
        "ordered": (Kind.ORDERED, [0.0, 1.0, 0.0]),
        "numbers as text": (Kind.NUMBER, [1.5, nan, 2.0]),
        "mixed": (Kind.CATEGORY, ["a", "2", "3"]),
    }
    assert list(found) == list(expected)
    for name, (kind, values) in expected.items():
        assert found[name][0] is kind, name
        assert str(found[name][1]) == str(values), name


def test_codes_are_categories_where_they_are_named_as_such() -> None:
    table = pd.DataFrame({"code": [1, 2, 1], "size": [1.0, 2.0, 3.0]})
    assert taken(table, ("code",))["code"] == (Kind.CATEGORY, ["1", "2", "1"])
    assert taken(table.to_numpy(), (0,))["0"] == (Kind.CATEGORY, ["1", "2", "1"])  # 1 and 1.0 are the same level
    with pytest.raises(ValueError, match="categories names colour, and the columns are: code, size"):
        taken(table, ("colour",))


def test_arrays_and_lists_of_mixed_cells_keep_their_numbers() -> None:
    rows = [[1, "red", None], [2.5, "blue", True], [None, "red", False]]
    found = taken(rows)
    assert [kind for kind, _ in found.values()] == [Kind.NUMBER, Kind.CATEGORY, Kind.BOOLEAN]
    assert str(found["0"][1]) == "[1.0, 2.5, nan]"
    assert str(taken(np.array(rows, dtype=object))) == str(found)
    assert not has_no_arrays_of_numbers(raw_columns(np.ones((2, 2))))
    assert has_no_arrays_of_numbers(raw_columns(rows))


@pytest.mark.parametrize(
    ("cells", "error", "message"),
    [
        ([[1], [2]], TypeError, "column a holds a list, and a cell's argument must be a string or a number"),
        ([{"b": 1}, 2], TypeError, "column a holds a dict"),
        ([1 + 2j, 1], ValueError, "Complex data not supported"),
        ([datetime.date(2020, 1, 1), None], ValueError, "columns hold dates or times, not numbers: a. Write them as"),
        ([1.0, np.inf], ValueError, r"column a of X holds inf in row 1 \(counted from 0\), and numbers must be finite"),
        ([1.0, 1e308], ValueError, "divide the column by a constant first"),
        (
            ["1", "2", "3", "4", "5", "x7"],
            ValueError,
            r"column a holds 'x7' in row 5 .* and numbers in most of its cells",
        ),
    ],
)
def test_cells_that_are_neither_numbers_nor_levels_are_named(cells: list, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        taken(pd.DataFrame({"a": pd.Series(cells)}))


def test_a_row_is_named_by_the_index_of_its_table() -> None:
    with pytest.raises(ValueError, match="holds 'x7' in row f, and numbers"):
        taken(pd.DataFrame({"a": ["1", "2", "3", "4", "5", "x7"]}, index=list("abcdef")))


def test_later_rows_are_read_as_the_first_ones_were() -> None:
    first = raw_columns(pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": pd.Categorical([3, 4], ordered=True)}))
    types = column_types(first)
    later = read_columns(raw_columns([["3", 5, 4], [None, "x", 9]]), types)
    assert str([column.values.tolist() for column in later]) == "[[3.0, nan], ['5', 'x'], [1.0, nan]]"
    with pytest.raises(ValueError, match="column a was taken for a number, and one of its cells is 'red'"):
        read_columns(raw_columns([["red", "x", 3]]), types)
