"""Data outside the limits of a model are subsampled, left out or clipped, and a warning says which."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from ndp.core.input_limits import clip_to_support, columns_to_keep, rows_to_keep, warn_of_far_inputs

LOW, HIGH, STD = np.array([0.0, 10.0]), np.array([1.0, 10.0]), np.array([0.5, 0.0])


def test_rows_within_the_limit_are_all_kept() -> None:
    np.testing.assert_array_equal(rows_to_keep(np.zeros(5), 5, np.random.default_rng(0)), np.arange(5))


def test_rows_beyond_the_limit_are_a_random_choice_in_order() -> None:
    with pytest.warns(UserWarning, match="9 observations are more than the 5 .* a random 5 of them are used"):
        kept = rows_to_keep(np.zeros(9), 5, np.random.default_rng(0))
    assert len(set(kept)) == 5
    assert list(kept) == sorted(kept)
    with pytest.warns(UserWarning, match="9 observations"):
        other = rows_to_keep(np.zeros(9), 5, np.random.default_rng(1))
    assert set(kept) != set(other)


def test_inputs_with_the_largest_rank_correlation_are_kept() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 6))
    x[:, 2] = 1.0  # a constant has no correlation
    x[:, 5] = np.round(x[:, 5])  # ties
    y = np.exp(x[:, 1]) - 0.7 * x[:, 5] + 0.1 * rng.normal(size=50)
    with pytest.warns(UserWarning, match="6 inputs are more than the 3"):
        kept = columns_to_keep(x, y, 3)
    score = [0.0 if i == 2 else abs(spearmanr(x[:, i], y).statistic) for i in range(6)]
    np.testing.assert_array_equal(kept, np.sort(np.argsort(score)[-3:]))
    assert {1, 5} <= set(kept)


def test_the_order_of_rows_does_not_decide_which_inputs_are_kept_where_values_are_tied() -> None:
    x = np.array([[0, 0, 1, 1], [0, 1, 0, 1]] * 6, dtype=float).reshape(4, -1).T
    x = np.column_stack([x, np.arange(len(x)) % 3])
    y = np.array([0.0, 1.0, 1.0, 0.0] * 3)
    orders = [np.arange(len(y)), np.arange(len(y))[::-1], np.random.default_rng(0).permutation(len(y))]
    kept = []
    for order in orders:
        with pytest.warns(UserWarning, match="inputs are more"):
            kept.append(tuple(columns_to_keep(x[order], y[order], 2)))
    assert len(set(kept)) == 1


def test_a_constant_target_keeps_the_first_inputs() -> None:
    with pytest.warns(UserWarning, match="3 inputs are more than the 2"):
        np.testing.assert_array_equal(columns_to_keep(np.eye(3), np.ones(3), 2), [0, 1])


def test_inputs_near_the_data_are_not_clipped() -> None:
    x = np.array([[-1.0, 8.0], [2.0, 12.0]])  # two standard deviations; two units where the data have no spread
    clipped, far = clip_to_support(x, LOW, HIGH, STD)
    np.testing.assert_array_equal(clipped, x)
    assert not far.any()


@pytest.mark.parametrize(
    ("far", "rows", "words"),
    [
        ([3], None, r"row 3"),
        ([3, 8], None, r"rows 3, 8"),
        ([3, 8], range(2, 22), r"rows 5, 10"),
        (range(1, 9), None, r"rows 1, 2, 3, 4, 5 and 3 more"),
    ],
)
def test_inputs_far_outside_the_data_are_clipped_and_their_rows_named(far: object, rows: object, words: str) -> None:
    x = np.full((20, 2), [0.5, 10.0])
    x[far] = [7.0, 0.0]
    clipped, outside = clip_to_support(x, LOW, HIGH, STD)
    with pytest.warns(UserWarning, match=rf"than the data are wide were clipped \({words}; columns a, b\)\.$"):
        warn_of_far_inputs(outside, ["a", "b"], rows)
    np.testing.assert_array_equal(clipped[far], np.tile([2.0, 8.0], (len(far), 1)))
    others = np.setdiff1d(np.arange(20), far)
    np.testing.assert_array_equal(clipped[others], x[others])


def test_inputs_a_little_outside_the_data_are_clipped_without_a_warning() -> None:
    clipped, outside = clip_to_support(np.array([[2.0, 12.0]]), np.zeros(2), np.full(2, 3.0), np.full(2, 0.2))
    np.testing.assert_array_equal(clipped, [[2.0, 3.4]])
    assert outside.tolist() == [[False, True]]
    assert not clip_to_support(np.array([[2.0, 5.9]]), np.zeros(2), np.full(2, 3.0), np.full(2, 0.2))[1].any()
