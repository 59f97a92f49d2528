"""`ndp predict`: columns by name, missing values counted, units kept, mistakes named."""

import csv
from pathlib import Path

import gpytorch
import numpy as np
import pandas as pd
import pytest

import ndp.sklearn
import ndp.tabular.models
from ndp.apps.predicting import QUANTILES, predict_to_files, predictions
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
    monkeypatch.setattr(ndp.tabular.models, "loaded", lambda name, device: model)


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
    assert (found.rows, found.predicted) == (18, 2)
    assert found.columns == tuple(f"input {i}: number" for i in range(dim))
    assert list(rows[0])[: dim + 2] == [*(f"input {i}" for i in range(dim)), "yield_mean", "yield_std"]
    for row in rows:
        assert 900 < float(row["yield_q05"]) < float(row["yield_mean"]) < float(row["yield_q95"]) < 1100
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_inputs_of_another_file_are_found_by_name_and_kept_as_they_are(tmp_path: Path) -> None:
    train = table(tmp_path, 2)
    at = write(tmp_path / "at.csv", ["input 1", "spare", "input 0"], [["1.7000000012345", "x", "30"], ["", "x", "3"]])
    found, rows = run(tmp_path, train, at=at)
    assert found.predicted == 2
    assert len(rows) == 2
    assert rows[0]["input 1"] == "1.7000000012345"
    assert rows[1]["input 1"] == ""
    truth = 1000 + 50 * np.sin(30 / 20)
    assert abs(float(rows[0]["yield_mean"]) - truth) < 3 * float(rows[0]["yield_std"])


def shop(folder: Path) -> Path:
    """A price of size and colour; code is a category in numbers, and some cells are empty."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(60):
        colour, code, size = ("red", "green", "blue")[i % 3], i % 4 + 10, rng.uniform(1, 9)
        price = 100 + 5 * size + {"red": 0, "green": 30, "blue": -20}[colour] + rng.normal()
        lines.append([f"{size:.3f}" if i % 7 else "", colour if i % 11 else "NA", code, price if i % 10 else ""])
    return write(folder / "shop.csv", ["size", "colour", "code", "price"], lines)


def test_text_gaps_and_codes_are_taken_as_they_come_and_said_so(tmp_path: Path) -> None:
    found, rows = run(
        tmp_path, shop(tmp_path), target="price", categories=["code"], explain=True, plot=tmp_path / "out.png"
    )
    assert (found.rows, found.predicted) == (54, 6)
    assert found.columns[0].startswith("size: number")
    assert found.columns[1].startswith("colour: category (")
    assert found.columns[2].startswith("code: category (")
    assert found.columns[3].startswith("Missing values: size 8, colour 5.")
    assert {one.name for one in found.importances} == {"size", "colour", "code"}
    assert found.importances[-1].name == "code"
    assert rows[1]["colour"] == "green"
    assert abs(float(rows[1]["price_mean"]) - (130 + 5 * float(rows[1]["size"]))) < 10
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_rows_are_predicted_in_pieces_which_are_reported_and_change_nothing() -> None:
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"a": rng.normal(size=20)})
    regressor = NDPRegressor(load_ndp("universal"), steps=2).fit(x, np.sin(x["a"]))
    asked, reports = pd.DataFrame({"a": rng.normal(size=530).clip(-1, 1)}), []
    found = predictions(regressor, asked, lambda done, rows: reports.append((done, rows)))
    assert reports == [(512, 530), (530, 530)]
    mean, std, quantiles = regressor.predict(asked[500:], return_std=True, return_quantiles=QUANTILES)
    np.testing.assert_array_equal(found[500:], np.column_stack([mean, std, quantiles]))


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        (["a", "y"], [["1", "2"]], "no column yield; its columns are: a, y"),
        (["yield"], [["1"]], "no other column than yield"),
        (["a", "yield"], [["3", "red"]], "row 2, column yield: 'red' is not a number, and a target must be one"),
        (["a", "yield"], [["inf", "2"], ["1", ""]], "train.csv: column a of X holds inf in row 2"),
        (
            ["a", "yield"],
            [[str(i), "2"] for i in range(9)] + [["1_0", "2"], ["1", ""]],
            "holds '1_0' in row 11, and numbers in",
        ),
        (["a", "yield"], [["3", "1e308"]], "row 2, column yield: numbers of at most"),
        (["a", "yield"], [["1", ""]], "no row with a value of yield"),
        (["a", "yield"], [["1", "2"]], "say where with --at"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path: Path, columns: list, rows: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(tmp_path, write(tmp_path / "train.csv", columns, rows), categories=())
