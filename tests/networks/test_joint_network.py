"""The paper's propositions for both heads of the joint network, and what makes the regression network its special case."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ndp.diffusion.levels import CLEAN
from ndp.networks.attention import PointAttention
from ndp.networks.joint import JointAttention, grid_of_box

OURS = {"anchor_points": 9}
PAPER = {
    "attention": "per_dimension",
    "rotary": False,
    "local_density": False,
    "anchor_points": 0,
}
every_form = pytest.mark.parametrize("form", [OURS, PAPER, {**OURS, "attention": "per_dimension"}])
LIKE = torch.zeros((), dtype=torch.float64)
sizes = {"seed": st.integers(0, 10_000), "points": st.integers(1, 7), "dims": st.integers(1, 3)}


def network(**options: object) -> JointAttention:
    """A small network whose output layers are not the zeros that training starts from."""
    torch.manual_seed(0)
    made = JointAttention(width=16, heads=2, blocks=2, level_width=8, **options).double()
    for out in (made.out, made.out_of_inputs):
        torch.nn.init.normal_(out.weight)
    return made.requires_grad_(False)


def random_points(seed: int, points: int, dims: int) -> tuple[Tensor, ...]:
    """Inputs, values, a level of either, and a mask."""
    generator = torch.Generator().manual_seed(seed)
    x_t = torch.randn(2, points, dims, generator=generator, dtype=torch.float64)
    y_t = torch.randn(2, points, 1, generator=generator, dtype=torch.float64)
    level_x, level_y = 4 * torch.randn(2, 2, points, generator=generator, dtype=torch.float64)
    mask = torch.rand(2, points, generator=generator) > 0.3
    mask[:, 0] = True
    return x_t, y_t, level_x, level_y, mask


def assert_same(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@every_form
@given(**sizes)
@settings(max_examples=10, deadline=None)
def test_both_heads_are_equivariant_to_the_order_of_points(form, seed: int, points: int, dims: int) -> None:
    inputs = random_points(seed, points, dims)
    order = torch.randperm(points, generator=torch.Generator().manual_seed(seed + 1))
    net, real = network(**form), inputs[-1][:, order]
    shuffled, straight = net(*(t[:, order] for t in inputs)), net(*inputs)
    assert_same(tuple(out[real] for out in shuffled), tuple(out[:, order][real] for out in straight))


@every_form
@given(**sizes)
@settings(max_examples=10, deadline=None)
def test_the_head_of_inputs_is_equivariant_and_that_of_outputs_invariant_to_the_order_of_dimensions(
    form, seed: int, points: int, dims: int
) -> None:
    x_t, *others = random_points(seed, points, dims)
    order = torch.randperm(dims, generator=torch.Generator().manual_seed(seed + 1))
    net = network(**form)
    out_x, out_y = net(x_t, *others)
    assert_same(net(x_t[..., order], *others), (out_x[..., order], out_y))


@every_form
@given(**sizes)
@settings(max_examples=10, deadline=None)
def test_masked_points_have_no_influence(form, seed: int, points: int, dims: int) -> None:
    x_t, y_t, level_x, level_y, mask = random_points(seed, points, dims)
    net = network(**form)
    bad = (t.masked_fill(~mask.reshape(mask.shape + (1,) * (t.ndim - 2)), float("nan")) for t in (x_t, y_t, level_x))
    expected = tuple(out[mask] for out in net(x_t, y_t, level_x, level_y, mask))
    assert_same(tuple(out[mask] for out in net(*bad, level_y, mask)), expected)
    kept = [net(*(t[b : b + 1, m] for t in (x_t, y_t, level_x, level_y))) for b, m in enumerate(mask)]
    assert_same(tuple(torch.cat([one[head][0] for one in kept]) for head in (0, 1)), expected)


@every_form
def test_every_input_and_either_level_matters_to_either_head_of_other_points(form) -> None:
    net, inputs = network(**form), random_points(4, 5, 2)[:4]
    base = net(*inputs)
    for index in range(4):
        moved = [t.clone() for t in inputs]
        moved[index][:, 0] += 0.3
        for changed, before in zip(net(*moved), base, strict=True):
            assert ((changed - before)[:, 1:].abs() > 1e-8).all()


@every_form
@given(context=st.integers(0, 4), independent=st.booleans(), **sizes)
@settings(max_examples=15, deadline=None)
def test_a_context_encoded_once_gives_the_same_output_for_every_draw(
    form, context: int, independent: bool, seed: int, points: int, dims: int
) -> None:
    x_t, y_t, level_x, level_y, mask = random_points(seed, context + points, dims)
    mask[:, context:] = True
    mask[0, :context] = seed % 2 == 0
    level_x[:, :context] = CLEAN  # the inputs of a context are known
    level_x[:, context:], level_y[:, context:] = level_x[0, -1], level_y[0, -1]
    net = network(**form)
    generator = torch.Generator().manual_seed(seed)
    fresh = [torch.randn(3, *t[:, context:].shape, generator=generator, dtype=t.dtype) for t in (x_t, y_t)]
    expected = []
    for drawn in zip(*fresh, strict=True):
        x, y = (torch.cat([t[:, :context], d], dim=1) for t, d in zip((x_t, y_t), drawn, strict=True))
        outs = net(x, y, level_x, level_y, mask, num_context=context, independent=independent)
        expected.append([out[:, context:] for out in outs])
    encoding = net.encode_context(*(t[:, :context] for t in (x_t, y_t, level_y, mask)))
    rows = [t.flatten(0, 1) for t in fresh]
    found = net.denoise_points(encoding, *rows, level_x[0, -1], level_y[0, -1], independent=independent)
    assert_same(found, tuple(torch.cat([one[head] for one in expected]) for head in (0, 1)))


@every_form
@given(context=st.integers(0, 4), **sizes)
@settings(max_examples=10, deadline=None)
def test_independent_targets_are_those_of_one_call_each(form, context: int, seed: int, points: int, dims: int) -> None:
    inputs = random_points(seed, context + points, dims)
    inputs[-1][:, context:] = True
    net = network(**form)
    independent = net(*inputs, num_context=context, independent=True)
    for target in range(context, context + points):
        chosen = [*range(context), target]
        single = net(*(t[:, chosen] for t in inputs), num_context=context)
        assert_same(tuple(out[:, -1] for out in single), tuple(out[:, target] for out in independent))


@every_form
def test_regression_is_the_case_of_known_inputs_and_draws_share_them(form) -> None:
    x, y_t, _, level, mask = random_points(5, 6, 2)
    mask[:, 2:] = True
    level[:, 2:] = level[0, -1]
    net = network(**form)
    twice = torch.cat([y_t[:, 2:]] * 2)
    encoding = net.encode_context(x[:, :2], y_t[:, :2], level[:, :2], mask[:, :2])
    for joint in (True, False):
        known = torch.full_like(level, CLEAN)
        expected = net(x, y_t, known, level, mask, num_context=2, independent=not joint)[1][:, 2:]
        targets = net.encode_targets(encoding, x[:, 2:], joint=joint)
        torch.testing.assert_close(net.denoise(targets, twice, level[0, -1]), torch.cat([expected] * 2))


def test_anchor_points_lie_in_the_middle_of_cells_that_fill_the_box_and_dimensions_are_alike() -> None:
    torch.testing.assert_close(
        grid_of_box(4, 1, like=LIKE)[:, 0], torch.tensor([-0.75, -0.25, 0.25, 0.75], dtype=torch.float64)
    )
    square = grid_of_box(9, 2, like=LIKE)
    assert square.shape == (9, 2)
    assert {tuple(p) for p in square.tolist()} == {tuple(p) for p in square.flip(-1).tolist()}


def test_it_starts_at_zero_and_refuses_what_it_cannot_be() -> None:
    net = JointAttention(width=16, heads=2, blocks=1)
    outs = net(*(t.float() if t.is_floating_point() else t for t in random_points(8, 5, 2)))
    assert max(out.abs().max() for out in outs) == 0
    assert JointAttention(**net.config).config == net.config
    assert net.config["attention"] == PointAttention.SUMMED
    for wrong, message in (
        ({"width": 60}, "multiple of twice"),
        ({"anchor_points": -1}, "not -1"),
    ):
        with pytest.raises(ValueError, match=message):
            JointAttention(**wrong)
