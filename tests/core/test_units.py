"""Units: exact maps there and back, densities that stay densities, large offsets, and errors for units without sense."""

import json
import math
import warnings
from typing import Any

import pytest
import torch

from ndp.core.arrays import Context
from ndp.core.units import ContextUnits, FixedUnits, Units, centre_and_spread, orientation
from ndp.networks.bidimensional import BiDimensionalAttention
from ndp.processes.ndp import NDP

TWO_TO_TWO = FixedUnits(x_shift=(1.0, -3.0), x_scale=(2.0, 0.5), y_shift=(10.0, -1.0), y_scale=(4.0, 0.25))
ONE_OUTPUT = FixedUnits(x_shift=(0.0,), x_scale=(1.0,), y_shift=(20.0,), y_scale=(2.5,))


def test_every_column_has_its_own_map() -> None:
    x = torch.tensor([[[1.0, -3.0], [5.0, -2.0]]], dtype=torch.float64)
    units = TWO_TO_TWO.on()
    assert units.to_model_x(x).tolist() == [[[0.0, 0.0], [2.0, 2.0]]]
    assert units.from_model_x(units.to_model_x(x)).tolist() == x.tolist()
    y = torch.tensor([[[10.0, -1.0], [2.0, 0.0]]], dtype=torch.float64)
    assert units.to_model_y(y).tolist() == [[[0.0, 0.0], [-2.0, 4.0]]]
    assert units.from_model_std(torch.tensor([[[1.0, 2.0]]])).tolist() == [[[4.0, 0.5]]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 5, 2), (3, 4, 5, 2), (1, 0, 2)])
