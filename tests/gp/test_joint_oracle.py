"""With the perfect denoiser of a point, solvers, conditioning and RePaint draw inputs and values from their exact laws."""

from typing import Any

import pytest
import torch
from torch import Tensor

import ndp
from ndp.diffusion.levels import CLEAN
from ndp.diffusion.objective import denoising_loss, draw_levels, hold_context, noise_one_or_both
from ndp.gp.inverse import distribution_of_input, shares
from ndp.gp.joint_oracle import JointOracle
from ndp.gp.named import minima_gp
from ndp.gp.oracle import GPOracle
from ndp.models.metrics import total_variation
from ndp.priors.tasks import Synthetic

GP = minima_gp()
ORACLE = JointOracle(GP, nodes=400)
MODEL = ndp.NDP(ORACLE, noise_floor=GP.noise)
BINS, DRAWS = 20, 600


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tasks(count: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Five observations of each function, and a value that it has elsewhere."""
    x = 2 * torch.rand(count, 6, 1, generator=seeded(), dtype=torch.float64) - 1
    y = torch.as_tensor(GP.sample(x, observation_noise=True, generator=seeded(1)))
    return x[:, :5], y[:, :5], y[:, 5, 0]


def expected_by_chance(law: Tensor) -> float:
    """The mean total variation between a law and a histogram of exact draws of it."""
    counts = [torch.multinomial(law, DRAWS, replacement=True, generator=seeded(seed)) for seed in range(20)]
    histograms = [torch.stack([row.bincount(minlength=BINS) for row in one]) for one in counts]
    return torch.stack([total_variation(one, law) for one in histograms]).mean().item()


def test_draws_of_inputs_follow_their_exact_law() -> None:
    x, y, asked = tasks()
    law = distribution_of_input(GP.condition(x, y), asked, BINS)
    uniform = total_variation(torch.full_like(law, 1 / BINS), law).mean().item()
    drawn = MODEL.condition(x, y).sample_inputs(asked[:, None], DRAWS, steps=20, generator=seeded(2))
    found = total_variation(shares(drawn[..., 0, 0], BINS), law).mean().item()
    by_chance = expected_by_chance(law)
    assert found < 1.3 * by_chance, (found, by_chance)
    assert uniform > 3 * by_chance, "the test would see a sampler that knows nothing"


class Continued:
    """The oracle of one function, some of whose values it knows from the start: no context need be passed to it."""

    encodes_context = True
    separates_noise = False

    def __init__(self, x: Tensor, y: Tensor) -> None:
        clean = torch.full((1, len(x)), CLEAN, dtype=x.dtype)
        self._known = ORACLE.encode_context(x[None], y[None], clean, None)

    def __call__(self, x_t: Tensor, y_t: Tensor, level_x: Tensor, level_y: Tensor, mask: Any = None, **_: Any) -> Any:
        rows = (t.transpose(0, 1) for t in (x_t, y_t))
        outputs = ORACLE.denoise_points(self._known, *rows, level_x[0, 0], level_y[0, 0], independent=True)
        return tuple(out.transpose(0, 1) for out in outputs)

    def encode_context(self, *_: Any) -> None: ...

    def encode_targets(self, *_: Any, **__: Any) -> None: ...

    def denoise(self, *_: Any) -> None: ...

    def denoise_points(self, *_: Any, **__: Any) -> None: ...


def test_repaint_of_a_value_draws_inputs_from_nearly_their_exact_law() -> None:
    """More repeats come nearer to it: RePaint is biased by itself."""
    x, y, asked = tasks()
    law = distribution_of_input(GP.condition(x[:1], y[:1]), asked[:1], BINS)
    model = ndp.NDP(Continued(x[0], y[0]))
    nothing = torch.zeros(0, 1, dtype=torch.float64)
    found = []
    for repeats in (1, 8):
        drawn = model.repaint(nothing, nothing[:, 0]).sample_inputs(
            asked[0].item(), DRAWS // 2, steps=40, repeats=repeats, generator=seeded(3)
        )
        found.append(total_variation(shares(drawn, BINS), law).item())
    uniform = total_variation(torch.full_like(law, 1 / BINS), law).item()
    assert found[1] < 0.7 * found[0], (found, uniform, expected_by_chance(law))
    assert found[1] < 0.5 * uniform, (found, uniform, expected_by_chance(law))


def test_points_drawn_as_they_come_are_uniform_in_x_and_have_the_values_of_the_process() -> None:
    x, y, _ = tasks()
    at, values = MODEL.condition(x[0], y[0, :, 0]).sample_joint(1, DRAWS, generator=seeded(4))
    assert at.shape == (DRAWS, 1, 1)
    assert values.shape == (DRAWS, 1)
    assert total_variation(shares(at[:, 0], 10), torch.full((1, 10), 0.1)).item() < 0.08
    mean, variance = GP.condition(x[:1], y[:1]).marginals(at[:, 0][None], observation_noise=True)
    z = (values[:, 0] - mean[0, :, 0]) / variance[0, :, 0].sqrt()
    assert abs(z.mean().item()) < 5 / DRAWS**0.5
    assert abs(z.std().item() - 1) < 5 / (2 * DRAWS) ** 0.5


def test_values_at_known_inputs_are_those_of_the_regression_oracle() -> None:
    x, y, _ = tasks()
    at = torch.linspace(-1, 1, 7, dtype=torch.float64)[:, None]
    regression = ndp.NDP(GPOracle(GP), noise_floor=GP.noise)
    both = (model.condition(x, y).sample(at[None], 3, generator=seeded(5)) for model in (MODEL, regression))
    torch.testing.assert_close(*both)


def test_the_oracle_is_better_than_one_without_the_context() -> None:
    batch = Synthetic(GP, 1, -1.0, 1.0, 8, most_context=6, least_context=4, independent=True).draw(
        16, generator=seeded()
    )
    levels = hold_context(draw_levels(16, generator=seeded()), 14, 6, generator=seeded())
    for joint_share in (0.0, 1.0):
        both = noise_one_or_both(levels, 6, generator=seeded(), joint_share=joint_share)
        eps = torch.randn(16, 14, 2, generator=seeded(6), dtype=torch.float64)
        blind = batch.mask.clone()
        blind[:, :6] = False
        with_context, without = (
            denoising_loss(ORACLE, batch.x, batch.y, both, eps, num_context=6, mask=mask, independent=True).mean()
            for mask in (batch.mask, blind)
        )
        assert with_context < without - 0.05


def test_what_the_oracle_cannot_know_is_refused() -> None:
    x, y, _ = tasks()
    level = torch.zeros(4, 5, dtype=torch.float64)
    with pytest.raises(ValueError, match="independent points"):
        ORACLE(x, y, level, level)
    with pytest.raises(ValueError, match="known inputs"):
        ORACLE(x, y, level, level, num_context=4)
    with pytest.raises(ValueError, match="independent points"):
        MODEL.condition(x[0], y[0, :, 0]).sample_joint(2, 3)
