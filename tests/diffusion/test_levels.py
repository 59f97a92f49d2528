"""Noise levels: the identities of a variance-preserving process, and the three grids."""

import math

import pytest
import torch

from ndp.diffusion.levels import CLEAN, NOISE, alpha, cosine, karras, level_of_ratio, log_uniform, ratio, sigma


def test_alpha_and_sigma_preserve_variance_and_give_the_level() -> None:
    level = torch.linspace(NOISE, CLEAN, 101, dtype=torch.float64)
    torch.testing.assert_close(alpha(level) ** 2 + sigma(level) ** 2, torch.ones_like(level))
    torch.testing.assert_close(torch.log(alpha(level) ** 2 / sigma(level) ** 2), level)
    torch.testing.assert_close(ratio(level), sigma(level) / alpha(level))


def test_ratio_and_level_are_inverse_and_clipped_at_the_ends() -> None:
    level = torch.linspace(-15, 15, 31, dtype=torch.float64)
    torch.testing.assert_close(level_of_ratio(ratio(level)), level)
    ends = level_of_ratio(torch.tensor([0.0, 1e-30, 1e30, math.inf], dtype=torch.float64))
    assert ends.tolist() == [CLEAN, CLEAN, NOISE, NOISE]


def test_log_uniform_is_uniform_in_the_logarithm_of_the_ratio() -> None:
    ratios = ratio(log_uniform(9, largest=40.0, smallest=0.01))
    assert ratios[0].item() == pytest.approx(40.0)
    assert ratios[-1].item() == pytest.approx(0.01)
    quotients = ratios[1:] / ratios[:-1]
    torch.testing.assert_close(quotients, quotients[:1].expand(8))


def test_karras_is_uniform_in_the_root_of_the_ratio() -> None:
    roots = ratio(karras(9, largest=40.0, smallest=0.004, rho=7.0)) ** (1 / 7)
    torch.testing.assert_close(roots.diff(), roots.diff()[:1].expand(8))


@pytest.mark.parametrize("steps", [500, 1000, 2000])
def test_cosine_schedule_has_betas_in_the_authors_range_and_no_infinity(steps: int) -> None:
    levels = cosine(steps)
    alpha_bar = torch.sigmoid(levels.flip(0))  # t = 1 .. T
    beta = 1 - alpha_bar / torch.cat([torch.ones(1, dtype=torch.float64), alpha_bar[:-1]])
    assert beta.min().item() == pytest.approx(3e-4)
    assert beta.max().item() == pytest.approx(0.5)
    assert len(levels) == steps
    assert (levels.diff() > 0).all(), "levels rise from noise to data"
    assert levels.abs().max() <= CLEAN


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("steps", [True, 2.5, "3", -1, 10**12])
@pytest.mark.parametrize("grid", [log_uniform, karras, cosine])
def test_steps_are_whole_numbers_within_a_limit(grid, steps: object) -> None:
    with pytest.raises(ValueError, match=f"steps must be a whole number from 1 to 10,000, not {steps!r}"):
        grid(steps)


@pytest.mark.parametrize("grid", [log_uniform, karras])
def test_grids_refuse_what_is_not_a_grid(grid) -> None:
    with pytest.raises(ValueError, match="a whole number from 1 to 10,000, not 0"):
        grid(0)
    with pytest.raises(ValueError, match="smallest < largest"):
        grid(5, largest=0.1, smallest=1.0)


def test_cosine_refuses_a_single_step() -> None:
    with pytest.raises(ValueError, match="at least 2 steps"):
        cosine(1)
