"""The regressor on tables with text, gaps and several targets, in the tools of scikit-learn, and on other machines."""

import io
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from joblib import parallel_config
from sklearn.compose import make_column_transformer
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ndp.tabular.models
from ndp.models.registry import load_ndp
from ndp.sklearn import NDPRegressor
from tests.test_sklearn import stand_in


@pytest.fixture(autouse=True)
def _shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    model = stand_in()
    monkeypatch.setattr(ndp.tabular.models, "loaded", lambda name, device: model)


def shop(rows: int = 90, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    size, colour, code = rng.normal(size=rows), rng.choice(["red", "green", "blue"], rows), rng.integers(4, size=rows)
    table = pd.DataFrame({"size": size, "colour": colour, "code": code, "sale": rng.random(rows) < 0.5})
    price = size + 2.0 * (colour == "red") - 3.0 * (code == 2) + 0.1 * rng.normal(size=rows)
    return table, price


def test_tables_are_learned_from_as_they_come() -> None:
    table, price = shop()
    regressor = NDPRegressor(steps=4, categories=["code"]).fit(table[:60], price[:60])
    assert regressor.score(table[60:], price[60:]) > 0.85
    mean, quantiles = regressor.predict(table[60:], return_quantiles=[0.05, 0.95])
    assert ((quantiles[:, 0] < price[60:]) & (price[60:] < quantiles[:, 1])).mean() > 0.7
    assert regressor.log_prob(table[60:], price[60:]).mean() > -2
    assert list(regressor.feature_names_in_) == ["size", "colour", "code", "sale"]
    assert regressor.describe()[0] == "size: number"
    assert regressor.describe()[3].startswith("sale: boolean")
    np.testing.assert_array_equal(regressor.predict(table[60:61]), mean[:1])
    with pytest.raises(ValueError, match="feature names should match"):
        regressor.predict(table[["colour", "size", "code", "sale"]])


def test_unseen_levels_and_gaps_are_answered_and_others_do_not_depend_on_them() -> None:
    table, price = shop()
    regressor = NDPRegressor(steps=4).fit(table, price)
    asked = table[:4].astype(object)
    asked.loc[0, "colour"], asked.loc[1, "colour"], asked.loc[2, "size"] = "violet", None, None
    mean = regressor.predict(asked)
    assert np.isfinite(mean).all()
    assert mean[3] == regressor.predict(table[:4])[3]
    draws = regressor.sample_y(asked, 50)
    assert draws.shape == (4, 50)
    assert np.isfinite(draws).all()
    without = NDPRegressor(steps=4).fit(table.drop(columns="size"), price)
    assert mean[2] == pytest.approx(without.predict(table.drop(columns="size")[2:3])[0], abs=0.3)


@pytest.mark.parametrize("cells", [["red"] * 20, [f"row {i}" for i in range(20)], [None] * 20, [3.0] * 20])
def test_a_column_that_says_nothing_leaves_what_is_known_of_the_target(cells: list[object]) -> None:
    y = np.random.default_rng(0).normal(5, 1, size=20)
    regressor = NDPRegressor(steps=4).fit(pd.DataFrame({"a": pd.Series(cells)}), y)
    mean, std = regressor.predict(pd.DataFrame({"a": pd.Series([*cells[:2], None])}), return_std=True)
    np.testing.assert_allclose(mean[:2], y.mean(), atol=0.3)
    assert np.isfinite(std).all()


def test_several_targets_are_each_by_themselves() -> None:
    table, price = shop()
    both = np.column_stack([price, 7 - 100 * table["size"]])
    regressor = NDPRegressor(steps=4).fit(table, both)
    mean, std, quantiles = regressor.predict(table[:5], return_std=True, return_quantiles=(0.1, 0.5, 0.9))
    assert (mean.shape, std.shape, quantiles.shape) == ((5, 2), (5, 2), (5, 2, 3))
    for index in range(2):
        alone = NDPRegressor(steps=4).fit(table, both[:, index])
        np.testing.assert_array_equal(mean[:, index], alone.predict(table[:5]))
    assert regressor.sample_y(table[:5], 7).shape == (5, 2, 7)
    assert regressor.log_prob(table[:5], both[:5]).shape == (5, 2)
    assert regressor.score(table, both) > 0.5
    with pytest.raises(ValueError, match=r"y must have shape \[5, 2\]; its shape is \[5\]"):
        regressor.log_prob(table[:5], price[:5])


def test_rows_without_a_target_are_left_out_and_counted() -> None:
    table, price = shop()
    holes = price.copy()
    holes[::3] = np.nan
    with pytest.warns(UserWarning, match="30 of 90 rows lack a target, and are not learned from"):
        regressor = NDPRegressor(steps=4).fit(table, holes)
    known = NDPRegressor(steps=4).fit(table[np.isfinite(holes)], holes[np.isfinite(holes)])
    np.testing.assert_array_equal(regressor.predict(table), known.predict(table))


def test_predictions_keep_to_the_bounds_of_the_data() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = np.maximum(x[:, 0] - 0.5, 0.0)
    found = NDPRegressor(steps=4).fit(x, y)
    assert found.predict(x, return_quantiles=[0.01])[1].min() == 0.0
    assert found.sample_y(x, 20).min() == 0.0
    free = NDPRegressor(steps=4, bounds=None).fit(x, y)
    assert free.predict(x, return_quantiles=[0.01])[1].min() < 0
    np.testing.assert_array_equal(free.log_prob(x, y), found.log_prob(x, y))


def test_rows_in_pieces_and_in_several_workers_are_the_same() -> None:
    table, price = shop()
    many = pd.concat([table] * 14, ignore_index=True)
    regressor = NDPRegressor(steps=3).fit(table, price)
    expected, reports = regressor.predict(many, return_std=True), []
    with parallel_config(backend="threading", n_jobs=2):
        found = regressor.predict(many, return_std=True, progress=lambda done, rows: reports.append((done, rows)))
    np.testing.assert_array_equal(found, expected)
    assert reports == [(512, 1260), (1024, 1260), (1260, 1260)]
    np.testing.assert_array_equal(expected[0][1200:1210], regressor.predict(many[1200:1210]))


def test_what_is_saved_holds_no_weights_and_says_where_they_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_ndp("universal")
    monkeypatch.setattr(ndp.tabular.models, "loaded", lambda name, device: model)
    table, price = shop(12)
    regressor = NDPRegressor(steps=2).fit(table, price)
    file = io.BytesIO()
    joblib.dump(regressor, file)
    assert len(file.getvalue()) < 50_000
    file.seek(0)
    again = joblib.load(file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(again.predict(table[:3]), regressor.predict(table[:3]))
    file.seek(0)
    again = joblib.load(file)
    with torch.no_grad():
        next(iter(model.network.parameters())).add_(1e-3)
    with pytest.warns(UserWarning, match="fitted with other weights of universal, and predictions may differ"):
        again.predict(table[:3])


def test_tools_of_scikit_learn_work_on_tables() -> None:
    table, price = shop(60)
    regressor = NDPRegressor(steps=3, categories=["code"]).fit(table, price)
    importance = permutation_importance(regressor, table, price, n_repeats=2, random_state=0).importances_mean
    assert importance.argmin() == 3
    assert (importance[:3] > 0.1).all()
    found = partial_dependence(regressor, table, ["size"], grid_resolution=5, kind="average")
    assert np.diff(found["average"][0]).min() > 0
    scale = make_column_transformer(
        (StandardScaler(), ["size"]), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    pipeline = make_pipeline(scale, NDPRegressor(categories=["code"], steps=3))
    search = GridSearchCV(pipeline, {"ndpregressor__bounds": ["auto", None]}, cv=2).fit(table, price)
    assert search.best_score_ > 0.8
    assert search.predict(table).shape == (60,)


def test_many_rows_and_columns_are_taken_by_the_shipped_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 14))
    y = np.sin(2 * x[:, 3]) + x[:, 11] + 0.1 * rng.normal(size=300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regressor = NDPRegressor(steps=2).fit(x[:290], y[:290])
        reports: list[tuple[int, int]] = []
        mean = regressor.predict(x[290:], progress=lambda done, rows: reports.append((done, rows)))
    assert regressor.X_train_.shape == (290, 14)
    assert np.abs(mean - y[290:]).mean() < 0.4
    assert reports[-1] == (10, 10)
    assert regressor.sample_y(x[290:], 3).shape == (10, 3)


@pytest.mark.usefixtures("as_installed")
def test_bad_tables_are_refused_in_a_sentence_and_leave_the_regressor_as_it_was() -> None:
    table, price = shop(20)
    regressor = NDPRegressor(steps=2).fit(table, price)
    before = regressor.predict(table)
    wrong = [
        (table, ["a"] * 20, "y must be an array of real numbers, not text"),
        (table, np.full(20, np.nan), r"the target is missing \(NaN\) in all rows"),
        (table.assign(size=[[1]] * 20), price, "column size holds a list"),
        (table.assign(size=np.inf), price, "column size of X holds inf in row 0"),
        (table[:0], price[:0], "Found array with 0 sample"),
        (table, price[:5], r"y must have shape \[20\] or \[20, P\]"),
        (table[["size", "size"]], price, "more than one column is named size"),
        (table[["code", "sale"]], [None] * 20, r"the target is missing \(NaN\) in all rows"),
    ]
    for x, y, message in wrong:
        with pytest.raises((ValueError, TypeError), match=message) as error:
            regressor.fit(x, y)
        assert "\n" not in str(error.value)
    np.testing.assert_array_equal(regressor.predict(table), before)
    with pytest.raises(ValueError, match="categories names kind, and the columns are: size, colour, code, sale"):
        NDPRegressor(categories=["kind"]).fit(table, price)
    one = NDPRegressor(steps=2).fit(table[:1], price[:1])
    assert np.isfinite(one.predict(table[:2])).all()
