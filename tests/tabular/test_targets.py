"""Targets: gaps, bounds and outliers, with densities that integrate to one."""

import numpy as np
import pandas as pd
import pytest

from ndp.tabular.targets import TargetMap, fit_target_map, read_bounds, read_targets, read_values


def test_maps_of_outliers_rise_and_can_be_inverted() -> None:
    y = np.array([-1e9, -50.0, -3.0, 0.0, 2.0, 7.9, 8.1, 1e3, 1e250])
    one = TargetMap(centre=1.0, scale=0.5, knee=8.0)
    values = one.to_model(y)
    assert (np.diff(values) > 0).all()
    np.testing.assert_allclose(one.from_model(values), y, rtol=1e-9)
    step = 1e-5 * np.maximum(1, np.abs(y[:-1]))
    slope = (one.to_model(y[:-1] + step) - one.to_model(y[:-1] - step)) / (2 * step)
    np.testing.assert_allclose(one.log_slope(y[:-1]), np.log(slope), atol=1e-3)


def test_outliers_are_drawn_in_and_ordinary_targets_are_not() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = x[:, 0] + 0.2 * rng.normal(size=80)
    assert fit_target_map(x, y, "auto").is_identity
    y[3] = 1e8
    found = fit_target_map(x, y, None)
    assert not found.is_identity
    assert np.abs(found.to_model(y)).max() < 12
    assert (found.low, found.high) == (y.min(), 1e8)


@pytest.mark.parametrize(
    ("y", "low", "high"),
    [
        (np.linspace(0.1, 9, 40), 0.0, np.inf),
        (-np.linspace(0.1, 9, 40), -np.inf, 0.0),
        (np.linspace(-1, 9, 40), -np.inf, np.inf),
        (np.tile([1.0, 2.0, 3.0, 5.0], 10), 1.0, 5.0),
        (np.minimum(np.linspace(-5, 9, 40), 6.0), -np.inf, 6.0),
        (np.linspace(0.1, 9, 10), -np.inf, np.inf),
    ],
)
def test_bounds_are_those_that_the_data_share(y: np.ndarray, low: float, high: float) -> None:
    found = fit_target_map(np.zeros((len(y), 1)), y, "auto")
    assert (found.low, found.high) == (low, high)
    assert fit_target_map(np.zeros((len(y), 1)), y, (-1.0, 2.0)).high == 2.0


def test_targets_are_read_with_gaps_and_names() -> None:
    values, names = read_targets(pd.DataFrame({"a": [1, None], "b": [True, False]}), 2)
    assert names == ("a", "b")
    np.testing.assert_array_equal(values, [[1, 1], [np.nan, 0]])
    np.testing.assert_array_equal(read_targets([1, None, 3], 3)[0], [1, np.nan, 3])
    assert read_values([[1.0], [2.0]], 2, None).shape == (2,)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed"),
        (["a", "b"], "y must be an array of real numbers, not text; a category cannot be a target"),
        ([np.nan, np.nan], r"the target is missing \(NaN\) in all rows"),
        (pd.DataFrame({"a": [1, 2], "b": [None, None]}), r"the target b is missing \(NaN\) in all rows"),
        ([1.0, np.inf], r"y holds inf at point 1 \(counted from 0\); remove the row"),
        ([1.0, 2.0, 3.0], r"y must have shape \[2\] or \[2, P\]"),
        (np.zeros((2, 0)), "y must have shape"),
        (np.ma.masked_array([1.0, 2.0], mask=[0, 1]), "y is a masked array"),
        ([1j, 2], "Complex data not supported"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(y: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_targets(y, 2)


@pytest.mark.parametrize("bounds", ["none", (1,), (2, 1), (0, "a"), (np.nan, 1), 3])
def test_bounds_are_two_numbers_that_rise(bounds: object) -> None:
    with pytest.raises(ValueError, match='bounds must be "auto", None or two numbers that rise'):
        read_bounds(bounds)