def test_values_come_back_in_float64_whatever_they_were(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """What float32 can hold comes back to the last digit of float64, and not of float32."""
    y = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    back = TWO_TO_TWO.on().from_model_y(TWO_TO_TWO.on().to_model_y(y))
    torch.testing.assert_close(back, y.double(), rtol=0, atol=20 * torch.finfo(torch.float64).eps)


@pytest.mark.parametrize("y_shift", [1e6, 1e8])
@pytest.mark.parametrize("joint", [True, False])
def test_a_large_offset_costs_no_digits(y_shift: float, joint: bool) -> None:
    """The answers of a float32 network are those without the offset, moved; float32 would round 1e8 to a multiple of 8."""
    torch.manual_seed(0)
    network = BiDimensionalAttention(width=16, heads=2, blocks=1, level_width=8, context="separate")
    torch.nn.init.normal_(network.out.weight)
    x = torch.linspace(-1, 1, 5, dtype=torch.float64)
    y = torch.tensor([0.5, -0.25, 1.125, 0.0, -2.0], dtype=torch.float64)  # exact in float64 beside the offset
    at = torch.linspace(-1.5, 1.5, 40, dtype=torch.float64)

    def answers(offset: float) -> dict[str, torch.Tensor]:
        units = FixedUnits((0.0,), (1.0,), (offset,), (2.0,))
        posterior = NDP(network, noise_floor=0.05, units=units).condition(x, y + offset)
        draws = posterior.sample(at, 8, joint=joint, generator=torch.Generator().manual_seed(1))
        (mean, std), quantiles = posterior.summary(at, [0.1, 0.6], joint=joint)
        log_prob = posterior.log_prob(at[:5], y + offset, joint=joint)
        given = {"draws": draws - offset, "mean": mean - offset, "quantiles": quantiles - offset}
        return {name: torch.as_tensor(value) for name, value in (given | {"std": std, "log_prob": log_prob}).items()}

    plain, moved = answers(0.0), answers(y_shift)
    assert len(moved["draws"].unique()) == moved["draws"].numel(), "not rounded to a grid"
    assert moved["std"].min() > 0.01
    for name, expected in plain.items():
        size = expected.abs().max().item()
        torch.testing.assert_close(
            moved[name], expected, rtol=0, atol=1e-6 * size, msg=lambda told, n=name: f"{n}: {told}"
        )


def test_noise_is_scaled_and_not_shifted() -> None:
    noise = torch.tensor([[0.0, 5.0], [2.5, 1.0]])
    expected = torch.tensor([[0.0, 2.0], [1.0, 0.4]], dtype=torch.float64)
    torch.testing.assert_close(ONE_OUTPUT.on().to_model_std(noise), expected)
    shared = FixedUnits((0.0,), (1.0,), (1.0, 2.0), (2.0, 2.0))
    torch.testing.assert_close(shared.on().to_model_std(noise), noise.double() / 2)
    with pytest.raises(ValueError, match=r"noise is one number a point, .* scales of their own: \(4.0, 0.25\)$"):
        TWO_TO_TWO.on().to_model_std(noise)


def test_noise_and_std_are_inverse_to_each_other() -> None:
    """An observation's noise, were it the standard deviation of a prediction, comes back as it was."""
    noise = torch.rand(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    units = ONE_OUTPUT.on()
    torch.testing.assert_close(units.from_model_std(units.to_model_std(noise)[..., None])[..., 0], noise)


def test_a_mirrored_output_keeps_its_noise_and_its_volume() -> None:
    """A negative scale turns values over; standard deviations and densities see its size only."""
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    plain, mirrored = (Units(0 * one, one, 3 * one, scale * one) for scale in (2.5, -2.5))
    assert mirrored.to_model_y(8 * one).item() == -plain.to_model_y(8 * one).item() == -2.0
    for read in (Units.to_model_std, Units.from_model_std):
        values = one[0] if read is Units.to_model_std else one
        assert torch.equal(read(mirrored, values), read(plain, values))
    assert torch.equal(mirrored.log_det(4), plain.log_det(4))
    assert (plain.y_sign().item(), mirrored.y_sign().item()) == (1.0, -1.0)


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

    y = 5 * torch.randn(1, points, outputs, generator=generator, dtype=torch.float64)
    units = TWO_TO_TWO.on()
    through_model = in_model.log_prob(units.to_model_y(y).flatten()) + units.log_det(points)[0]
    torch.testing.assert_close(through_model, in_user.log_prob(y.flatten()))
    assert ONE_OUTPUT.on().log_det(0).tolist() == [0.0]
    assert ONE_OUTPUT.on().log_det(7).tolist() == [pytest.approx(-7 * math.log(2.5))]


def test_the_wrong_last_axis_is_told() -> None:
    with pytest.raises(
        ValueError, match=r"the last axis of x must have 2 entries, .* dimension; its shape is \[1, 4, 1\]$"
    ):
        TWO_TO_TWO.on().to_model_x(torch.zeros(1, 4, 1))
    units = TWO_TO_TWO.on()
    for method in (units.to_model_y, units.from_model_y, units.from_model_std):
        with pytest.raises(
            ValueError, match=r"the last axis of y must have 2 entries, .* output; its shape is \[1, 4, 3\]$"
        ):
            method(torch.zeros(1, 4, 3))


def test_fixed_units_go_through_json_exactly() -> None:
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
def test_fixed_units_without_sense_are_refused(change: dict[str, tuple[float, ...]], message: str) -> None:
    values = {"x_shift": (0.0,), "x_scale": (1.0,), "y_shift": (0.0,), "y_scale": (1.0,)} | change
    with pytest.raises(ValueError, match=message):
        FixedUnits(**values)
    with pytest.raises(ValueError, match=message):
        FixedUnits.from_dict({name: list(numbers) for name, numbers in values.items()})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "fixed units have x_shift, x_scale, y_shift, y_scale, and not: nothing$"),
        ({"x_shift": [0.0]}, "and not: x_shift$"),
        (ONE_OUTPUT.as_dict() | {"z_shift": [0.0]}, "and not: .*z_shift$"),
        (ONE_OUTPUT.as_dict() | {"y_shift": 1.0}, "y_shift must be a list of numbers, not 1.0$"),
        (ONE_OUTPUT.as_dict() | {"y_shift": ["1"]}, "y_shift must be a list of numbers, not"),
        (ONE_OUTPUT.as_dict() | {"y_scale": [True]}, "y_scale must be a list of numbers, not"),
    ],
)
def test_dictionaries_that_are_no_fixed_units_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FixedUnits.from_dict(values)


