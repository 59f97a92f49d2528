"""Tables of functions: read alike from every format, and told in words where they cannot be read."""

import csv
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

from ndp.core.extras import MissingExtraError
from ndp.core.io.tables import TableError
from ndp.priors.functions import Functions, read_functions

ELNINO = Path(__file__).parents[2] / "examples" / "elnino.csv"
Columns = dict[str, Any]


def write_csv(path: Path, columns: Columns) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True))


def write_parquet(path: Path, columns: Columns) -> None:
    pyarrow.parquet.write_table(pyarrow.table({name: pyarrow.array(column) for name, column in columns.items()}), path)


def write_npz(path: Path, columns: Columns) -> None:
    np.savez(path, **{name: np.asarray(column) for name, column in columns.items()})


WRITERS: dict[str, Callable[[Path, Columns], None]] = {"csv": write_csv, "parquet": write_parquet, "npz": write_npz}


def table_file(folder: Path, ending: str, columns: Columns) -> Path:
    path = folder / f"curves.{ending}"
    WRITERS[ending](path, columns)
    return path


def text_file(folder: Path, content: str) -> Path:
    path = folder / "curves.csv"
    path.write_text(content)
    return path


def read_few(path: Path | str) -> Functions:
    """Reads a table of so few tasks that this is said."""
    with pytest.warns(UserWarning, match="will know little more than these functions"):
        return read_functions(path)


# Reading


@pytest.mark.parametrize("ending", WRITERS)
def test_every_format_gives_the_same_functions(tmp_path: Path, ending: str) -> None:
    """Interleaved and ragged tasks, two inputs in any order of columns, two outputs, columns of no interest."""
    rng = np.random.default_rng(0)
    names = ["b", "a 7", "b", "c", "a 7", "b", "ß"]
    values = {name: rng.normal(size=7) * 10.0 ** rng.integers(-9, 9, size=7) for name in ("x1", "x2", "y1", "y2")}
    columns = {"y2": values["y2"], "note": list("uvw xyz"), "x2": values["x2"], "task": names, "x1": values["x1"]}
    functions = read_few(table_file(tmp_path, ending, columns | {"y1": values["y1"], "noise": [-1.0] * 7}))
    assert functions.names == ("b", "a 7", "c", "ß")
    assert len(functions) == 4
    assert functions.mask.tolist() == [[True] * 3, [True, True, False], [True, False, False], [True, False, False]]
    assert functions.x.dtype == functions.y.dtype == torch.float64
    for task, name in enumerate(functions.names):
        rows = [i for i, other in enumerate(names) if other == name]
        for letter, held in (("x", functions.x), ("y", functions.y)):
            expected = np.column_stack([values[f"{letter}1"][rows], values[f"{letter}2"][rows]])
            np.testing.assert_array_equal(held[task, : len(rows)].numpy(), expected)
            assert (held[task, len(rows) :] == 0).all()


