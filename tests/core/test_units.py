"""Units: exact maps there and back, densities that stay densities, and what is told where a scaling makes no sense."""

import json
import math
from typing import Any

import pytest
import torch

from ndp.core.units import FixedUnits, turns

TWO_TO_TWO = FixedUnits(x_shift=(1.0, -3.0), x_scale=(2.0, 0.5), y_shift=(10.0, -1.0), y_scale=(4.0, 0.25))
ONE_OUTPUT = FixedUnits(x_shift=(0.0,), x_scale=(1.0,), y_shift=(20.0,), y_scale=(2.5,))


def test_every_column_has_its_own_map() -> None:
    x = torch.tensor([[[1.0, -3.0], [5.0, -2.0]]], dtype=torch.float64)
    assert TWO_TO_TWO.to_model_x(x).tolist() == [[[0.0, 0.0], [2.0, 2.0]]]
    y = torch.tensor([[10.0, -1.0], [2.0, 0.0]], dtype=torch.float64)
    assert TWO_TO_TWO.to_model_y(y).tolist() == [[0.0, 0.0], [-2.0, 4.0]]
    assert TWO_TO_TWO.from_model_std(torch.tensor([1.0, 2.0])).tolist() == [4.0, 0.5]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2,), (5, 2), (3, 4, 5, 2), (0, 2)])