def test_symmetric_data_keep_their_orientation_and_others_are_mirrored() -> None:
    x = torch.tensor([[[-1.0, 1.0], [0.0, 0.0], [1.0, -1.0], [50.0, 50.0]]])
    mask = torch.tensor([[True, True, True, False]])
    for values, of_x, of_y in (
        ([-1.0, 0.0, 1.0, -9.0], [1.0, -1.0], 1.0),  # no tail; rises along the first input and falls along the second
        ([0.0, 0.0, 0.0, -9.0], [1.0, 1.0], 1.0),  # nothing to go by
        ([0.5, -1.0, 0.5, 9.0], [1.0, 1.0], -1.0),  # a tail below; neither rises nor falls
        ([1.0, 1.0, -2.0, 9.0], [1.0, -1.0], -1.0),
    ):
        x_sign, y_sign = orientation(x, torch.tensor(values)[None, :, None], mask)
        assert x_sign.flatten().tolist() == of_x
        assert y_sign.item() == of_y


def context_of(x: list[list[float]], y: list[float], mask: list[bool] | None = None) -> Context:
    inputs, values = torch.tensor(x, dtype=torch.float64)[None], torch.tensor(y, dtype=torch.float64)[None, :, None]
    real = torch.ones(values.shape[:2], dtype=torch.bool) if mask is None else torch.tensor(mask)[None]
    return Context(inputs, values, torch.zeros_like(values[..., 0]), real)


X, Y = [[0.5, 3.0], [-1.0, 3.0], [2.0, 3.0], [0.25, 3.0]], [3.0, 3.5, 4.5, 3.25]


@pytest.mark.parametrize("power", [-980, -660, -3, 40, 660, 980])
@pytest.mark.parametrize("masked", [False, True])
def test_units_of_a_context_follow_its_scale_to_the_ends_of_float64(power: int, masked: bool) -> None:
    """Powers of two change no digit of a number; the squares of most of these are no float64."""
    mask = [True, True, True, False] if masked else None
    scale = 2.0**power
    plain = ContextUnits().of(context_of(X, Y, mask))
    scaled = ContextUnits().of(context_of([[scale * one, other] for one, other in X], [scale * y for y in Y], mask))
    assert scaled.x_scale.tolist() == (plain.x_scale * torch.tensor([scale, 1.0], dtype=torch.float64)).tolist()
    assert scaled.x_shift.tolist() == (plain.x_shift * torch.tensor([scale, 1.0], dtype=torch.float64)).tolist()
    assert scaled.y_scale.tolist() == (plain.y_scale * scale).tolist()
    assert scaled.y_shift.tolist() == (plain.y_shift * scale).tolist()


def test_a_spread_beside_a_large_offset_is_seen_as_far_as_float64_holds_it() -> None:
    offset, units = 2.0**50, ContextUnits()  # 1.1e15: numbers near it are multiples of a quarter
    moved = units.of(context_of(X, [offset + y for y in Y]))
    assert moved.y_scale.item() == pytest.approx(units.of(context_of(X, Y)).y_scale.item(), rel=0.02)
    assert moved.y_shift.item() - offset == pytest.approx(sum(Y) / 4, abs=0.25)
    with pytest.warns(UserWarning, match=r"column 0 of y .* differ by rounding only, .* about 9.01e\+15"):
        rounded = units.of(context_of(X, [2.0**53 + y for y in (0, 2, 4, 2)]))
    assert rounded.y_scale.item() == rounded.y_shift.item()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        equal = units.of(context_of(X, [0.1, 0.1, 0.1, 7.0], [True, True, True, False]))
    assert abs(equal.y_scale.item()) == pytest.approx(0.1)


def test_values_too_close_for_float64_are_refused_by_their_column() -> None:
    for x, y, column in (
        ([[one, 1e-301 * other] for one, other in zip(Y, Y, strict=True)], Y, "column 1 of x"),
        (X, [1e-310 * y for y in Y], "column 0 of y"),
        (X, [5e-324, 0.0, 1.5e-323, 0.0], "column 0 of y"),
    ):
        with pytest.raises(
            ValueError, match=rf"^{column} \(counted from 0\) has values that differ by less than 1e-300"
        ):
            ContextUnits().of(context_of(x, y))


def test_a_spread_has_gradients_and_none_without_points() -> None:
    values = torch.tensor(X, dtype=torch.float64)[None, :, :1].requires_grad_()
    _, spread = centre_and_spread(values, torch.ones(1, 4, dtype=torch.bool))
    spread.sum().backward()
    assert values.grad is not None
    torch.testing.assert_close((values.grad * values.detach()).sum(), spread.detach().sum())  # it is homogeneous
    centre, spread = centre_and_spread(torch.zeros(2, 0, 3), torch.ones(2, 0, dtype=torch.bool))
    assert centre.shape == spread.shape == (2, 1, 3)