def test_rows_stay_in_the_order_of_the_file(tmp_path: Path) -> None:
    task = np.random.default_rng(0).integers(60, size=5000)
    functions = read_functions(table_file(tmp_path, "npz", {"task": task, "x": np.arange(5000), "y": task}))
    for name, x, y, mask in zip(functions.names, functions.x, functions.y, functions.mask, strict=True):
        np.testing.assert_array_equal(x[mask, 0].numpy(), np.flatnonzero(task == int(name)))
        assert (y[mask] == int(name)).all()


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("kind", [np.int64, np.float64, np.float32, np.str_])
def test_tasks_may_be_numbers(tmp_path: Path, ending: str, kind: type) -> None:
    tasks = np.array([1950, 1951, 1950]).astype(kind)
    if ending == "csv" and tasks.dtype.kind == "f":
        tasks = tasks.astype(int)  # text is taken as it is
    functions = read_few(table_file(tmp_path, ending, {"task": tasks, "x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}))
    assert functions.names == ("1950", "1951")
    assert functions.x[..., 0].tolist() == [[1, 3], [2, 0]]


@pytest.mark.parametrize(
    "arrays",
    [
        pytest.param({"x": np.arange(8.0).reshape(4, 2), "y": np.arange(4)}, id="x [R, D], y [R]"),
        pytest.param({"x": np.arange(8, dtype=np.int32).reshape(4, 2), "y": np.arange(4)[:, None]}, id="y [R, 1]"),
        pytest.param({"x2": [1, 3, 5, 7], "x1": [0, 2, 4, 6], "y1": np.arange(4, dtype=np.float16)}, id="columns"),
        pytest.param({"x1": list("0246"), "x2": np.array([b"1", b"3", b"5", b"7"]), "y": list("0123")}, id="text"),
    ],
)
def test_arrays_may_be_whole_or_columns(tmp_path: Path, arrays: Columns) -> None:
    functions = read_few(table_file(tmp_path, "npz", {"task": np.array([b"a", b"b", b"a", b"b"]), **arrays}))
    assert functions.names == ("a", "b")
    assert functions.x.tolist() == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    assert functions.y.tolist() == [[[0], [2]], [[1], [3]]]


def test_parquet_columns_of_other_kinds(tmp_path: Path) -> None:
    columns = {
        "task": pyarrow.array(["a", "b", "a"]).dictionary_encode(),
        "x": pyarrow.array([1, 2, 3], pyarrow.decimal128(5, 2)),
        "y": pyarrow.array(["0.5", "1", "2"]),
    }
    path = tmp_path / "curves.PARQUET"
    write_parquet(path, columns)
    functions = read_few(str(path))
    assert functions.x[0, :, 0].tolist() == [1, 3]
    assert functions.y[0, :, 0].tolist() == [0.5, 2]


def test_the_shipped_example_is_whole() -> None:
    functions = read_functions(ELNINO)  # without a word: there are enough years
    assert functions.names == tuple(str(year) for year in range(1950, 2011))
    assert functions.mask.all()
    assert (functions.x[..., 0] == torch.arange(1.0, 13.0)).all()
    assert functions.y.shape == (61, 12, 1)
    assert 15 < functions.y.min() < functions.y.max() < 35  # degrees Celsius


def test_few_tasks_are_remarked_on_once_and_enough_are_not(tmp_path: Path) -> None:
    def table(tasks: int) -> Path:
        return table_file(
            tmp_path, "npz", {"task": np.arange(tasks).repeat(2), "x": [0, 1] * tasks, "y": [0, 1] * tasks}
        )

    message = "curves.npz holds 49 tasks: .* a prior with invented variation, or a Gaussian process, may do better$"
    with pytest.warns(UserWarning, match=message) as caught:
        read_functions(table(49))
    assert len(caught) == 1
    assert len(read_functions(table(50))) == 50
    path = table(49)
    with warnings.catch_warnings(record=True) as shown:  # as Python shows them where nobody asked otherwise
        warnings.simplefilter("default")
        for _ in range(2):
            read_functions(path)
        read_functions(path)
    assert len(shown) == 1


# What is wrong with a table


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x1,y\n0,1\n", "curves.csv has no column task, which names .*; its columns are: x1, y$"),
        ("task;x1;y\na;0;1\n", "curves.csv has semicolons between its cells, and commas are needed"),
        ("task,y\na,1\n", "curves.csv has no column x1; inputs are named x1 to xD .*: task, y$"),
        ("task,x1,x3,y\na,0,1,2\n", "curves.csv has no column x2; inputs are named x1 to xD"),
        ("task,x1,z\na,0,1\n", r"curves.csv has no column y1; outputs are named y1 to yP \(or y\), .*: task, x1, z$"),
        ("task,x1,y1,y3\na,0,1,2\n", "curves.csv has no column y2; outputs are named"),
        ("task,x,y\n", "curves.csv holds no rows$"),
        ("task,x,y\na,0,1\na,1,2\n", "curves.csv holds one task only, 'a'; a model of functions needs many$"),
        ("task,x,y\na,0,1\nb,1,2\n", "curves.csv has one row in every task; at least one task needs two"),
        ("task,x,y\na,0,1\n\nb,1,two\n", "curves.csv, row 4, column y: a number is needed, and there is 'two'$"),
        ("task,x,y\na,0,1\nb,,2\n", "curves.csv, row 3, column x: a number is needed, and there is nothing$"),
        ("task,x,y\na,0,1\nb,1,nan\n", "curves.csv, row 3, column y: a finite number is needed, and there is nan$"),
        ("task,x,y\na,0,1\nb,-inf,1\n", "curves.csv, row 3, column x: a finite number is needed, and there is -inf$"),
        ("task,x,y\na,0,1\n ,1,1\n", "curves.csv, row 3, column task: a name or number is needed, .* nothing$"),
        ("task,x,y\na,0\n", "curves.csv, row 2: 2 cells where the first row names 3$"),
        ("task,x,y,y\na,0,1,2\n", "curves.csv names the column y more than once$"),
        ("", "curves.csv is empty"),
    ],
)
def test_a_bad_csv_file(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(TableError, match=message) as caught:
        read_functions(text_file(tmp_path, content))
    assert "\n" not in str(caught.value)


GOOD: Columns = {"task": ["a", "b", "a"], "x": [0.0, 1.0, 2.0], "y": [3.0, 4.0, 5.0]}
ROW_2 = r"row 2 \(counting from 0\)"


@pytest.mark.parametrize("ending", ["parquet", "npz"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": ["a", "a", "a"]}, "holds one task only, 'a'"),
        ({"task": ["a", "b", "c"]}, "has one row in every task"),
        ({"task": ["a", "b", ""]}, f"{ROW_2}, column task: a name or number is needed, and there is nothing$"),
        ({"task": [1.0, 2.0, float("nan")]}, f"{ROW_2}, column task: a name or number is needed"),
        ({"y": [0.0, 1.0, float("nan")]}, f"{ROW_2}, column y: a finite number is needed, and there is nan$"),
        ({"x": [0.0, 1.0, float("inf")]}, f"{ROW_2}, column x: a finite number is needed, and there is inf$"),
        ({"x": ["0", "1", "two"]}, f"{ROW_2}, column x: a number is needed, and there is 'two'$"),
        ({"y": [True, False, True]}, r"row 0 .*, column y: a number is needed, and there is 'True'$"),
        (
            {"y": np.array(["2020-01-01"] * 3, dtype="M8[D]")},
            "column y: a number is needed, and there is '2020-01-01'$",
        ),
        ({"x": None, "x1": [0, 1, 2], "x3": [0, 1, 2]}, "has no column x2; inputs are named"),
        ({"task": None}, "has no column task, which names .*; its columns are: x, y$"),
        ({"y": None}, "has no column y1; outputs are named"),
        ({"task": np.array([], dtype=str), "x": np.array([]), "y": np.array([])}, "holds no rows$"),
    ],
)
def test_bad_columns(tmp_path: Path, ending: str, change: Columns, message: str) -> None:
    columns = {name: column for name, column in (GOOD | change).items() if column is not None}
    path = table_file(tmp_path, ending, columns)
    with pytest.raises(TableError, match=message) as caught:
        read_functions(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "what"), [("task", "a name or number"), ("x", "a number"), ("y", "a number")])
def test_a_missing_value_in_parquet(tmp_path: Path, name: str, what: str) -> None:
    path = table_file(tmp_path, "parquet", GOOD | {name: [1, 2, None]})
    with pytest.raises(TableError, match=f"{ROW_2}, column {name}: {what} is needed, and there is nothing$"):
        read_functions(path)


def test_a_parquet_column_named_twice(tmp_path: Path) -> None:
    path = tmp_path / "curves.parquet"
    column = pyarrow.array([0.0, 1.0])
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays([column] * 4, names=["task", "x", "y", "y"]), path)
    with pytest.raises(TableError, match=r"curves.parquet names the column y more than once$"):
        read_functions(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [3.0, 4.0]}, r"curves.npz: array task has 3 rows and array y has 2$"),
        ({"x": np.zeros((4, 2))}, "array task has 3 rows and array x has 4$"),
        ({"x": np.zeros((3, 2, 1))}, r"array x has shape \[3, 2, 1\], and \[rows\] or \[rows, columns\] is needed$"),
        ({"y": np.array(1.0)}, r"array y has shape \[\], and"),
        ({"task": np.zeros((3, 1))}, r"array task has shape \[3, 1\], and \[rows\] is needed$"),
        ({"x": np.zeros((3, 2)), "x2": np.zeros(3)}, "names the column x2 more than once$"),
        ({"x": np.zeros((3, 0))}, "has no column x1"),
        ({"task": np.array(["a", "b", None], dtype=object)}, "array task holds Python objects, which are never read"),
        ({"y": np.array([1, 2.0, "3"], dtype=object)}, "array y holds Python objects, .*; store numbers or text$"),
        ({"y": np.array([1j, 2j, 3j])}, "row 0 .*, column y: a number is needed, and there is '1j'$"),
    ],
)
def test_bad_arrays(tmp_path: Path, change: Columns, message: str) -> None:
    with pytest.raises(TableError, match=message):
        read_functions(table_file(tmp_path, "npz", GOOD | change))


