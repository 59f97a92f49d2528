"""The paper's propositions, for both forms of attention and all forms of inputs, at random sizes and masks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ndp.networks.attention import (
    Memory,
    PointAttention,
    _read_independently,
    dimensions_by_products,
    dimensions_fused,
    dimensions_written_out,
)
from ndp.networks.bidimensional import BiDimensionalAttention, ContextAttention, Inputs

FORMS = [(attention, inputs) for attention in PointAttention for inputs in Inputs]
every_form = pytest.mark.parametrize(("attention", "inputs"), FORMS, ids=[f"{a}-{i}" for a, i in FORMS])
sizes = {"seed": st.integers(0, 10_000), "points": st.integers(1, 9), "dims": st.integers(1, 4)}


def network(
    attention: PointAttention,
    inputs: Inputs,
    num_outputs: int = 1,
    context: ContextAttention = ContextAttention.FULL,
) -> BiDimensionalAttention:
    """A small network whose output layer is not the zero that training starts from."""
    torch.manual_seed(0)
    made = BiDimensionalAttention(
        num_outputs=num_outputs,
        width=16,
        heads=2,
        blocks=2,
        attention=attention,
        inputs=inputs,
        context=context,
        input_count=True,
        level_width=8,
    ).double()
    for starts_at_zero in (made.out.weight, made.input_count_code):
        torch.nn.init.normal_(starts_at_zero)
    return made.requires_grad_(False)


def random_points(seed: int, points: int, dims: int, outputs: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = 4 * torch.rand(2, points, dims, generator=generator, dtype=torch.float64) - 2
    y_t = torch.randn(2, points, outputs, generator=generator, dtype=torch.float64)
    level = 4 * torch.randn(2, points, generator=generator, dtype=torch.float64)
    mask = torch.rand(2, points, generator=generator) > 0.3
    mask[:, 0] = True
    return x, y_t, level, mask


@every_form
@given(**sizes)
@settings(max_examples=15, deadline=None)
def test_equivariant_to_the_order_of_points(attention, inputs, seed: int, points: int, dims: int) -> None:
    x, y_t, level, mask = random_points(seed, points, dims)
    order = torch.randperm(points, generator=torch.Generator().manual_seed(seed + 1))
    net = network(attention, inputs)
    shuffled = net(x[:, order], y_t[:, order], level[:, order], mask[:, order])
    real = mask[:, order]
    torch.testing.assert_close(shuffled[real], net(x, y_t, level, mask)[:, order][real], rtol=1e-10, atol=1e-10)


@every_form
@given(**sizes)
@settings(max_examples=15, deadline=None)
def test_invariant_to_the_order_of_input_dimensions(attention, inputs, seed: int, points: int, dims: int) -> None:
    x, y_t, level, mask = random_points(seed, points, dims)
    order = torch.randperm(dims, generator=torch.Generator().manual_seed(seed + 1))
    net = network(attention, inputs)
    torch.testing.assert_close(net(x[..., order], y_t, level, mask), net(x, y_t, level, mask), rtol=1e-10, atol=1e-10)


@every_form
@given(**sizes)
@settings(max_examples=15, deadline=None)
def test_masked_points_have_no_influence(attention, inputs, seed: int, points: int, dims: int) -> None:
    """Whatever they hold, NaN too; and leaving them out altogether is the same."""
    x, y_t, level, mask = random_points(seed, points, dims)
    net = network(attention, inputs)
    expected = net(x, y_t, level, mask)[mask]
    x_bad, y_bad = (t.masked_fill(~mask[..., None], float("nan")) for t in (x, y_t))
    torch.testing.assert_close(net(x_bad, y_bad, level, mask)[mask], expected, rtol=0, atol=0)
    alone = [net(x[b : b + 1, m], y_t[b : b + 1, m], level[b : b + 1, m])[0] for b, m in enumerate(mask)]
    torch.testing.assert_close(torch.cat(alone), expected, rtol=1e-10, atol=1e-10)


@every_form
def test_one_set_of_weights_serves_every_size_and_the_sizes_matter(attention, inputs) -> None:
    net = network(attention, inputs)
    for points, dims in [(1, 1), (7, 1), (3, 5), (20, 2)]:
        x, y_t, level, _ = random_points(3, points, dims)
        out = net(x, y_t, level)
        assert out.shape == y_t.shape
        assert torch.isfinite(out).all()
        assert (out.std() > 1e-6) or points == 1


@every_form
def test_every_input_matters(attention, inputs) -> None:
    """Not a symmetry, but what would make all of them trivial: each argument changes the output elsewhere."""
    net = network(attention, inputs)
    x, y_t, level, _ = random_points(4, 5, 2)
    base = net(x, y_t, level)
    moved_x, moved_y, moved_level = x.clone(), y_t.clone(), level.clone()
    moved_x[:, 0, 1] += 0.3
    moved_y[:, 0] += 0.3
    moved_level[:, 0] += 0.3
    for changed in (net(moved_x, y_t, level), net(x, moved_y, level), net(x, y_t, moved_level)):
        assert ((changed - base)[:, 1:].abs() > 1e-7).all()


@pytest.mark.parametrize("attention", list(PointAttention))
@given(shift=st.floats(-100, 100), **sizes)
@settings(max_examples=15, deadline=None)
def test_rotary_inputs_are_translation_equivariant(attention, shift: float, seed: int, points: int, dims: int) -> None:
    x, y_t, level, mask = random_points(seed, points, dims)
    net = network(attention, Inputs.ROTARY)
    offset = shift * torch.arange(1, dims + 1, dtype=torch.float64)
    shifted, expected = net(x + offset, y_t, level, mask)[mask], net(x, y_t, level, mask)[mask]
    torch.testing.assert_close(shifted, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("attention", PointAttention)
def test_one_token_for_all_dimensions_of_a_point_is_one_for_each(attention, monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(attention, Inputs.ROTARY)
    x, y_t, level, mask = random_points(seed=0, points=6, dims=3)
    together = made(x, y_t, level, mask)

    def replicated(x: Tensor, y_t: Tensor) -> Tensor:
        return y_t[:, :, None].expand(-1, -1, x.shape[-1], -1)

    monkeypatch.setattr(made, "_features", replicated)
    torch.testing.assert_close(together, made(x, y_t, level, mask))


@pytest.mark.parametrize("inputs", [Inputs.RAW, Inputs.FOURIER])
def test_absolute_inputs_are_not(inputs: Inputs) -> None:
    x, y_t, level, _ = random_points(5, 4, 1)
    net = network(PointAttention.SUMMED, inputs)
    assert (net(x + 1.0, y_t, level) - net(x, y_t, level)).abs().max() > 1e-3


def test_summed_logits_see_all_dimensions_at_once_and_at_one_dimension_the_forms_agree() -> None:
    x, y_t, level, mask = random_points(6, 6, 1)
    summed, separate = (network(form, Inputs.RAW) for form in PointAttention)
    separate.load_state_dict(summed.state_dict())
    torch.testing.assert_close(summed(x, y_t, level, mask), separate(x, y_t, level, mask))
    x, y_t, level, mask = random_points(6, 6, 2)
    assert (summed(x, y_t, level, mask) - separate(x, y_t, level, mask)).abs().max() > 1e-4


def test_several_outputs_are_told_apart() -> None:
    x, y_t, level, mask = random_points(7, 5, 2, outputs=3)
    net = network(PointAttention.SUMMED, Inputs.ROTARY, num_outputs=3)
    out = net(x, y_t, level, mask)
    assert out.shape == y_t.shape
    assert (out - net(x, y_t[..., [1, 0, 2]], level, mask)).abs().max() > 1e-4


def test_the_default_network_has_the_papers_size_and_starts_at_zero() -> None:
    net = BiDimensionalAttention()
    assert len(net.blocks) == 4
    assert 150_000 < sum(p.numel() for p in net.parameters()) < 500_000
    x, y_t, level, _ = (t.float() if t.is_floating_point() else t for t in random_points(8, 5, 2))
    assert net(x, y_t, level).abs().max() == 0


def test_a_width_that_heads_cannot_share_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of twice the number of heads"):
        BiDimensionalAttention(width=60, heads=8)


@every_form
@given(context=st.integers(1, 5), **sizes)
@settings(max_examples=10, deadline=None)
def test_a_separate_context_encoded_once_gives_the_same_output(
    attention, inputs, context: int, seed: int, points: int, dims: int
) -> None:
    """Three draws with one encoding equal a call each with all points; an empty context too."""
    x, _, level, mask = random_points(seed, context + points, dims)
    mask[:, context:] = True
    mask[0, :context] = seed % 2 == 0
    y_t = torch.randn(3, 2, context + points, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    y_t[:, :, :context] = y_t[:1, :, :context]
    level[:, context:] = level[0, -1]
    net = network(attention, inputs, context=ContextAttention.SEPARATE)
    expected = torch.stack([net(x, y, level, mask, num_context=context)[:, context:] for y in y_t])
    encoding = net.encode_context(x[:, :context], y_t[0, :, :context], level[:, :context], mask[:, :context])
    targets = net.encode_targets(encoding, x[:, context:])
    found = net.denoise(targets, y_t[:, :, context:].flatten(0, 1), level[0, -1])
    torch.testing.assert_close(found.unflatten(0, (3, 2)), expected, rtol=1e-10, atol=1e-10)


def test_a_separate_context_does_not_see_targets_and_targets_see_it() -> None:
    x, y_t, level, _ = random_points(9, 7, 2)
    net = network(PointAttention.SUMMED, Inputs.ROTARY, context=ContextAttention.SEPARATE)
    base = net(x, y_t, level, num_context=3)
    moved = y_t.clone()
    moved[:, 5] += 1.0
    torch.testing.assert_close(net(x, moved, level, num_context=3)[:, :3], base[:, :3], rtol=0, atol=0)
    moved = y_t.clone()
    moved[:, 0] += 1.0
    assert ((net(x, moved, level, num_context=3) - base)[:, 3:].abs() > 1e-7).all()


def test_the_number_of_dimensions_is_told() -> None:
    """At one dimension nothing is added. At more, a code that is not zero matters, and one that is makes no difference."""
    net = network(PointAttention.SUMMED, Inputs.ROTARY)
    plain = BiDimensionalAttention(**{**net.config, "input_count": False}).double()
    plain.load_state_dict({name: value for name, value in net.state_dict().items() if name != "input_count_code"})
    x, y_t, level, mask = random_points(7, 6, 1)
    torch.testing.assert_close(net(x, y_t, level, mask), plain(x, y_t, level, mask), rtol=0, atol=0)
    x, y_t, level, mask = random_points(7, 6, 3)
    assert (net(x, y_t, level, mask) - plain(x, y_t, level, mask))[mask].abs().max() > 0.01
    net.input_count_code.zero_()
    torch.testing.assert_close(net(x, y_t, level, mask), plain(x, y_t, level, mask), rtol=0, atol=0)


@pytest.mark.parametrize("attention", list(PointAttention))
def test_attention_written_out_for_the_cpu_is_the_fused_one(attention, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y_t, level, _ = random_points(10, 12, 2)
    net = network(attention, Inputs.ROTARY)
    with torch.no_grad():
        written_out = net(x, y_t, level)
        monkeypatch.setattr("ndp.networks.attention.LOGITS_IN_CACHE", 0)
        torch.testing.assert_close(net(x, y_t, level), written_out, rtol=1e-10, atol=1e-10)


def test_all_ways_to_attend_over_dimensions_are_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    parts = torch.randn(3, 2, 5, 9, 4, 6, dtype=torch.float64, generator=generator)
    expected = dimensions_written_out(*parts)
    torch.testing.assert_close(dimensions_by_products(*parts), expected)
    torch.testing.assert_close(dimensions_fused(*parts), expected)


@every_form
@pytest.mark.parametrize("masked", [False, True])
def test_independent_targets_are_those_of_one_call_each(attention, inputs, masked: bool) -> None:
    net = network(attention, inputs, context=ContextAttention.SEPARATE)
    x, y, level, mask = random_points(1, 9, 3)
    known, seen = 5, mask[:, :5] if masked else None
    draws = torch.randn(3 * 2, 4, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    noise_level = torch.tensor(-1.0, dtype=torch.float64)
    context = net.encode_context(x[:, :known], y[:, :known], level[:, :known], seen)
    independent = net.denoise(net.encode_targets(context, x[:, known:], joint=False), draws, noise_level)
    one_by_one = [
        net.denoise(net.encode_targets(context, x[:, known + i : known + i + 1]), draws[:, i : i + 1], noise_level)
        for i in range(4)
    ]
    torch.testing.assert_close(independent, torch.cat(one_by_one, dim=1))
    level = torch.cat([level[:, :known], noise_level.expand(2, 4)], dim=1)
    real = torch.cat([mask[:, :known], torch.ones_like(mask[:, known:])], dim=1) if masked else None
    as_in_training = net(
        x, torch.cat([y[:, :known], draws[:2]], dim=1), level, real, num_context=known, independent=True
    )
    torch.testing.assert_close(as_in_training[:, known:], independent[:2])


def test_a_network_whose_context_reads_from_targets_refuses_independent_targets() -> None:
    net = network(PointAttention.SUMMED, Inputs.ROTARY, context=ContextAttention.FULL)
    x, y, level, _ = random_points(1, 9, 3)
    with pytest.raises(ValueError, match='independent targets need context="separate"'):
        net(x, y, level, num_context=5, independent=True)


def test_functions_and_observations_differ_at_the_targets_only_and_only_where_the_network_separates_them() -> None:
    torch.manual_seed(0)
    net = BiDimensionalAttention(width=16, heads=2, blocks=2, level_width=8, separates_noise=True).double()
    torch.nn.init.normal_(net.out.weight)
    net.requires_grad_(False)
    x, y, level, mask = random_points(1, 9, 2)
    marked = torch.tensor([True, False])
    plain, told = net(x, y, level, mask, num_context=5), net(x, y, level, mask, num_context=5, of_function=marked)
    assert torch.equal(plain[1], told[1])
    assert torch.equal(plain[0, :5], told[0, :5])
    assert not torch.equal(plain[0, 5:], told[0, 5:])
    shared = level[:1, :1].expand(2, 4)
    levels = torch.cat([level[:, :5], shared], dim=1)
    encoding = net.encode_context(x[:, :5], y[:, :5], level[:, :5], mask[:, :5])
    targets = net.encode_targets(encoding, x[:, 5:], observation_noise=False)
    everything = torch.cat([mask[:, :5], torch.ones(2, 4, dtype=torch.bool)], dim=1)
    direct = net(x, y, levels, everything, num_context=5, of_function=torch.ones(2, dtype=torch.bool))[:, 5:]
    torch.testing.assert_close(net.denoise(targets, y[:, 5:], shared[0, 0]), direct)
    with pytest.raises(ValueError, match="does not separate functions from their noise"):
        network(PointAttention.SUMMED, Inputs.ROTARY)(x, y, level, mask, of_function=marked)


def test_large_logits_of_targets_alone_do_not_overflow_in_half_precision() -> None:
    query, key, value = (torch.randn(2, 4, 3, 8, generator=torch.Generator().manual_seed(n)) for n in range(3))
    own, memory = Memory(100 * key, value), Memory(100 * key[..., :2, :], value[..., :2, :])
    exact = _read_independently(100 * query, own, memory, None)
    halves = [Memory(one.key.half(), one.value.half()) for one in (own, memory)]
    found = _read_independently((100 * query).half(), *halves, None)
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.float(), exact, atol=2e-3, rtol=2e-3)
