"""Experts are closed-form regression, a closed gate leaves the network as it was, and an open one keeps its symmetries."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from ndp.diffusion.levels import CLEAN, alpha, sigma
from ndp.networks.bidimensional import BiDimensionalAttention, ContextAttention
from ndp.networks.experts import JITTER, LENGTHSCALES, NOISES, RATE, SHAPE, ExpertPosterior, ExpertPredictions


def points(tasks: int = 2, known: int = 7, asked: int = 4, dim: int = 2) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(tasks, known + asked, dim, dtype=torch.float64, generator=generator)
    y = torch.randn(tasks, known, dtype=torch.float64, generator=generator)
    return x[:, :known], y, torch.full_like(y, CLEAN), x[:, known:]


def observations(
    x: Tensor, y: Tensor, level: Tensor, x_target: Tensor, mask: Tensor | None = None
) -> ExpertPredictions:
    mask = torch.ones_like(y, dtype=torch.bool) if mask is None else mask
    return ExpertPosterior.given(x, y, level, mask).predict(x_target, torch.zeros(len(x), dtype=torch.bool))


def by_hand(x: np.ndarray, y: np.ndarray, x_target: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and variances of observations under every process: regression written out, by inverses."""
    found = []
    for lengthscale in np.array(LENGTHSCALES) * math.sqrt(x.shape[1]):
        for smooth in (True, False):
            for noise in NOISES:

                def kernel(
                    a: np.ndarray, b: np.ndarray, scale: float = lengthscale, smooth: bool = smooth
                ) -> np.ndarray:
                    r = np.linalg.norm(a[:, None] - b[None], axis=-1) / scale
                    return np.exp(-(r**2) / 2) if smooth else (1 + math.sqrt(3) * r) * np.exp(-math.sqrt(3) * r)

                own = kernel(x, x) + (noise**2 + JITTER + 5e-5**2) * np.eye(len(x))
                across = kernel(x_target, x) @ np.linalg.inv(own)
                size = y @ np.linalg.solve(own, y)
                # 1 / variance ~ Gamma(SHAPE, RATE), integrated out of the evidence and at its mean in the prediction.
                evidence = -0.5 * np.linalg.slogdet(own)[1] - (SHAPE + len(y) / 2) * math.log(RATE + size / 2)
                left = 1 - (across * kernel(x_target, x)).sum(-1)
                scale = (RATE + size / 2) / (SHAPE + len(y) / 2)
                found.append((evidence, across @ y, scale * (left + noise**2)))
    evidence, mean, variance = (np.array(each) for each in zip(*found, strict=True))
    weight = np.exp(evidence - evidence.max())
    return weight / weight.sum(), mean, variance


def test_predictions_are_those_of_every_process_weighed_by_its_evidence() -> None:
    x, y, level, x_target = points()
    found = observations(x, y, level, x_target)
    for task in range(2):
        weight, mean, variance = by_hand(x[task].numpy(), y[task].numpy(), x_target[task].numpy())
        np.testing.assert_allclose(found.log_weight[task].exp(), weight, rtol=1e-4)
        np.testing.assert_allclose(found.mean[task], mean, atol=1e-5)
        np.testing.assert_allclose(found.variance[task], variance, rtol=1e-4)