def test_values_come_back(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    y = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    back = TWO_TO_TWO.from_model_y(TWO_TO_TWO.to_model_y(y))
    assert back.dtype == dtype
    torch.testing.assert_close(back, y, rtol=0, atol=20 * torch.finfo(dtype).eps)


def test_noise_is_scaled_and_not_shifted() -> None:
    noise = torch.tensor([[0.0, 5.0], [2.5, 1.0]])
    torch.testing.assert_close(ONE_OUTPUT.to_model_noise(noise), torch.tensor([[0.0, 2.0], [1.0, 0.4]]))
    shared = FixedUnits((0.0,), (1.0,), (1.0, 2.0), (2.0, 2.0))
    torch.testing.assert_close(shared.to_model_noise(noise), noise / 2)
    with pytest.raises(ValueError, match=r"noise is one number a point, .* scales of their own: \(4.0, 0.25\)$"):
        TWO_TO_TWO.to_model_noise(noise)


def test_noise_and_std_are_inverse_to_each_other() -> None:
    """An observation's noise, were it the standard deviation of a prediction, comes back as it was."""
    noise = torch.rand(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(ONE_OUTPUT.from_model_std(ONE_OUTPUT.to_model_noise(noise)[..., None])[..., 0], noise)


def test_log_det_is_that_of_a_change_of_variables() -> None:
    """Model values N(m, L L^T); what is in the user's units is then normal with shifted mean and scaled covariance."""
    generator = torch.Generator().manual_seed(0)
    points, outputs = 3, 2
    size = points * outputs
    mean = torch.randn(size, generator=generator, dtype=torch.float64)
    factor = torch.randn(size, size, generator=generator, dtype=torch.float64).tril(-1) + torch.eye(size)
    in_model = torch.distributions.MultivariateNormal(mean, scale_tril=factor.double())
    scale = torch.tensor(TWO_TO_TWO.y_scale, dtype=torch.float64).repeat(points)
    shift = torch.tensor(TWO_TO_TWO.y_shift, dtype=torch.float64).repeat(points)
    in_user = torch.distributions.MultivariateNormal(shift + scale * mean, scale_tril=scale[:, None] * factor.double())

    y = 5 * torch.randn(points, outputs, generator=generator, dtype=torch.float64)
    through_model = in_model.log_prob(TWO_TO_TWO.to_model_y(y).flatten()) + TWO_TO_TWO.log_det(points)
    torch.testing.assert_close(through_model, in_user.log_prob(y.flatten()))
    assert ONE_OUTPUT.log_det(0) == 0
    assert ONE_OUTPUT.log_det(7) == pytest.approx(-7 * math.log(2.5))


def test_the_wrong_last_axis_is_told() -> None:
    with pytest.raises(
        ValueError, match=r"the last axis of x must have 2 entries, .* dimension; its shape is \[4, 1\]$"
    ):
        TWO_TO_TWO.to_model_x(torch.zeros(4, 1))
    for method in (TWO_TO_TWO.to_model_y, TWO_TO_TWO.from_model_y, TWO_TO_TWO.from_model_std):
        with pytest.raises(
            ValueError, match=r"the last axis of y must have 2 entries, .* output; its shape is \[4, 3\]$"
        ):
            method(torch.zeros(4, 3))


def test_a_scaling_goes_through_json_exactly() -> None:
    odd = FixedUnits((0.1, 1 / 3), (math.pi, 5e-324), (-1e300,), (1.7976931348623157e308,))
    assert FixedUnits.from_dict(json.loads(json.dumps(odd.as_dict()))) == odd
    assert FixedUnits.from_dict({"x_shift": [0], "x_scale": [1], "y_shift": [2], "y_scale": [3]}).y_scale == (3.0,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"x_shift": (0.0, 0.0)},
            "x_shift and x_scale need one number each for every input dimension; they have 2 and 1",
        ),
        ({"y_shift": (), "y_scale": ()}, "need one number each for every output; they have 0 and 0"),
        ({"x_shift": (math.nan,)}, "x_shift and x_scale must be finite"),
        ({"y_scale": (math.inf,)}, "y_shift and y_scale must be finite"),
        ({"x_scale": (0.0,)}, r"x_scale must be positive, not \(0.0,\)"),
        ({"y_scale": (-1.0,)}, "y_scale must be positive"),
    ],
)
def test_what_is_no_scaling(change: dict[str, tuple[float, ...]], message: str) -> None:
    values = {"x_shift": (0.0,), "x_scale": (1.0,), "y_shift": (0.0,), "y_scale": (1.0,)} | change
    with pytest.raises(ValueError, match=message):
        FixedUnits(**values)
    with pytest.raises(ValueError, match=message):
        FixedUnits.from_dict({name: list(numbers) for name, numbers in values.items()})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "a scaling has x_shift, x_scale, y_shift, y_scale, and not: nothing$"),
        ({"x_shift": [0.0]}, "and not: x_shift$"),
        (ONE_OUTPUT.as_dict() | {"z_shift": [0.0]}, "and not: .*z_shift$"),
        (ONE_OUTPUT.as_dict() | {"y_shift": 1.0}, "y_shift must be a list of numbers, not 1.0$"),
        (ONE_OUTPUT.as_dict() | {"y_shift": ["1"]}, "y_shift must be a list of numbers, not"),
        (ONE_OUTPUT.as_dict() | {"y_scale": [True]}, "y_scale must be a list of numbers, not"),
    ],
)
def test_what_is_no_dictionary_of_a_scaling(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FixedUnits.from_dict(values)


def test_what_is_symmetric_is_left_as_it_is_and_other_things_are_turned() -> None:
    x = torch.tensor([[[-1.0, 1.0], [0.0, 0.0], [1.0, -1.0], [50.0, 50.0]]])
    mask = torch.tensor([[True, True, True, False]])
    for values, of_x, of_y in (
        ([-1.0, 0.0, 1.0, -9.0], [1.0, -1.0], 1.0),  # no tail; rises along the first input and falls along the second
        ([0.0, 0.0, 0.0, -9.0], [1.0, 1.0], 1.0),  # nothing to go by
        ([0.5, -1.0, 0.5, 9.0], [1.0, 1.0], -1.0),  # a tail below; neither rises nor falls
        ([1.0, 1.0, -2.0, 9.0], [1.0, -1.0], -1.0),
    ):
        x_turn, y_turn = turns(x, torch.tensor(values)[None, :, None], mask)
        assert x_turn.flatten().tolist() == of_x
        assert y_turn.item() == of_y
