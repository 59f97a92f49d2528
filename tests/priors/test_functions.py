"""Tables of functions: read alike from every format, split and scaled exactly, and drawn row by row from the right function."""

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
from ndp.priors.functions import Functions, TableSource, read_functions, scaled, split, units_of
from ndp.priors.tasks import Source

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


def ragged(rows: list[int], dim: int = 1, outputs: int = 1) -> Functions:
    """Functions whose every value tells where it stands: task + row / 1000, and the same negative in the outputs."""
    tasks, longest = len(rows), max(rows)
    value = torch.arange(tasks)[:, None] + torch.arange(1, longest + 1, dtype=torch.float64) / 1000
    mask = torch.arange(longest) < torch.tensor(rows)[:, None]
    value = value.masked_fill(~mask, float("nan"))  # what padding holds must not matter
    x = torch.stack([value + 100 * d for d in range(dim)], dim=-1)
    y = torch.stack([-value - 100 * p for p in range(outputs)], dim=-1)
    return Functions(x, y, mask, tuple(str(i) for i in range(tasks)))


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


# Splitting


def test_a_split_keeps_functions_whole() -> None:
    functions = ragged([3, 1, 4, 2, 5, 2, 2, 3, 1, 4] * 5)
    train, validation = split(functions, 0.2, seed=3)
    assert (len(train), len(validation)) == (40, 10)
    assert sorted(train.names + validation.names, key=int) == list(functions.names)
    for side in (train, validation):
        for i, name in enumerate(side.names):
            assert torch.equal(side.mask[i], functions.mask[int(name)])
            for held, original in ((side.x, functions.x), (side.y, functions.y)):
                torch.testing.assert_close(held[i], original[int(name)], rtol=0, atol=0, equal_nan=True)


def test_a_split_is_a_function_of_its_seed() -> None:
    functions = ragged([2] * 40)
    first, again, other = (split(functions, seed=seed)[1].names for seed in (0, 0, 1))
    assert first == again
    assert first != other
    chosen = {name for seed in range(60) for name in split(functions, seed=seed)[1].names}
    assert len(chosen) == 40  # every function may be among them


@pytest.mark.parametrize(
    ("tasks", "share", "count"), [(2, 0.9, 1), (2, 0.01, 1), (5, 0.1, 1), (5, 0.99, 4), (30, 0.1, 3)]
)
def test_both_sides_of_a_split_have_a_function(tasks: int, share: float, count: int) -> None:
    train, validation = split(ragged([2] * tasks), share)
    assert (len(train), len(validation)) == (tasks - count, count)


def test_what_cannot_be_split() -> None:
    for share in (0.0, 1.0, -0.5, float("nan")):
        with pytest.raises(ValueError, match="validation_share must lie between 0 and 1"):
            split(ragged([2, 2]), share)
    with pytest.raises(ValueError, match="at least two functions are needed for a split, and there is 1"):
        split(ragged([2]))


# Units


