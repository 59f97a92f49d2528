"""The image network: a set of points with ordered coordinates, of any size; and the paper's own network for images."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from ndp.core.typing import Network
from ndp.networks.bidimensional import BiDimensionalAttention
from ndp.networks.image import ImageAttention
from ndp.networks.registry import describe_network, make_network

KINDS = {
    "image": {"width": 16, "heads": 2, "blocks": 2, "level_width": 8},
    "bidimensional": {
        "width": 16,
        "heads": 2,
        "blocks": 2,
        "level_width": 8,
        "ordered_dims": 2,
        "inputs": "raw",
        "context": "full",
        "local_density": False,
    },
}
both = pytest.mark.parametrize("kind", list(KINDS))


def network(kind: str, num_outputs: int = 1) -> BiDimensionalAttention | ImageAttention:
    """A small network whose layers are not the zeros that training starts from."""
    torch.manual_seed(0)
    made = make_network(kind=kind, num_outputs=num_outputs, **KINDS[kind]).double()
    for module in made.modules():
        if isinstance(module, nn.Linear) and not module.weight.any():
            nn.init.normal_(module.weight, std=0.3)
    return made.requires_grad_(False)


def random_points(seed: int, points: int, outputs: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = 4 * torch.rand(2, points, 2, generator=generator, dtype=torch.float64) - 2
    y_t = torch.randn(2, points, outputs, generator=generator, dtype=torch.float64)
    level = 4 * torch.randn(2, points, generator=generator, dtype=torch.float64)
    mask = torch.rand(2, points, generator=generator) > 0.3
    mask[:, 0] = True
    return x, y_t, level, mask


@both
@given(seed=st.integers(0, 10_000), points=st.integers(1, 9), outputs=st.sampled_from([1, 3]))
@settings(max_examples=10, deadline=None)
def test_equivariant_to_the_order_of_points_and_blind_to_masked_ones(
    kind: str, seed: int, points: int, outputs: int
) -> None:
    x, y_t, level, mask = random_points(seed, points, outputs)
    net = network(kind, outputs)
    assert isinstance(net, Network)
    assert not net.translation_equivariant
    expected = net(x, y_t, level, mask)
    order = torch.randperm(points, generator=torch.Generator().manual_seed(seed + 1))
    shuffled = net(x[:, order], y_t[:, order], level[:, order], mask[:, order])
    torch.testing.assert_close(shuffled[mask[:, order]], expected[:, order][mask[:, order]], rtol=1e-9, atol=1e-9)
    x_bad, y_bad = (t.masked_fill(~mask[..., None], float("nan")) for t in (x, y_t))
    torch.testing.assert_close(net(x_bad, y_bad, level, mask)[mask], expected[mask], rtol=0, atol=0)
    alone = [net(x[b : b + 1, m], y_t[b : b + 1, m], level[b : b + 1, m])[0] for b, m in enumerate(mask)]
    torch.testing.assert_close(torch.cat(alone), expected[mask], rtol=1e-9, atol=1e-9)


@both
def test_every_input_matters_and_so_does_the_order_of_coordinates(kind: str) -> None:
    net = network(kind)
    x, y_t, level, _ = random_points(4, 6)
    base = net(x, y_t, level)
    moved_x, moved_y, moved_level = x.clone(), y_t.clone(), level.clone()
    moved_x[:, 0, 1] += 0.3
    moved_y[:, 0] += 0.3
    moved_level[:, 0] += 0.3
    for changed in (net(moved_x, y_t, level), net(x, moved_y, level), net(x, y_t, moved_level)):
        assert ((changed - base)[:, 1:].abs() > 1e-8).all()
    assert ((net(x.flip(-1), y_t, level) - base).abs() > 1e-6).all(), "a picture is not its transpose"
    assert (net(x + 0.5, y_t, level) - base).abs().max() > 1e-3, "a face has its eyes somewhere"


@both
def test_colours_are_told_apart(kind: str) -> None:
    x, y_t, level, _ = random_points(7, 5, outputs=3)
    net = network(kind, 3)
    assert (net(x, y_t, level) - net(x, y_t[..., [1, 0, 2]], level)).abs().max() > 1e-4


@both
def test_a_network_is_made_again_from_its_description(kind: str) -> None:
    net = network(kind, 3)
    again = make_network(**describe_network(net)).double()
    again.load_state_dict(net.state_dict())
    x, y_t, level, _ = random_points(1, 4, 3)
    torch.testing.assert_close(again(x, y_t, level), net(x, y_t, level), rtol=0, atol=0)


def test_a_new_network_predicts_nothing_and_the_default_one_fits_into_8_megabytes_of_half_precision() -> None:
    net = ImageAttention()
    x, y_t, level, _ = (t.float() if t.is_floating_point() else t for t in random_points(8, 5))
    assert net(x, y_t, level).abs().max() == 0
    assert 2 * sum(p.numel() for p in net.parameters()) < 8e6


def test_rotary_positions_span_both_axes_in_every_head() -> None:
    net = ImageAttention(width=48, heads=3, blocks=1)
    assert net.directions.shape == (3, 8, 2)
    assert ((net.directions != 0).sum(-1) == 1).all(), "a pair of features turns along one axis"
    assert ((net.directions != 0).sum(1) == 4).all(), "and both axes have as many"
    assert net.directions[..., 0].unique().numel() == 13, "twelve frequencies that no two heads share, and zero"


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="width must be a multiple of 24"):
        ImageAttention(width=60, heads=6)
    with pytest.raises(ValueError, match="inputs whose order matters enter absolutely"):
        BiDimensionalAttention(ordered_dims=2)
    with pytest.raises(ValueError, match="no network named 'unet'; there are: bidimensional, image"):
        make_network(kind="unet")
    with pytest.raises(ValueError, match=r"'image' does not take these settings: .*attention"):
        make_network(kind="image", attention="summed")
    with pytest.raises(ValueError, match="for 2 ordered input dimensions, not 3"):
        ImageAttention()(torch.zeros(1, 2, 3), torch.zeros(1, 2, 1), torch.zeros(1, 2))
    with pytest.raises(ValueError, match="has no weights to save"):
        describe_network(object())
