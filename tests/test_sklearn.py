"""The regressor keeps scikit-learn's contract, whatever drives it; here the exact denoiser of a GP, in the context's units."""

import doctest
import pickle
import warnings
from copy import deepcopy

import gpytorch
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import ndp.sklearn
import ndp.tabular.models
from ndp.core.units import ContextUnits
from ndp.gp.exact import GP, ScaledToDimension
from ndp.gp.oracle import GPOracle
from ndp.models.registry import load_ndp
from ndp.processes.ndp import NDP
from ndp.sklearn import NDPRegressor


def stand_in() -> NDP:
    """A GP of lengthscale 2 sqrt(D) and noise 0.3 in the units of the context, for one to ten inputs."""
    kernel = gpytorch.kernels.RBFKernel()
    kernel.lengthscale = 2.0
    gp = GP(ScaledToDimension(kernel), noise=0.3)
    return NDP(GPOracle(gp), noise_floor=0.3, units=ContextUnits(), input_dims=range(1, 11))


@pytest.fixture(autouse=True)
def _shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    model = stand_in()
    monkeypatch.setattr(ndp.tabular.models, "loaded", lambda name, device: model)


def data(rows: int = 40, dim: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, dim))
    return x, 3 + np.sin(x[:, 0]) + 0.5 * x[:, -1] + 0.1 * rng.normal(size=rows)


@pytest.mark.filterwarnings("ignore")
def test_check_estimator_finds_nothing() -> None:
    check_estimator(NDPRegressor(steps=4), on_skip=None)


@pytest.mark.filterwarnings("ignore")
def test_check_estimator_finds_nothing_with_the_shipped_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    check_estimator(NDPRegressor())


def test_predictions_are_of_observations_with_spread_and_quantiles() -> None:
    x, y = data()
    regressor = NDPRegressor(steps=20).fit(x[:30], y[:30])
    mean, std, quantiles = regressor.predict(x[30:], return_std=True, return_quantiles=[0.05, 0.5, 0.95])
    assert np.abs(mean - y[30:]).mean() < 0.4
    assert ((quantiles[:, 0] < y[30:]) & (y[30:] < quantiles[:, 2])).mean() >= 0.8
    np.testing.assert_allclose(quantiles[:, 1], mean, atol=0.02)
    np.testing.assert_allclose((quantiles[:, 2] - quantiles[:, 0]) / 3.29, std, rtol=0.02)
    gaussian = -0.5 * ((y[30:] - mean) / std) ** 2 - np.log(std) - 0.919
    np.testing.assert_allclose(regressor.log_prob(x[30:], y[30:]), gaussian, atol=0.06)


def test_draws_are_joint_and_seeded() -> None:
    x, y = data(rows=5)
    regressor = NDPRegressor(steps=6).fit(x, y)
    far = np.stack([x[0] + 50, x[0] + 51])
    with pytest.warns(UserWarning, match=r"were clipped \(rows 0, 1; columns 0, 1, 2\)"):
        drawn = regressor.sample_y(far, 100, random_state=1)
    assert drawn.shape == (2, 100)
    assert np.corrcoef(drawn)[0, 1] > 0.8  # of one function, far from all that is known of it
    with pytest.warns(UserWarning, match=r"were clipped \(rows 0, 1; columns 0, 1, 2\)"):
        np.testing.assert_array_equal(drawn, regressor.sample_y(far, 100, random_state=1))


def test_the_examples_of_the_docstring_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert doctest.testmod(ndp.sklearn).failed == 0
    assert doctest.testmod(ndp.sklearn).attempted >= 6


@pytest.fixture
def universal() -> NDP:
    return load_ndp("universal")