def test_scaled_functions_fill_the_range_and_are_standardised() -> None:
    generator = torch.Generator().manual_seed(0)
    functions = ragged([3, 7, 1, 5], dim=2, outputs=2)
    noise = torch.randn(functions.y.shape, generator=generator, dtype=torch.float64)
    functions = Functions(functions.x * 1e6 + 1.7e9, functions.y + 50 * noise, functions.mask, functions.names)
    units = units_of(functions)
    model = scaled(functions, units)
    x, y = model.x[model.mask], model.y[model.mask]
    torch.testing.assert_close(x.amin(0), torch.full((2,), -2.0, dtype=torch.float64))
    torch.testing.assert_close(x.amax(0), torch.full((2,), 2.0, dtype=torch.float64))
    torch.testing.assert_close(y.mean(0), torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close(y.square().mean(0), torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(units.on().from_model_y(y[None])[0], functions.y[functions.mask])
    assert (model.x[~model.mask] == 0).all()
    assert (model.y[~model.mask] == 0).all()
    assert model.names == functions.names


def test_a_constant_column_is_not_stretched() -> None:
    functions = ragged([400, 3])
    constant = Functions(
        torch.full_like(functions.x, 0.1), torch.full_like(functions.y, 0.3), functions.mask, functions.names
    )
    units = units_of(constant)
    assert (units.x_shift, units.x_scale, units.y_shift, units.y_scale) == ((0.1,), (1.0,), (0.3,), (1.0,))
    assert (scaled(constant, units).y == 0).all()


def test_a_scaling_of_other_functions_is_refused() -> None:
    with pytest.raises(ValueError, match="the last axis of x must have 1 entries"):
        scaled(ragged([2, 2], dim=2), units_of(ragged([2, 2])))


# Drawing


@pytest.mark.parametrize(
    ("rows", "targets", "most_context"),
    [([5, 9, 2, 1, 7], 4, 3), ([5, 9, 2, 1, 7], 50, None), ([6] * 3, 6, 8), ([3, 30], 2, 0), ([80] * 2, 9, 40)],
)
def test_what_is_drawn_is_rows_of_one_function(rows: list[int], targets: int, most_context: int | None) -> None:
    functions = ragged(rows, dim=2, outputs=2)
    source = TableSource(functions, targets, most_context)
    assert isinstance(source, Source)
    batch = source.draw(500, generator=torch.Generator().manual_seed(0))
    assert batch.num_context == source.num_context
    assert batch.x.shape == (500, source.num_context + source.num_targets, 2)
    assert batch.x.dtype == batch.y.dtype == torch.float64
    drawn: set[int] = set()
    for x, y, mask in zip(batch.x, batch.y, batch.mask, strict=True):
        assert (x[~mask] == 0).all()
        assert (y[~mask] == 0).all()
        place = x[mask][:, 0]
        task = int(place[0])
        row = ((place - task) * 1000).round().long() - 1
        assert torch.equal(x[mask], functions.x[task, row])  # one function, inputs and outputs of the same rows
        assert torch.equal(y[mask], functions.y[task, row])
        assert functions.mask[task, row].all()
        assert len(set(row.tolist())) == len(row)  # no row twice: context and targets are disjoint
        context, target = mask[: source.num_context], mask[source.num_context :]
        size = int(context.sum())
        assert size <= min(source.num_context, rows[task] - 1)
        assert context[:size].all()
        assert int(target.sum()) == min(source.num_targets, rows[task] - size) >= 1
        assert target[: int(target.sum())].all()
        drawn.add(task)
    assert drawn == set(range(len(rows)))


def test_functions_sizes_and_rows_are_uniform() -> None:
    rows, most, draws = [2, 4, 9], 5, 30_000
    batch = TableSource(ragged(rows), targets=3, most_context=most).draw(
        draws, generator=torch.Generator().manual_seed(0)
    )
    first_target = batch.x[:, most, 0]
    tasks = first_target.long()
    sizes = batch.mask[:, :most].sum(1)
    last_rows = ((batch.x[..., 0] - tasks[:, None]) * 1000).round().long()

    def is_share(events: torch.Tensor, share: float) -> bool:
        return abs(events.double().mean().item() - share) < 4.5 * (share * (1 - share) / len(events)) ** 0.5

    for task, count in enumerate(rows):
        own = tasks == task
        assert is_share(own, 1 / len(rows))
        choices = min(most, count - 1) + 1
        for size in range(choices):
            assert is_share(sizes[own] == size, 1 / choices)
        for row in range(1, count + 1):
            assert is_share(last_rows[own, most] == row, 1 / count)
            has_context = own & (sizes > 0)
            assert is_share(last_rows[has_context, 0] == row, 1 / count)


def test_a_generator_decides_the_batch() -> None:
    source = TableSource(ragged([4, 6, 5]))
    first, again, other = (source.draw(8, generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(first.x, again.x)
    assert torch.equal(first.mask, again.mask)
    assert not torch.equal(first.x, other.x)


@pytest.mark.parametrize(
    ("rows", "most_context"), [([12] * 5, 6), ([1, 1, 1, 9], 1), ([2, 5, 9], 2), ([3, 4], 1), ([500] * 2, 64)]
)
def test_the_default_context_is_half_of_a_usual_function(rows: list[int], most_context: int) -> None:
    source = TableSource(ragged(rows))
    assert source.num_context == most_context
    assert source.num_targets == min(50, max(rows))


def test_functions_may_be_masked_anywhere() -> None:
    functions = ragged([3, 3])
    flipped = Functions(functions.x.flip(1), functions.y.flip(1), functions.mask.flip(1), functions.names)
    holes = Functions(
        torch.cat([flipped.x, torch.full((2, 2, 1), float("nan"), dtype=torch.float64)], dim=1),
        torch.cat([flipped.y, torch.full((2, 2, 1), float("nan"), dtype=torch.float64)], dim=1),
        torch.cat([flipped.mask, torch.zeros(2, 2, dtype=torch.bool)], dim=1),
        flipped.names,
    )
    source = TableSource(holes)
    assert source.num_targets == 3
    batch = source.draw(100, generator=torch.Generator().manual_seed(0))
    assert torch.isfinite(batch.x).all()
    assert (batch.mask.sum(1) == 3).all()


def test_what_cannot_be_a_source() -> None:
    with pytest.raises(ValueError, match="targets must be at least 1, not 0"):
        TableSource(ragged([2, 2]), targets=0)
    with pytest.raises(ValueError, match="most_context cannot be negative, and is -1"):
        TableSource(ragged([2, 2]), most_context=-1)
    with pytest.raises(ValueError, match="every function needs at least one row"):
        TableSource(ragged([2, 0]))


@pytest.mark.gpu
def test_tasks_are_drawn_on_the_device_of_the_generator() -> None:
    source = TableSource(ragged([4, 6, 5]))
    for _ in range(2):
        batch = source.draw(8, generator=torch.Generator("cuda").manual_seed(0))
        assert batch.x.device.type == batch.y.device.type == batch.mask.device.type == "cuda"
