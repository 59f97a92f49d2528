"""`ndp predict`: columns by name, missing values counted, units kept, mistakes named."""

import csv
from pathlib import Path

import gpytorch
import numpy as np
import pytest

import ndp.sklearn
from ndp.apps.predicting import QUANTILES, predict_in_pieces, predict_to_files
from ndp.core.units import ContextUnits
from ndp.gp.exact import GP, ScaledToDimension
from ndp.gp.oracle import GPOracle
from ndp.models.registry import load_ndp
from ndp.processes.ndp import NDP
from ndp.sklearn import NDPRegressor


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = gpytorch.kernels.RBFKernel()
    kernel.lengthscale = 1.0
    model = NDP(GPOracle(GP(ScaledToDimension(kernel), noise=0.2)), noise_floor=0.2, units=ContextUnits())
    monkeypatch.setattr(ndp.sklearn, "_loaded", lambda name, device: model)


def write(path: Path, columns: list[str], rows: list[list[object]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def table(folder: Path, dim: int, rows: int = 20) -> Path:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 100, size=(rows, dim))
    y = 1000 + 50 * np.sin(x[:, 0] / 20)
    lines = [[*map(repr, map(float, row)), repr(float(value))] for row, value in zip(x, y, strict=True)]
    lines[3][-1] = "NA"
    lines[5][-1] = ""
    return write(folder / "train.csv", [*(f"input {i}" for i in range(dim)), "yield"], lines)


def run(folder: Path, train: Path, **options: object) -> tuple[object, list[dict[str, str]]]:
    settings = {"target": "yield", "at": None, "plot": None, "model": "universal", "seed": 0} | options
    found = predict_to_files(train, out=folder / "out.csv", **settings)
    with (folder / "out.csv").open() as file:
        return found, list(csv.DictReader(file))


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_rows_without_a_target_are_predicted_in_the_tables_own_columns_and_units(tmp_path: Path, dim: int) -> None:
    found, rows = run(tmp_path, table(tmp_path, dim), plot=tmp_path / "out.png")
    assert (found.rows, found.left_out, found.predicted, found.not_predicted) == (18, 0, 2, 0)
    assert list(rows[0])[: dim + 2] == [*(f"input {i}" for i in range(dim)), "yield_mean", "yield_std"]
    for row in rows:
        assert 900 < float(row["yield_q05"]) < float(row["yield_mean"]) < float(row["yield_q95"]) < 1100
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_inputs_of_another_file_are_found_by_name_and_kept_to_the_last_digit(tmp_path: Path) -> None:
    train = table(tmp_path, 2)
    at = write(tmp_path / "at.csv", ["input 1", "spare", "input 0"], [["1.7000000012345", "x", "30"], ["", "x", "3"]])
    found, rows = run(tmp_path, train, at=at)
    assert found.left_out == 2  # of the table that is learned from
    assert (found.predicted, found.not_predicted) == (1, 1)
    assert len(rows) == 1
    assert rows[0]["input 1"] == "1.7000000012345"
    truth = 1000 + 50 * np.sin(30 / 20)
    assert abs(float(rows[0]["yield_mean"]) - truth) < 3 * float(rows[0]["yield_std"])


def test_rows_that_lack_a_target_and_an_input_are_counted_once(tmp_path: Path) -> None:
    rows = [["1", "4", "2"], ["2", "5", "3"], ["3", "6", ""], ["", "7", ""], ["", "8", "5"]]
    found, predicted = run(tmp_path, write(tmp_path / "train.csv", ["a", "b", "yield"], rows))
    assert (found.rows, found.left_out, found.predicted, found.not_predicted) == (2, 1, 1, 1)
    assert len(predicted) == 1


def test_rows_are_predicted_in_pieces_which_are_reported_and_change_nothing() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 1))
    regressor = NDPRegressor(load_ndp("universal"), steps=2).fit(x, np.sin(x[:, 0]))
    asked, reports = rng.normal(size=(530, 1)).clip(-1, 1), []
    found = predict_in_pieces(regressor, asked, lambda done, rows: reports.append((done, rows)))
    assert reports == [(256, 530), (512, 530), (530, 530)]
    mean, std, quantiles = regressor.predict(asked, return_std=True, return_quantiles=QUANTILES)
    np.testing.assert_array_equal(found, np.column_stack([mean, std, quantiles]))


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        (["a", "y"], [["1", "2"]], "no column yield; its columns are: a, y"),
        (["yield"], [["1"]], "no other column than yield"),
        (["a", "yield"], [["red", "2"]], "row 2, column a: 'red' is not a number; encode categories"),
        (["a", "yield"], [["inf", "2"]], "a finite number is needed"),
        (["a", "yield"], [["1_000", "2"]], "row 2, column a: '1_000' is not a number"),
        (["a", "yield"], [["3", "1e308"]], "row 2, column yield: numbers of at most"),
        (["a", "yield"], [["", "2"]], "no row without missing values"),
        (["a", "yield"], [["1", "2"]], "say where with --at"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path: Path, columns: list, rows: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(tmp_path, write(tmp_path / "train.csv", columns, rows))