def test_predictions_are_of_new_observations_or_of_the_function(universal: NDP) -> None:
    x, y = data()
    regressor = NDPRegressor(universal, steps=3).fit(x, y + np.random.default_rng(1).normal(size=len(y)))
    posterior = universal.condition(regressor.X_train_, regressor.y_train_)
    for noise in (True, False, None):
        moments, quantiles = posterior.summary(x[:3], (0.1, 0.6), joint=False, observation_noise=noise, steps=3)
        mean, std, found = regressor.predict(
            x[:3], return_std=True, return_quantiles=(0.1, 0.6), observation_noise=noise
        )
        np.testing.assert_allclose(mean, moments.mean, rtol=1e-12)
        np.testing.assert_allclose(std, moments.std, rtol=1e-12)
        np.testing.assert_allclose(found.T, quantiles, rtol=1e-12)
        log_p = posterior.log_prob(x[:3], y[:3], joint=False, observation_noise=noise)
        np.testing.assert_allclose(regressor.log_prob(x[:3], y[:3], observation_noise=noise), log_p, rtol=1e-12)
    std, function_std = (
        regressor.predict(x[:3], return_std=True, observation_noise=noise)[1] for noise in (True, None)
    )
    assert (std > 1.5 * function_std).all()
    draws = regressor.sample_y(x[:3], 2), regressor.sample_y(x[:3], 2, observation_noise=False)
    assert np.abs(draws[0] - draws[1]).min() > 1e-3


def test_the_old_name_of_observation_noise_warns_and_works(universal: NDP) -> None:
    x, y = data()
    regressor = NDPRegressor(universal, steps=3).fit(x, y)
    for noisy in (True, False):
        with pytest.warns(DeprecationWarning, match="noisy is deprecated: use observation_noise"):
            old = regressor.predict(x[:3], noisy=noisy)
        np.testing.assert_array_equal(old, regressor.predict(x[:3], observation_noise=noisy))
        with pytest.warns(DeprecationWarning, match="noisy is deprecated: use observation_noise"):
            old = regressor.sample_y(x[:3], 2, noisy=noisy)
        np.testing.assert_array_equal(old, regressor.sample_y(x[:3], 2, observation_noise=noisy))


def test_a_model_with_one_kind_of_values_says_so() -> None:
    x, y = data()
    regressor = NDPRegressor(steps=3).fit(x, y)
    np.testing.assert_array_equal(regressor.predict(x), regressor.predict(x, observation_noise=None))
    for call in (regressor.predict, regressor.sample_y, lambda x, **options: regressor.log_prob(x, y, **options)):
        with pytest.raises(ValueError, match="this model has one kind of values: its functions carry the noise"):
            call(x, observation_noise=False)


def test_a_change_of_model_or_data_is_seen_by_the_next_prediction(universal: NDP) -> None:
    x, y = data()
    regressor = NDPRegressor(universal, steps=3).fit(x, y)
    before = regressor.predict(x[:3])
    np.testing.assert_array_equal(regressor.set_params(model=stand_in()).predict(x[:3]), stand_in_predicts(x, y))
    np.testing.assert_array_equal(regressor.set_params(model=universal).predict(x[:3]), before)
    np.testing.assert_array_equal(regressor.set_params(model="universal").predict(x[:3]), stand_in_predicts(x, y))
    regressor.set_params(model=universal).fit(x, -2 * y)
    np.testing.assert_allclose(regressor.predict(x[:3]), -2 * before, rtol=1e-5)
    assert regressor.set_params(device="cpu").predict(x[:3]) == pytest.approx(-2 * before, rel=1e-5)
    with pytest.raises(ValueError, match="a device is auto, cpu or cuda"):
        regressor.set_params(device="tpu").predict(x[:3])