def test_arrays_of_no_interest_may_be_anything_and_are_not_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
            return exec, ("raise SystemExit('unpickled')",)

    bomb = np.array([Bomb()], dtype=object)
    assert len(read_few(table_file(tmp_path, "npz", GOOD | {"about": bomb, "z": np.zeros(9)}))) == 2
    with pytest.raises(TableError, match="array x holds Python objects"):
        read_functions(table_file(tmp_path, "npz", GOOD | {"x": bomb}))


@pytest.mark.parametrize(("ending", "kind"), [("csv", "a CSV"), ("parquet", "a Parquet"), ("npz", "an NPZ")])
def test_a_file_that_is_not_there_or_not_a_file_or_something_else(tmp_path: Path, ending: str, kind: str) -> None:
    path = tmp_path / f"curves.{ending}"
    with pytest.raises(TableError, match=rf"there is no file .*curves.{ending}$"):
        read_functions(path)
    with pytest.raises(TableError, match=r"cannot read .*: Not a directory$"):
        read_functions(ELNINO / path.name)
    for content in (b"\x80\x04\x95garbage\xff" * 9, b"PK\x03\x04\xffmore", b"PAR1\xff12345678PAR1", b"\x93NUMPY\xff"):
        path.write_bytes(content)
        with pytest.raises(
            TableError, match=f"curves.{ending} is not {kind} file|cannot read .*curves.{ending}"
        ) as caught:
            read_functions(path)
        assert "\n" not in str(caught.value)
        assert "pickle" not in str(caught.value)  # numpy's own advice would be to allow it
    path.unlink()
    path.mkdir()
    with pytest.raises(TableError, match=f"curves.{ending} is a folder, not {kind} file$"):
        read_functions(path)


@pytest.mark.parametrize("ending", ["parquet", "npz"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_a_file_that_was_cut_short(tmp_path: Path, ending: str, share: float) -> None:
    path = table_file(tmp_path, ending, GOOD)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(TableError, match=f"curves.{ending}"):
        read_functions(path)


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_a_file_that_was_overwritten_in_the_middle(tmp_path: Path, ending: str) -> None:
    path = table_file(tmp_path, ending, GOOD)
    content = bytearray(path.read_bytes())
    content[60:120] = b"\xff" * 60
    path.write_bytes(content)
    with pytest.raises(TableError, match=f"curves.{ending}"):
        read_functions(path)


@pytest.mark.parametrize("name", ["curves.txt", "curves", "curves.csv.gz", ".csv"])
def test_an_unknown_ending(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("task,x,y\n")
    with pytest.raises(TableError, match=r"the name of a table of functions must end in .csv, .parquet or .npz$"):
        read_functions(tmp_path / name)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table_file(tmp_path, "parquet", GOOD)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        MissingExtraError, match=r"needs pyarrow .*: pip install 'neural-diffusion-processes\[parquet\]'$"
    ):
        read_functions(path)
