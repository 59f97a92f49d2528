"""The joint objective: what is known does not count, and with known inputs it is the objective of regression."""

import torch
from torch import Tensor

from ndp.diffusion.levels import CLEAN
from ndp.diffusion.objective import denoising_loss, noise_one_or_both
from ndp.networks.joint import JointAttention


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network() -> JointAttention:
    torch.manual_seed(0)
    made = JointAttention(width=16, heads=2, blocks=1, level_width=8, anchor_points=4).double()
    for out in (made.out, made.out_of_inputs):
        torch.nn.init.normal_(out.weight)
    return made.requires_grad_(False)


class Regression:
    """A joint network as one of values at known inputs."""

    translation_equivariant = False

    def __init__(self, network: JointAttention) -> None:
        self._network = network

    def __call__(
        self, x: Tensor, y_t: Tensor, level: Tensor, mask: Tensor | None = None, *, num_context: int = 0
    ) -> Tensor:
        clean = torch.full_like(level, CLEAN)
        return self._network(x, y_t, clean, level, mask, num_context=num_context)[1]


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    x, y, eps = (torch.randn(6, 7, size, generator=seeded(size), dtype=torch.float64) for size in (2, 1, 3))
    level = 3 * torch.randn(6, 1, generator=seeded(9), dtype=torch.float64).expand(-1, 7)
    mask = torch.rand(6, 7, generator=seeded(3)) > 0.2
    return x, y, level, eps, mask


def test_with_known_inputs_it_is_the_objective_of_regression() -> None:
    x, y, level, eps, mask = batch()
    level = torch.cat([torch.full_like(level[:, :3], CLEAN), level[:, 3:]], dim=1)
    levels = torch.stack([torch.full_like(level, CLEAN), level], dim=-1)
    # At CLEAN a little noise is left in inputs: none here, for regression has none.
    eps[..., :2] = 0
    shrunk = x * torch.sigmoid(torch.tensor(CLEAN, dtype=x.dtype)).sqrt()
    found = denoising_loss(network(), x, y, levels, eps, num_context=3, mask=mask)
    expected = denoising_loss(Regression(network()), shrunk, y, level, eps[..., 2:], num_context=3, mask=mask)
    torch.testing.assert_close(found, expected)


def test_what_is_known_does_not_count() -> None:
    x, y, level, eps, _ = batch()
    clean = torch.full_like(level, CLEAN)

    zero = network()
    for out in (zero.out, zero.out_of_inputs):
        torch.nn.init.zeros_(out.weight)
        torch.nn.init.zeros_(out.bias)
    losses = [
        denoising_loss(zero, x, y, torch.stack(pair, dim=-1), eps)
        for pair in ((level, clean), (clean, level), (level, level))
    ]
    torch.testing.assert_close(losses[0] + losses[1], losses[2])
    assert denoising_loss(zero, x, y, torch.stack((clean, clean), dim=-1), eps).abs().max() == 0


def test_shares_of_tasks_noise_inputs_outputs_or_both_and_a_context_stays_as_it_is() -> None:
    level = torch.full((20_000, 5), 1.5)
    level[:, :2] = 7.0
    levels = noise_one_or_both(level, 2, generator=seeded(), joint_share=0.2)
    assert (levels[:, :2, 0] == CLEAN).all()
    assert (levels[:, :2, 1] == 7.0).all()
    noised = levels[:, 2:] == 1.5
    assert (noised == noised[:, :1]).all(), "one choice a task"
    x_noised, y_noised = noised[:, 0].unbind(-1)
    for found, share in (
        ((x_noised & y_noised), 0.2),
        ((x_noised & ~y_noised), 0.4),
        ((~x_noised & y_noised), 0.4),
    ):
        assert abs(found.double().mean().item() - share) < 0.02
    assert (noise_one_or_both(level, 2, generator=seeded(), joint_share=1.0)[:, 2:] == 1.5).all()
