"""Experts that adapt are right on smooth functions, honest about few observations, and the same however they are asked."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from ndp.diffusion.levels import CLEAN, alpha
from ndp.gp.evidence import MOST_NUMBERS
from ndp.networks.adaptive_experts import FEW_ROWS, AdaptiveExperts
from ndp.networks.bidimensional import BiDimensionalAttention
from ndp.networks.experts import ExpertPosterior, ExpertPredictions

OBSERVATIONS = torch.zeros(1, dtype=torch.bool)


def tables(tasks: int = 2, known: int = 24, asked: int = 6, dim: int = 3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Noise-free functions of the first input alone, and of the first two."""
    generator = torch.Generator().manual_seed(0)
    x = 3.4 * torch.rand(tasks, known + asked, dim, dtype=torch.float64, generator=generator) - 1.7
    values = torch.sin(2 * x[..., 0]) + torch.arange(tasks)[:, None] * torch.cos(x[..., 1])
    y = values[:, :known]
    return x[:, :known], y - y.mean(1, keepdim=True), x[:, known:], values[:, known:] - y.mean(1, keepdim=True)


def given(x: Tensor, y: Tensor, mask: Tensor | None = None) -> AdaptiveExperts:
    mask = torch.ones_like(y, dtype=torch.bool) if mask is None else mask
    return AdaptiveExperts.given(x, y, torch.full_like(y, CLEAN), mask)


def moments(found: ExpertPredictions) -> tuple[Tensor, Tensor]:
    weight = found.log_weight.exp()[..., None]
    mean = (weight * found.mean).sum(1)
    return mean, (weight * (found.variance + (found.mean - mean[:, None]).square())).sum(1).sqrt()


def test_smooth_functions_are_predicted_far_better_than_by_the_grid_and_without_false_certainty() -> None:
    x, y, x_target, truth = tables(known=40)
    level, mask = torch.full_like(y, CLEAN), torch.ones_like(y, dtype=torch.bool)
    mean, std = moments(given(x, y).predict(x_target, OBSERVATIONS))
    on_grid, _ = moments(ExpertPosterior.given(x, y, level, mask).predict(x_target, OBSERVATIONS))
    assert (mean - truth).square().mean().sqrt() < 0.05 * (on_grid - truth).square().mean().sqrt()
    assert ((mean - truth) / std).abs().max() < 4


def test_weights_and_predictions_are_those_of_each_process_written_out() -> None:
    """At the hyperparameters that were found: regression by inverses, and amplitudes about their posterior mean."""
    x, y, x_target, _ = tables(tasks=1, known=9)
    experts = given(x, y)
    found = experts.predict(x_target, OBSERVATIONS)
    amplitudes = []
    for k in range(FEW_ROWS.kept):
        theta, smooth = experts.theta[0, k].numpy(), experts.family[0, k] == 0

        scale = np.exp(theta[:-1])

        def kernel(a: Tensor, b: Tensor, scale: np.ndarray = scale, smooth: bool = bool(smooth)) -> np.ndarray:
            r = np.linalg.norm((a.numpy()[:, None] - b.numpy()[None]) / scale, axis=-1)
            return 1 + (np.exp(-(r**2) / 2) if smooth else (1 + math.sqrt(3) * r) * np.exp(-math.sqrt(3) * r))

        noise = np.exp(2 * theta[-1])
        own = kernel(x[0], x[0]) + (noise + 1e-10) * np.eye(9)
        across = kernel(x_target[0], x[0]) @ np.linalg.inv(own)
        np.testing.assert_allclose(found.mean[0, k], across @ y[0].numpy(), atol=1e-4)
        left = 2 - (across * kernel(x_target[0], x[0])).sum(-1) + noise
        ratios = found.variance[0, k].numpy() / left
        np.testing.assert_allclose(ratios, ratios[0], rtol=2e-3)
        amplitudes.append(ratios[0] / ((0.5 + y[0].numpy() @ np.linalg.solve(own, y[0].numpy()) / 2) / (0.5 + 9 / 2)))
    assert 0.75 < np.median(amplitudes) < 1.3
    assert min(amplitudes) < 0.8
    assert max(amplitudes) > 1.4