def stand_in_predicts(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return NDPRegressor(stand_in(), steps=3).fit(x, y).predict(x[:3])


@pytest.mark.gpu
def test_a_model_that_moved_is_conditioned_again(universal: NDP) -> None:
    x, y = data()
    regressor = NDPRegressor(universal, steps=3).fit(x, y)
    on_gpu = regressor.predict(x[:3])
    universal.to("cuda")
    np.testing.assert_allclose(regressor.predict(x[:3]), on_gpu, rtol=1e-4)
    on_cpu = regressor.set_params(device="cpu").predict(x[:3])
    np.testing.assert_allclose(on_cpu, on_gpu, rtol=1e-3)
    assert universal.device.type == "cuda"


def test_copies_are_without_the_posterior_and_predict_the_same(universal: NDP) -> None:
    x, y = data()
    regressor = NDPRegressor(universal, steps=3).fit(x, y)
    expected = regressor.predict(x[:3])
    for other in (pickle.loads(pickle.dumps(regressor)), deepcopy(regressor)):
        assert "_conditioned" not in vars(other)
        np.testing.assert_array_equal(other.predict(x[:3]), expected)
        np.testing.assert_array_equal(other.predict(x[:3]), expected)
    assert "_conditioned" not in vars(clone(regressor))


def test_answers_follow_affine_changes_of_data_and_target() -> None:
    x, y = data()
    here = NDPRegressor(steps=6).fit(x, y).predict(x[:5], return_std=True)
    shift, scale = np.array([1e6, -3.0, 0.0]), np.array([1e3, 0.01, 1.0])
    there = NDPRegressor(steps=6).fit(shift + scale * x, 1e9 * y + 1e12).predict(shift + scale * x[:5], return_std=True)
    np.testing.assert_allclose((there[0] - 1e12) / 1e9, here[0], rtol=1e-6)
    np.testing.assert_allclose(there[1] / 1e9, here[1], rtol=1e-6)
    image = NDPRegressor(steps=6).fit(-scale * x, -y).predict(-scale * x[:5], return_std=True)
    np.testing.assert_allclose(-image[0], here[0], rtol=1e-6)
    np.testing.assert_allclose(image[1], here[1], rtol=1e-6)


@pytest.mark.parametrize(("scale_x", "scale_y"), [(1e-200, 1e160), (1e160, 1e-200), (1e-290, 1e290), (1e290, 1e-290)])
def test_answers_follow_scales_whose_squares_are_no_float64(scale_x: float, scale_y: float) -> None:
    x, y = data()
    here = NDPRegressor(steps=3).fit(x, y).predict(x[:5], return_std=True)
    there = NDPRegressor(steps=3).fit(scale_x * x, scale_y * y).predict(scale_x * x[:5], return_std=True)
    np.testing.assert_allclose(np.array(there) / scale_y, here, rtol=1e-9)
    with pytest.warns(UserWarning, match=r"were clipped \(rows 0, 1"):  # two standard deviations, in these units too
        NDPRegressor(steps=3).fit(scale_x * x, y).predict(100 * scale_x * x[:5])


def test_one_huge_value_is_refused_and_one_large_one_is_an_outlier() -> None:
    x, y = data()
    y[3] = 1e308
    with pytest.raises(ValueError, match=r"y holds 1e\+308 at point 3 .*too large: divide them by a constant first"):
        NDPRegressor().fit(x, y)
    for huge in (1e8, 1e299):
        y[3] = huge
        mean, std = NDPRegressor(steps=3).fit(x, y).predict(x, return_std=True)
        others = np.delete(np.arange(len(y)), 3)
        assert np.abs(mean - y)[others].mean() < 0.5
        assert std[others].max() < 5


@pytest.mark.parametrize("name", ["se", "joint", "mnist", "oracle-se"])
def test_models_in_units_of_their_own_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    x = np.linspace(-2, 2, 30)[:, None]
    with pytest.raises(ValueError, match=f"{name} does not take its units from the data.*; use universal"):
        NDPRegressor(name).fit(x, 1000 + np.sin(x[:, 0]))
    with pytest.raises(ValueError, match="the model does not take its units from the data"):
        NDPRegressor(load_ndp(name)).fit(x, np.sin(x[:, 0]))


@pytest.mark.usefixtures("as_installed")
def test_columns_that_are_no_numbers_or_share_a_name_are_refused_by_name() -> None:
    x, y = data()
    times = pd.date_range("2020", periods=len(y))
    wrong = {
        "more than one column is named a; give each": pd.DataFrame(x, columns=["a", "b", "a"]),
        "columns hold dates or times, not numbers: day. Write them as days": pd.DataFrame({"a": y, "day": times}),
        "columns hold dates or times, not numbers: 0. Write them as days": times.to_numpy()[:, None],
        "Complex data not supported: split it": x * 1j,
        "X is a masked array, whose mask would be lost": np.ma.masked_array(x, mask=x > 1),
        "cells must be numbers that float64 can hold": [[10**400]] * len(y),
    }
    for message, table in wrong.items():
        with pytest.raises(ValueError, match=message):
            NDPRegressor().fit(table, y)
    with pytest.raises(ValueError, match="y must be an array of real numbers, not text; a category cannot"):
        NDPRegressor().fit(x, ["a"] * len(y))
    for steps in (True, 2.5, "5", 10**12):
        with pytest.raises(ValueError, match="steps must be a whole number from 1 to 10,000"):
            NDPRegressor(steps=steps).fit(x, y)
    regressor = NDPRegressor(steps=3).fit(x, y)
    with pytest.raises(ValueError, match="num_samples must be a whole number of at least 1, not True"):
        regressor.sample_y(x, True)
    with pytest.raises(ValueError, match=r"y must have shape .* its shape is \[3\]"):
        regressor.log_prob(x, y[:3])


def test_works_in_pipelines_searches_and_cross_validation_and_pickles() -> None:
    x, y = data()
    pipeline = make_pipeline(StandardScaler(), NDPRegressor(steps=4))
    search = GridSearchCV(pipeline, {"ndpregressor__steps": [3, 6]}, cv=2).fit(x, y)
    assert search.best_params_["ndpregressor__steps"] in (3, 6)
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.5
    again = pickle.loads(pickle.dumps(pipeline.fit(x, y)))
    np.testing.assert_array_equal(again.predict(x[:3]), pipeline.predict(x[:3]))
    assert len(pickle.dumps(pipeline)) < 50_000


def test_categories_are_taken_as_they_come_and_encoded() -> None:
    x, y = data()
    table = pd.DataFrame(x[:, 1:], columns=["b", "c"]).assign(colour=np.where(x[:, 0] > 0, "red", "blue"))
    regressor = NDPRegressor(steps=4).fit(table, y)
    assert regressor.score(table, y) > 0.5
    assert regressor.describe()[-1] == "colour: category (0 and 1)"
    again = NDPRegressor(steps=4).fit(table.to_numpy(dtype=object), y)
    np.testing.assert_array_equal(again.predict(table.to_numpy(dtype=object)), regressor.predict(table))
    encode = make_column_transformer((OneHotEncoder(drop="first"), ["colour"]), remainder="passthrough")
    assert make_pipeline(encode, NDPRegressor(steps=4)).fit(table, y).score(table, y) > 0.5


def test_too_many_rows_and_inputs_are_thinned_out_and_said_so() -> None:
    x, y = data(rows=10_000, dim=2)
    with pytest.warns(UserWarning, match="10000 observations are more than the 256"):
        regressor = NDPRegressor(steps=6).fit(x, y)
    assert regressor.X_train_.shape == (256, 2)
    assert regressor.score(x[:50], y[:50]) > 0.5
    x, y = data(rows=60, dim=14)
    with pytest.warns(UserWarning, match="14 inputs are more than the 10"):
        regressor = NDPRegressor(steps=6).fit(x, y)
    assert {0, 13} <= set(regressor.columns_)


def test_degenerate_tables_get_sensible_answers() -> None:
    x, y = data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = NDPRegressor().fit(x[:1], y[:1])
        assert one.predict(x[:1])[0] == pytest.approx(y[0], rel=0.05)
        constant = NDPRegressor().fit(x, np.full(len(x), 0.1))
        np.testing.assert_allclose(constant.predict(x), 0.1, atol=0.03)
        duplicated = NDPRegressor().fit(np.repeat(x, 3, axis=0), np.repeat(y, 3))
        assert duplicated.score(x, y) > 0.8
        dates = 1.7e9 + 86400.0 * np.arange(30)[:, None]
        wave = np.sin(np.arange(30) / 5)
        assert NDPRegressor().fit(dates[::2], wave[::2]).score(dates[1:-1:2], wave[1:-1:2]) > 0.8


@pytest.mark.parametrize("times", [1, 30])
def test_who_has_seen_one_place_only_is_unsure_of_all_others(times: int) -> None:
    regressor = NDPRegressor().fit(np.full((times, 2), 3.0), np.full(times, 5.0))
    _, there = regressor.predict(np.full((1, 2), 3.0), return_std=True)
    mean, elsewhere = regressor.predict(np.full((1, 2), 4.5), return_std=True)
    assert elsewhere[0] > 1.5 * there[0]
    assert 0.5 < elsewhere[0] < 20
    assert 0 < mean[0] < 10
