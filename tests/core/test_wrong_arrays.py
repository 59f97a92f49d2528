"""What a user is told where something handed in is wrong."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

import ndp
from two_tasks import NOISE, X_NEW, X, Y, seeded

BAD_CONTEXTS: list[tuple[dict[str, Any], str]] = [
    ({"x": np.zeros((2, 3, 4, 1))}, r"x must have shape \[N\], \[N, D\] or \[B, N, D\]; its shape is \[2, 3, 4, 1\]"),
    ({"x": np.array(0.5)}, r"x must have shape .* its shape is \[\]"),
    ({"x": np.zeros((0, 4, 1)), "y": np.zeros((0, 4))}, "x holds no tasks"),
    ({"x": np.zeros((4, 0))}, r"x has no input dimensions: its shape is \[1, 4, 0\]"),
    ({"y": Y[0, :3]}, r"y must have shape \[4, 1\] or \[4\] to go with 4 points .* its shape is \[3\]"),
    ({"y": Y}, r"y must have shape \[4, 1\] or \[4\] .* its shape is \[2, 4\]"),
    ({"y": np.zeros((4, 2))}, r"of 1 output\(s\); its shape is \[4, 2\]"),
    ({"y": np.array(1.0)}, r"y must have shape .* its shape is \[\]"),
    ({"x": X[..., None], "y": Y[0]}, r"y must have shape \[2, 4, 1\] or \[2, 4\] .* its shape is \[4\]"),
    ({"x": X[..., None], "y": Y.T}, r"its shape is \[4, 2\]"),
    ({"x": np.array([0.0, 1.0, np.nan, 2.0])}, r"x holds nan at point 2 \(counted from 0\); remove the point or leave"),
    ({"x": np.array([[0.0, 1.0], [2.0, -np.inf]]), "y": np.zeros(2)}, "x holds -inf at point 1, column 1"),
    ({"y": np.array([np.inf, 1.0, 1.0, 2.0])}, "y holds inf at point 0 "),
    ({"x": X[..., None], "y": np.array([Y[0], [0, np.nan, 0, 0]])}, "y holds nan at point 1 of task 1"),
    ({"y": np.array([np.nan, 1, 1, 2]), "mask": np.array([True, True, True, False])}, "y holds nan at point 0"),
    ({"y": np.array([True, False, True, True])}, "y must be an array of real numbers, not bool"),
    ({"y": torch.zeros(4, dtype=torch.bool)}, "y must be an array of real numbers, not torch.bool"),
    ({"x": X[0] + 1j}, "x must be an array of real numbers, not complex128"),
    ({"x": torch.zeros(4, dtype=torch.complex64)}, "x must be an array of real numbers, not torch.complex64"),
    ({"x": np.array(["0", "1", "2", "3"])}, "x must be an array of real numbers, not str_"),
    ({"y": np.array([0, 1, None, 3])}, "y must be an array of real numbers, not object_"),
    ({"x": np.arange("2024-01-01", "2024-01-05", dtype="datetime64[D]")}, "x must .* not datetime64"),
    ({"noise": -0.1}, "noise is a standard deviation: every value must be finite and not negative"),
    ({"noise": np.nan}, "noise is a standard deviation"),
    ({"noise": np.array([0.1, np.inf, 0.1, 0.1])}, "noise is a standard deviation"),
    ({"noise": np.array([0.1, 0.1, 0.1, -1e-9])}, "noise is a standard deviation"),
    ({"noise": 1e301}, r"noise is a standard deviation.* at most 1e\+300"),
    (
        {"y": np.array([1.0, -1e308, 1.0, 2.0])},
        r"y holds -1e\+308 at point 1 .* numbers above 1e\+300 in size are too large",
    ),
    (
        {"x": np.ma.masked_array(X[0], mask=X[0] > 0)},
        "x is a masked array, whose mask would be lost; pass its values, and m",
    ),
    ({"x": torch.eye(4, 1).to_sparse()}, "x must be a dense tensor"),
    ({"noise": np.array([0.1, 0.1])}, r"noise must be one number or have shape \[4\]; its shape is \[2\]"),
    ({"noise": np.full((4, 1), 0.1)}, r"noise must be one number or have shape \[4\]; its shape is \[4, 1\]"),
    (
        {"x": X[..., None], "y": Y, "noise": np.full(4, 0.1)},
        r"noise must be one number or have shape \[2, 4\]; its shape is \[4\]",
    ),
    ({"noise": np.array(["a"] * 4)}, "noise must be an array of real numbers, not str_"),
    ({"mask": np.array([1, 0, 1, 1])}, r"mask must hold booleans \(True is a real point\), not int64"),
    ({"mask": torch.ones(4)}, r"mask must hold booleans \(True is a real point\), not torch.float32"),
    ({"mask": np.array(["yes", "no", "yes", "yes"])}, "mask must hold booleans"),
    ({"mask": np.array([True, False])}, r"mask must have shape \[4\]; its shape is \[2\]"),
    ({"mask": np.ones((4, 1), dtype=bool)}, r"mask must have shape \[4\]; its shape is \[4, 1\]"),
    ({"x": X[..., None], "y": Y, "mask": np.ones(4, dtype=bool)}, r"mask must have shape \[2, 4\]; its shape is \[4\]"),
    # The mask is what is wrong, not the point that it was to leave out.
    ({"y": np.array([np.nan, 1, 1, 2]), "mask": np.array([0, 1, 1, 1])}, "mask must hold booleans"),
    ({"y": np.array([np.nan, 1, 1, 2]), "mask": np.array([False, True])}, "mask must have shape"),
]


@pytest.mark.parametrize(("wrong", "message"), BAD_CONTEXTS)
def test_a_bad_context_is_told_in_words(model: ndp.GP | ndp.NDP, wrong: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.condition(**({"x": X[0], "y": Y[0]} | dict(wrong)))


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x": "0 1 2 3"}, "x must be an array of real numbers, not str_"),
        ({"x": None}, "x must be an array of real numbers, not object_"),
        ({"x": [[0.0, 1.0], [2.0]]}, r"x must be an array of numbers \(.*inhomogeneous"),
        ({"y": ["a", "b", "c", "d"]}, "y must be an array of real numbers, not str_"),
        ({"noise": "0.1"}, "noise must be an array of real numbers, not str_"),
        ({"noise": True}, "noise must be an array of real numbers, not bool"),
        ({"mask": "all"}, "mask must hold booleans"),
        ({"mask": [1, 0, 1, 1]}, "mask must hold booleans"),
    ],
)
def test_a_context_that_is_no_array_is_told_in_words(model: Any, wrong: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.condition(**({"x": X[0], "y": Y[0]} | dict(wrong)))


BAD_TARGETS = [
    (np.zeros(0), "x holds no points; ask for at least one"),
    (np.zeros((0, 1)), "x holds no points"),
    (np.zeros((2, 3, 4, 1)), r"x must have shape \[N\], \[N, D\] or \[B, N, D\]; its shape is \[2, 3, 4, 1\]"),
    (np.zeros((3, 2)), r"x has 2 input dimension\(s\) \(its last axis\) and the context has 1"),
    (np.zeros((2, 3, 1)), r"x holds 2 task\(s\) and the context 1; pass as many, or one for all"),
    (np.array([0.0, np.nan]), "x holds nan at point 1 "),
    (np.array(["a"]), "x must be an array of real numbers, not str_"),
]


@pytest.mark.parametrize(("x", "message"), BAD_TARGETS)
@pytest.mark.parametrize("ask", ["sample", "moments", "quantiles", "log_prob"])
def test_bad_targets_are_told_in_words(model: ndp.GP | ndp.NDP, ask: str, x: np.ndarray, message: str) -> None:
    posterior = model.condition(X[0], Y[0])
    rest: dict[str, list[Any]] = {"quantiles": [[0.5]], "log_prob": [np.zeros(x.shape[:1])]}
    with pytest.raises(ValueError, match=message):
        getattr(posterior, ask)(x, *rest.get(ask, []))


@pytest.mark.parametrize(("x", "message"), [case for case in BAD_TARGETS if "context" not in case[1]])
def test_bad_inputs_of_the_prior_are_told_in_words(model: ndp.GP | ndp.NDP, x: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.sample(x, 2)


def test_tasks_of_targets_and_context_must_agree(model: ndp.GP | ndp.NDP) -> None:
    posterior = model.condition(X[..., None], Y)
    with pytest.raises(ValueError, match=r"x holds 3 task\(s\) and the context 2; pass as many, or one for all"):
        posterior.moments(np.zeros((3, 4, 1)))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(2), r"y must have shape \[3, 1\] or \[3\] to go with 3 points of 1 output\(s\); its shape is \[2\]"),
        (np.zeros((1, 3)), r"y must have shape .* its shape is \[1, 3\]"),
        (np.array([0.0, np.nan, 1.0]), "y holds nan at point 1 "),
        (np.array(["a", "b", "c"]), "y must be an array of real numbers"),
    ],
)
def test_bad_values_to_score_are_told_in_words(model: ndp.GP | ndp.NDP, y: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.condition(X[0], Y[0]).log_prob(X_NEW, y)


def test_values_to_score_go_with_the_tasks_of_the_context(model: ndp.GP | ndp.NDP) -> None:
    with pytest.raises(ValueError, match=r"y must have shape \[2, 3, 1\] or \[2, 3\] .* its shape is \[3\]"):
        model.condition(X[..., None], Y).log_prob(X_NEW, np.zeros(3))


@pytest.mark.parametrize("num_samples", [0, -3])
def test_at_least_one_draw(model: ndp.GP | ndp.NDP, num_samples: int) -> None:
    message = f"num_samples must be a whole number of at least 1, not {num_samples}"
    with pytest.raises(ValueError, match=message):
        model.sample(X_NEW, num_samples)
    with pytest.raises(ValueError, match=message):
        model.condition(X[0], Y[0]).sample(X_NEW, num_samples)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("num_samples", [2.0, 2.5, "2", True, [2]])
def test_a_number_of_draws_is_a_whole_number(model: Any, num_samples: object) -> None:
    with pytest.raises(ValueError, match=r"num_samples must be a whole number of at least 1, not "):
        model.condition(X[0], Y[0]).sample(X_NEW, num_samples)


@pytest.mark.usefixtures("as_installed")
def test_a_number_of_draws_may_come_from_numpy(model: Any) -> None:
    draws = model.sample(X_NEW, np.int64(2), generator=seeded())
    np.testing.assert_array_equal(draws, model.sample(X_NEW, 2, generator=seeded()))


@pytest.mark.parametrize("dim", [1, 3])
def test_a_model_says_which_input_dimensions_it_supports(dim: int) -> None:
    gp = ndp.load("gp-se")
    assert isinstance(gp, ndp.GP)
    model = ndp.NDP(ndp.GPOracle(gp), noise_floor=NOISE, input_dims=(2, 4))
    message = rf"x has {dim} input dimension\(s\) \(its last axis\); this model supports 2, 4"
    x = np.zeros((3, dim))
    with pytest.raises(ValueError, match=message):
        model.sample(x, 2)
    with pytest.raises(ValueError, match=message):
        model.condition(x, np.zeros(3))
    with pytest.raises(ValueError, match=message):
        model.log_prob(x, np.zeros(3))
    with pytest.raises(ValueError, match=rf"x has {dim} input dimension\(s\) .* and the context has 2"):
        model.condition(np.zeros((3, 2)), np.zeros(3)).moments(x)