def test_v_stands_for_the_expectation_under_the_mixture() -> None:
    x, y, level, x_target = points()
    experts = observations(x, y, level, x_target)
    y_t = torch.randn(3 * 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    at = torch.tensor([[0.7]], dtype=torch.float64)
    grid = torch.linspace(-15, 15, 30001, dtype=torch.float64)
    laws = torch.distributions.Normal(experts.mean[..., None], experts.variance.sqrt()[..., None])
    density = (experts.log_weight[:, :, None, None] + laws.log_prob(grid)).logsumexp(1)
    seen = torch.distributions.Normal(alpha(at) * grid, sigma(at)).log_prob(y_t.reshape(3, 2, 4, 1))
    expected = (torch.softmax(density + seen, dim=-1) * grid).sum(-1).reshape(6, 4)
    torch.testing.assert_close(alpha(at) * y_t - sigma(at) * experts.v(y_t, at), expected, atol=1e-5, rtol=0)
    each = torch.linspace(-3, 3, 24, dtype=torch.float64).reshape(6, 4)  # a level of its own at every value
    rows = [experts.v(y_t, each[i, j].reshape(1, 1))[i, j] for i in range(6) for j in range(4)]
    torch.testing.assert_close(experts.v(y_t, each).flatten(), torch.stack(rows))


def test_nothing_known_is_the_prior_and_places_without_points_do_not_count() -> None:
    x, y, level, x_target = points()
    for nothing in (
        observations(x[:, :0], y[:, :0], level[:, :0], x_target),
        observations(x, y, level, x_target, torch.zeros_like(y, dtype=torch.bool)),
    ):
        assert (nothing.mean == 0).all()
        assert (nothing.log_weight - nothing.log_weight[:, :1]).abs().max() < 1e-4
        assert ((nothing.variance > 0.99) & (nothing.variance < 1.4)).all()
    mask = torch.arange(7).expand(2, 7) < 5
    masked = observations(x, y.masked_fill(~mask, 1e6), level, x_target, mask)
    for found, expected in zip(
        vars(masked).values(), vars(observations(x[:, :5], y[:, :5], level[:, :5], x_target)).values(), strict=True
    ):
        torch.testing.assert_close(found, expected)


def test_the_order_of_points_and_inputs_does_not_matter_and_known_noise_counts() -> None:
    x, y, level, x_target = points()
    here, order = observations(x, y, level, x_target), torch.randperm(7)
    there = observations(x[:, order].flip(-1), y[:, order], level, x_target.flip(-1))
    for found, expected in zip(vars(there).values(), vars(here).values(), strict=True):
        torch.testing.assert_close(found, expected)
    noisy = torch.full_like(level, 0.0)  # as much noise as function
    unsure = observations(x, alpha(noisy) * y, noisy, x_target)
    assert (unsure.mean.abs().mean(), unsure.variance.mean()) < (here.mean.abs().mean(), here.variance.mean())
    given = ExpertPosterior.given(x, y, level, torch.ones_like(y, dtype=torch.bool))
    function = given.predict(x_target, torch.tensor([True, False]))
    assert (function.variance[0] < here.variance[0]).all()
    torch.testing.assert_close(function.variance[1], here.variance[1])


def test_pieces_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    here = observations(*points())
    monkeypatch.setattr("ndp.networks.experts.MOST_NUMBERS", 1)
    for found, expected in zip(vars(observations(*points())).values(), vars(here).values(), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("room", [True, False])
def test_factors_are_kept_where_there_is_room_and_change_nothing(room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, level, x_target = points()
    of_function = torch.tensor([True, False])
    given = ExpertPosterior.given(x, y, level, torch.ones_like(y, dtype=torch.bool))
    if not room:
        monkeypatch.setattr("ndp.networks.experts.MOST_KEPT", 1)
    kept = given.kept()
    assert (kept.factors is not None) is room
    found, expected = (vars(one.predict(x_target, of_function)).values() for one in (kept, given))
    for value, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(value, wanted)


def with_experts(*, gate: float) -> BiDimensionalAttention:
    """A network whose gate has random weights of this size."""
    torch.manual_seed(0)
    net = BiDimensionalAttention(
        width=16, heads=2, blocks=2, level_width=8, separates_noise=True, experts=True
    ).double()
    torch.nn.init.normal_(net.out.weight, std=0.3)
    assert net.gate is not None
    torch.nn.init.normal_(net.gate.last.weight, std=gate)
    return net.requires_grad_(False)


def test_a_closed_gate_is_no_experts_and_an_open_one_changes_independent_targets_only() -> None:
    x, y, level, x_target = points()
    closed, opened = with_experts(gate=0.0), with_experts(gate=1.0)
    plain = BiDimensionalAttention(**{**closed.config, "experts": False}).double()
    weights = {name: value for name, value in closed.state_dict().items() if not name.startswith("gate.")}
    plain.load_state_dict(weights)
    y_t = torch.randn(2, 4, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    all_x, all_y = torch.cat([x, x_target], dim=1), torch.cat([y[..., None], y_t], dim=1)
    levels = torch.cat([level, torch.tensor([[0.5, -1.0, 2.0, 0.0]]).expand(2, 4).double()], dim=1)
    for independent in (False, True):
        found = [one(all_x, all_y, levels, num_context=7, independent=independent) for one in (closed, plain, opened)]
        torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
        assert torch.equal(found[2], found[1]) is not independent
        assert torch.equal(found[2][:, :7], found[1][:, :7])


@pytest.mark.parametrize("of_function", [False, True])
def test_a_context_encoded_once_gives_the_outputs_of_training_and_of_single_targets(of_function: bool) -> None:
    net, (x, y, level, x_target) = with_experts(gate=1.0), points()
    mask = torch.arange(7).expand(2, 7) < torch.tensor([[7], [3]])
    y_t = torch.randn(3 * 2, 4, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    at = torch.tensor(-0.5, dtype=torch.float64)
    context = x, y[..., None], level, mask
    encoding = net.encode_context(*context)
    found = net.denoise(net.encode_targets(encoding, x_target, joint=False, observation_noise=not of_function), y_t, at)
    for i in range(4):
        one = net.encode_targets(encoding, x_target[:, i : i + 1], joint=False, observation_noise=not of_function)
        torch.testing.assert_close(net.denoise(one, y_t[:, i : i + 1], at), found[:, i : i + 1])
    direct = net(
        torch.cat([x, x_target], dim=1),
        torch.cat([y[..., None], y_t[2:4]], dim=1),
        torch.cat([level, at.expand(2, 4)], dim=1),
        torch.cat([mask, torch.ones(2, 4, dtype=torch.bool)], dim=1),
        num_context=7,
        of_function=torch.full((2,), of_function),
        independent=True,
    )
    torch.testing.assert_close(direct[:, 7:], found[2:4])


def test_networks_that_cannot_have_experts_are_refused() -> None:
    with pytest.raises(ValueError, match="one output"):
        BiDimensionalAttention(num_outputs=3, experts=True)
    with pytest.raises(ValueError, match="separate"):
        BiDimensionalAttention(context=ContextAttention.FULL, experts=True)


def test_all_tensors_are_made_where_the_data_are() -> None:
    """A device without memory refuses what comes from elsewhere, and so would a GPU, or wait for it."""
    x, y, level, x_target = (t.to("meta") for t in points())
    mask = torch.ones_like(y, dtype=torch.bool)
    of_function = torch.zeros(len(x), dtype=torch.bool, device="meta")
    experts = ExpertPosterior.given(x, y, level, mask).predict(x_target, of_function)
    v = experts.v(torch.empty(6, 4, dtype=torch.float64, device="meta"), torch.empty(1, 1, device="meta"))
    assert v.shape == (6, 4)
    assert v.device.type == "meta"
