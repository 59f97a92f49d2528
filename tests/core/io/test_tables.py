"""CSV files in and out: every form that is read, what is told where one is wrong, and nothing half-written."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from ndp.core.io.files import atomic_write
from ndp.core.io.tables import TableError, read_inputs, read_observations, write_draws


def csv_file(folder: Path, content: str | bytes) -> Path:
    path = folder / "points.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Reading


@pytest.mark.parametrize(
    ("content", "x", "y", "noise"),
    [
        pytest.param("x,y\n0.5,1\n-2,3e-1\n", [[0.5], [-2]], [1, 0.3], None, id="x"),
        pytest.param("x1,y\n0.5,1\n-2,3\n", [[0.5], [-2]], [1, 3], None, id="x1"),
        pytest.param("y,x2,x1\n1,20,10\n2,40,30\n", [[10, 20], [30, 40]], [1, 2], None, id="any order"),
        pytest.param("noise,x,y\n0.1,1,2\n0,3,4\n", [[1], [3]], [2, 4], [0.1, 0], id="noise"),
        pytest.param("name,x,y,\na,1,2,\nnan,3,4,?\n", [[1], [3]], [2, 4], None, id="other columns"),
        pytest.param("x,y,,\n1,2,,\n", [[1]], [2], None, id="columns without a name"),
        pytest.param(" x , y \n 1 , 2 \n", [[1]], [2], None, id="spaces"),
        pytest.param('"x","y"\n"1","2"\n', [[1]], [2], None, id="quotes"),
        pytest.param("x,y\r\n1,2\r\n3,4\r\n", [[1], [3]], [2, 4], None, id="CRLF"),
        pytest.param("x,y\n1,2", [[1]], [2], None, id="no last line end"),
        pytest.param("x,y\n\n1,2\n , \n\n3,4\n\n", [[1], [3]], [2, 4], None, id="blank lines"),
        pytest.param("\ufeffx,y\n1,2\n", [[1]], [2], None, id="BOM"),
        pytest.param("x,y\n", np.zeros((0, 1)), [], None, id="header only"),
        pytest.param("x1,x2,y,noise\n", np.zeros((0, 2)), [], [], id="header only, all columns"),
        pytest.param("x10,x9,x8,x7,x6,x5,x4,x3,x2,x1,y\n10,9,8,7,6,5,4,3,2,1,0\n", [range(1, 11)], [0], None, id="x10"),
    ],
)
def test_observations_are_read(tmp_path: Path, content: str, x: object, y: object, noise: object) -> None:
    data = read_observations(csv_file(tmp_path, content))
    np.testing.assert_array_equal(data.x, np.asarray(x, dtype=float), strict=True)
    np.testing.assert_array_equal(data.y, np.asarray(y, dtype=float), strict=True)
    if noise is None:
        assert data.noise is None
    else:
        np.testing.assert_array_equal(data.noise, np.asarray(noise, dtype=float), strict=True)


@pytest.mark.parametrize(
    ("content", "x"),
    [
        pytest.param("x\n1\n2\n", [[1], [2]], id="x"),
        pytest.param("x2,x1\n1,2\n", [[2, 1]], id="x2,x1"),
        pytest.param("x1,y,noise\n1,,-1\n2,?,nan\n", [[1], [2]], id="y and noise ignored"),
    ],
)
def test_inputs_are_read(tmp_path: Path, content: str, x: object) -> None:
    np.testing.assert_array_equal(read_inputs(csv_file(tmp_path, content)), np.asarray(x, dtype=float), strict=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("x1,z\n1,2\n", "points.csv has no column y; its columns are: x1, z$", id="no y"),
        pytest.param("x;y\n1;2\n", "points.csv has semicolons between its cells, and commas are", id="semicolons"),
        pytest.param("x\ty\n0,5\t1\n", "points.csv has tabs between its cells, and commas are needed", id="tabs"),
        pytest.param('x,y\n"0,5",1\n', "row 2, column x: a number is needed, and there is '0,5'$", id="decimal comma"),
        pytest.param("x,y\n1_000,1\n", "row 2, column x: a number is needed, and there is '1_000'$", id="1_000"),
        pytest.param("x,y\n\uff11,1\n", "row 2, column x: a number is needed, and there is '\uff11'$", id="wide digit"),
        pytest.param("x,y\n1e301,1\n", r"row 2, column x: numbers of at most 1e\+300 in size are needed", id="1e301"),
        pytest.param(
            "x,y\n" + "z" * 9000 + ",1\n", "row 2, column x: .* there is '" + "z" * 60 + r"\.\.\.'$", id="long cell"
        ),
        pytest.param("x,z\n1,2\n".replace("z", '"z\n\x1b[2J"'), r"its columns are: x, z \[2J$", id="a name in lines"),
        pytest.param(",".join(f"c{i}" for i in range(50)), r"c18, c19 and 30 more$", id="many columns"),
        pytest.param(
            gzip.compress(b"x,y\n1,2\n"), "is not a CSV file: it is compressed by gzip; unpack it first$", id="gz"
        ),
        pytest.param(
            "x,y\n1,2\n".encode("utf-16"), "is not a CSV file: it is text in UTF-16; save it in UTF-8$", id="UTF-16"
        ),
        pytest.param(
            "x,y\n1,2\n".encode("utf-16-le"), "it holds zero bytes, as UTF-16 and binary files do$", id="no BOM"
        ),
        pytest.param(b"PK\x03\x04rest", "it is a ZIP archive or an Excel workbook; unpack it", id="xlsx"),
        pytest.param(b"PAR1rest", "it is a Parquet file; write it as CSV first$", id="parquet"),
        pytest.param("y\n1\n", "has no column x1; inputs are named x1 to xD .* its columns are: y$", id="no x"),
        pytest.param("x1,x3,y\n1,2,3\n", "has no column x2; inputs are named", id="no x2"),
        pytest.param("x0,x1,y\n1,2,3\n", "has no column x2; inputs are named", id="from x0"),
        pytest.param("x,x1,y\n1,2,3\n", "has no column x2; inputs are named", id="x and x1"),
        pytest.param("x,y\n1,2\n3,four\n", "points.csv, row 3, column y: a number .* there is 'four'$", id="text"),
        pytest.param("x,y\n\n1,2\n\nl,2\n", "row 5, column x: a number .* there is 'l'$", id="text after blank lines"),
        pytest.param("x,y\n1,\n", "points.csv, row 2, column y: a number is needed, and there is nothing$", id="empty"),
        pytest.param("x,y\n  ,1\n", "row 2, column x: a number is needed, and there is nothing$", id="spaces"),
        pytest.param("x,y\n1,nan\n", "row 2, column y: a finite number is needed, and there is nan$", id="nan"),
        pytest.param("x,y\n0,0\n-inf,1\n", "row 3, column x: a finite number is needed, and there is -inf$", id="inf"),
        pytest.param("x,y\n1e999,1\n", "row 2, column x: a finite number is needed, and there is 1e999$", id="1e999"),
        pytest.param("x,y,noise\n0,0,0\n\n0,1,-1\n", "row 4, column noise: .* cannot be negative$", id="noise < 0"),
        pytest.param("x,y,noise\n0,0,\n", "row 2, column noise: .* there is nothing$", id="no noise in one row"),
        pytest.param("x,y\n1,2\n3\n", "points.csv, row 3: 1 cells where the first row names 2$", id="short row"),
        pytest.param("x,y\n1,2,5\n", "points.csv, row 2: 3 cells where the first row names 2$", id="long row"),
        pytest.param("x,y,y\n1,2,3\n", "points.csv names the column y more than once$", id="y twice"),
        pytest.param("", "points.csv is empty; its first row must name the columns, such as x1,y$", id="empty file"),
        pytest.param("\n \n", "points.csv is empty; ", id="blank file"),
        pytest.param(
            "\nx,y\n1,2\n", "points.csv has an empty first row; its first row must name", id="blank first row"
        ),
        pytest.param("0.5,1\n0.6,2\n", "points.csv has no column y; its columns are: 0.5, 1$", id="no header"),
        pytest.param(b"x,y\n1,2\n# caf\xe9,3\n", "points.csv is not a CSV file: 'utf-8' codec", id="not UTF-8"),
        pytest.param(b"\x89PNG\r\n\x1a\n\xff", "points.csv is not a CSV file: it is a picture$", id="a picture"),
        pytest.param("x,y\n" + "1" * 200_000 + ",2\n", "points.csv is not a CSV file: field larger", id="huge cell"),
    ],
)
def test_a_bad_table_is_told_with_row_and_column(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(TableError, match=message):
        read_observations(csv_file(tmp_path, content))


def test_inputs_need_a_row(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"points.csv holds no rows; at least one input is needed$"):
        read_inputs(csv_file(tmp_path, "x1\n"))


@pytest.mark.parametrize("read", [read_observations, read_inputs])
@pytest.mark.parametrize(
    ("path", "message"),
    [("missing.csv", "there is no file .*missing.csv$"), (".", "is a folder, not a CSV file$")],
)
def test_no_such_file(tmp_path: Path, read: object, path: str, message: str) -> None:
    assert callable(read)
    with pytest.raises(TableError, match=message):
        read(tmp_path / path)


def test_a_file_in_a_file_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"cannot read .*points.csv/more.csv: Not a directory$"):
        read_inputs(csv_file(tmp_path, "x\n1\n") / "more.csv")


# Writing


@pytest.mark.parametrize("dim", [1, 2])
def test_draws_are_written_and_read_back(tmp_path: Path, dim: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, dim)) + 1.7e9  # time stamps
    mean, std, draws = rng.normal(size=5), rng.uniform(size=5), rng.normal(size=(3, 5))
    path = tmp_path / "new" / "folder" / "draws.csv"
    with atomic_write(path) as temporary:
        write_draws(temporary, x, mean, std, draws)
    header = path.read_text().splitlines()[0].split(",")
    assert header == [*(["x1"] if dim == 1 else ["x1", "x2"]), "mean", "std", "draw1", "draw2", "draw3"]
    np.testing.assert_array_equal(read_inputs(path), x)
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    np.testing.assert_allclose(table[:, dim:], np.column_stack([mean, std, draws.T]), rtol=1e-8)
    assert names_in(path.parent) == ["draws.csv"]


def test_a_written_table_can_be_read_as_observations_once_its_mean_is_named_y(tmp_path: Path) -> None:
    path = tmp_path / "draws.csv"
    write_draws(path, np.array([[0.1], [0.2]]), np.array([1.5, 2.5]), np.ones(2), np.zeros((1, 2)))
    path.write_text(path.read_text().replace("mean", "y"))
    np.testing.assert_array_equal(read_observations(path).y, [1.5, 2.5])


def test_draws_that_do_not_fit_leave_no_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 rows of results do not fit 3 rows of inputs"):
        write_draws(tmp_path / "draws.csv", np.zeros((3, 1)), np.zeros(2), np.zeros(2), np.zeros((1, 2)))
    assert names_in(tmp_path) == []