def test_few_observations_leave_much_unknown() -> None:
    """Three points on a line are also on many curves: between them and beyond, the spread is not that of one process."""
    x = torch.tensor([[[-1.0], [0.0], [1.0]]], dtype=torch.float64)
    y = torch.tensor([[-1.0, 0.0, 1.0]], dtype=torch.float64)
    experts = given(x, y)
    assert (2 * experts.log_weight).logsumexp(1).exp() < 0.2  # five experts at least
    mean, std = moments(experts.predict(torch.tensor([[[0.5], [3.0]]], dtype=torch.float64), OBSERVATIONS))
    assert 0.1 < std[0, 0] < 1.0
    assert std[0, 1] > 1.0
    assert abs(mean[0, 0] - 0.5) < 0.2


def test_order_masks_mirror_images_and_the_batch_change_nothing() -> None:
    x, y, x_target, _ = tables()
    here = moments(given(x, y).predict(x_target, OBSERVATIONS))
    order = torch.randperm(24, generator=torch.Generator().manual_seed(0))
    mirrored = torch.tensor([1.0, -1.0, 1.0])
    there = given(x[:, order].flip(-1) * mirrored, -y[:, order]).predict(x_target.flip(-1) * mirrored, OBSERVATIONS)
    mean, std = moments(there)
    torch.testing.assert_close(-mean, here[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(std, here[1], atol=1e-5, rtol=1e-2)
    alone = moments(given(x[1:], y[1:]).predict(x_target[1:], OBSERVATIONS))
    torch.testing.assert_close(alone[0], here[0][1:], atol=1e-6, rtol=1e-5)
    nothing = torch.full((2, 5), 1e6, dtype=torch.float64)
    mask = torch.cat([torch.ones_like(y, dtype=torch.bool), torch.zeros(2, 5, dtype=torch.bool)], dim=1)
    padded = given(torch.cat([x, nothing[..., None].expand(-1, -1, 3)], 1), torch.cat([y, nothing], 1), mask)
    masked = moments(padded.predict(x_target, OBSERVATIONS))
    torch.testing.assert_close(masked[0], here[0], atol=1e-6, rtol=1e-5)


def test_pieces_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, x_target, _ = tables()
    here = given(x, y).predict(x_target, OBSERVATIONS)
    monkeypatch.setitem(MOST_NUMBERS, "cpu", 1)
    torch.testing.assert_close(given(x, y).predict(x_target, OBSERVATIONS).mean, here.mean, atol=1e-6, rtol=1e-5)


def test_the_function_has_no_noise_and_known_noise_counts() -> None:
    x, exact, x_target, _ = tables()
    y = exact + 0.2 * torch.randn(exact.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    experts = given(x, y)
    function = experts.predict(x_target, torch.tensor([True, False]))
    observed = experts.predict(x_target, OBSERVATIONS)
    assert (function.variance[0] < observed.variance[0]).all()
    torch.testing.assert_close(function.variance[1], observed.variance[1])
    level = torch.zeros_like(y)  # as much noise as function
    unsure = AdaptiveExperts.given(x, alpha(level) * exact, level, torch.ones_like(y, dtype=torch.bool))
    assert moments(unsure.predict(x_target, OBSERVATIONS))[1].mean() > 0.2
    assert moments(given(x, exact).predict(x_target, OBSERVATIONS))[1].mean() < 0.04


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", ["duplicates", "near", "constant", "same", "line", "nothing", "one", "conflict"])
def test_ill_conditioned_tables_are_answered_finitely(case: str) -> None:
    x, y, x_target, _ = tables(tasks=1, known=20)
    match case:
        case "duplicates":
            x, y = torch.cat([x, x, x], 1), torch.cat([y, y, y], 1)
        case "near":
            x, y = torch.cat([x, x + 1e-9], 1), torch.cat([y, y], 1)
        case "constant":
            x = torch.cat([x, torch.zeros(1, 20, 2)], -1)
            x_target = torch.cat([x_target, torch.ones(1, 6, 2)], -1)
        case "same":
            y = torch.zeros_like(y)
        case "line":
            y = x[..., 0]
        case "nothing":
            x, y = x[:, :0], y[:, :0]
        case "one":
            x, y = x[:, :1], y[:, :1]
        case "conflict":
            x, y = torch.cat([x, x], 1), torch.cat([y, -y], 1)
    found = given(x, y).predict(x_target, OBSERVATIONS)
    for part in vars(found).values():
        assert part.isfinite().all()
    assert (found.variance > 0).all()
    torch.testing.assert_close(found.log_weight.logsumexp(1), torch.zeros(1, dtype=torch.float64))


def test_gradients_reach_targets_and_context() -> None:
    x, y, x_target, _ = tables(tasks=1, known=10)
    traced = [t.clone().requires_grad_() for t in (x, y, x_target)]
    found = given(traced[0], traced[1]).predict(traced[2], OBSERVATIONS)
    plain = given(x, y)
    torch.testing.assert_close(found.mean.detach(), plain.predict(x_target, OBSERVATIONS).mean, atol=1e-6, rtol=1e-5)
    gradients = torch.autograd.grad(moments(found)[0].sum(), traced)
    assert all(gradient.isfinite().all() and (gradient != 0).any() for gradient in gradients)
    step = torch.zeros_like(x_target)
    step[0, 0, 0] = 1e-5
    ends = [moments(plain.predict(x_target + sign * step, OBSERVATIONS))[0].sum() for sign in (1, -1)]
    torch.testing.assert_close(gradients[2][0, 0, 0], (ends[0] - ends[1]) / 2e-5, rtol=1e-4, atol=1e-6)


def test_a_network_with_adaptive_experts_is_made_again_from_its_settings_and_encodes_its_context_once() -> None:
    torch.manual_seed(0)
    size = {"width": 16, "heads": 2, "blocks": 2, "level_width": 8}
    net = BiDimensionalAttention(**size, separates_noise=True, experts="adaptive").double().requires_grad_(False)
    assert net.gate is not None
    torch.nn.init.normal_(net.gate.last.weight)
    twin = BiDimensionalAttention(**net.config).double()
    twin.load_state_dict(net.state_dict())
    grid = BiDimensionalAttention(**{**net.config, "experts": True}).double()
    grid.load_state_dict(net.state_dict())  # a gate can be trained further with other experts
    x, y, x_target, _ = tables()
    level = torch.full_like(y, CLEAN)
    y_t = torch.randn(2, 6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    at = torch.tensor(-0.5, dtype=torch.float64)
    encoding = net.encode_context(x, y[..., None], level, None)
    found = net.denoise(net.encode_targets(encoding, x_target, joint=False), y_t, at)
    assert encoding.experts is encoding.experts
    everything = (
        torch.cat([x, x_target], dim=1),
        torch.cat([y[..., None], y_t], dim=1),
        torch.cat([level, at.expand(2, 6)], dim=1),
    )
    options = {"num_context": 24, "of_function": torch.ones(2, dtype=torch.bool), "independent": True}
    function = net.denoise(net.encode_targets(encoding, x_target, joint=False, observation_noise=False), y_t, at)
    torch.testing.assert_close(twin(*everything, **options)[:, 24:], function, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(grid(*everything, **options)[:, 24:], function, atol=1e-3)
    assert found.isfinite().all()


def test_other_settings_of_experts_are_refused() -> None:
    with pytest.raises(ValueError, match=r'experts must be true, false or "adaptive", not \'many\''):
        BiDimensionalAttention(experts="many")


def test_all_tensors_are_made_where_the_data_are() -> None:
    """A device without memory refuses what comes from elsewhere, and shapes that depend on values."""
    x, y, x_target, _ = (t.to("meta") for t in tables())
    found = given(x, y).predict(x_target, torch.zeros(2, dtype=torch.bool, device="meta"))
    assert found.mean.shape == (2, FEW_ROWS.kept, 6)
    assert found.mean.device.type == "meta"
