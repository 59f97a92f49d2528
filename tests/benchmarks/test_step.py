"""Steps: the exact posterior, and statistics that an exact sampler passes and a wrong one does not."""

import math

import numpy as np
import pytest
import torch

from benchmarks.step import Method, Sizes, is_one_step, jump_positions, measure, score_functions, score_marginal
from benchmarks.step_report import describe, draw_rows, picture, tables
from ndp.core.typing import Posterior, Process
from ndp.gp.named import regression_gp
from ndp.priors.step import Step

EXACT = Method("exact posterior", Step().condition, draws=2000, draws_at_zero=20_000, draws_with_others=20_000)


def test_the_exact_posterior_of_steps_is_uniform_between_the_last_zero_and_the_first_one() -> None:
    x, y = np.array([-0.9, -0.4, 0.6, 0.8, -0.2]), np.array([0.0, 0.0, 1.0, 1.0, 0.0])
    posterior = Step().condition(x, y)
    assert isinstance(Step(), Process)
    assert isinstance(posterior, Posterior)
    new = np.array([-0.3, 0.0, 0.4, 0.7])
    one = np.array([0.0, 0.25, 0.75, 1.0])
    mean, std = posterior.moments(new)
    np.testing.assert_allclose(mean, one, atol=1e-12)
    np.testing.assert_allclose(std, np.sqrt(one * (1 - one)), atol=1e-6)
    draws = np.asarray(posterior.sample(new, 20_000, generator=torch.Generator().manual_seed(0)))
    np.testing.assert_allclose(draws.mean(0), one, atol=4.5 * 0.5 / 20_000**0.5)
    np.testing.assert_allclose(posterior.quantiles(new, [0.2, 0.8]), [[0, 0, 0, 1], [0, 1, 1, 1]])
    assert posterior.log_prob(new, np.array([0.0, 0.0, 1.0, 1.0])) == pytest.approx(math.log(0.5))
    assert posterior.log_prob(new, np.array([0.0, 1.0, 0.0, 1.0])) == -math.inf


def test_the_exact_posterior_takes_batches_and_masks_and_refuses_what_is_no_step() -> None:
    x = torch.tensor([[[-0.5], [0.5]], [[-0.5], [0.5]]], dtype=torch.float64)
    y = torch.tensor([[[0.0], [1.0]], [[0.0], [1.0]]], dtype=torch.float64)
    mask = torch.tensor([[True, True], [True, False]])
    low, high = Step().condition(x, y, mask=mask).bracket
    assert low.tolist() == [-0.5, -0.5]
    assert high.tolist() == [0.5, 1.0]
    with pytest.raises(ValueError, match="no step"):
        Step().condition(x, 1 - y)
    with pytest.raises(ValueError, match="without noise"):
        Step().condition(x, y, noise=0.1)


def test_one_clean_step_is_distinguished_from_other_functions() -> None:
    clean, noisy, two_jumps, flat, falling = (
        [0.01, 0.0, 1.02, 1.0],
        [0.0, 0.2, 1.0, 1.0],
        [0.0, 1.0, 0.0, 1.0],
        [0.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 0.0, 0.0],
    )
    draws = torch.tensor([clean, noisy, two_jumps, flat, falling], dtype=torch.float64)
    assert is_one_step(draws).tolist() == [True, False, False, False, False]


def test_jumps_lie_in_their_gap_and_in_the_bracket_where_they_can() -> None:
    x = torch.linspace(-1, 1, 5, dtype=torch.float64)
    draws = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]], dtype=torch.float64).repeat(200, 1)
    jumps = jump_positions(draws, x, (-0.2, 0.8), torch.Generator().manual_seed(0))
    assert ((jumps[::2] > -0.2) & (jumps[::2] < 0.0)).all()
    assert ((jumps[1::2] > -1.0) & (jumps[1::2] < -0.5)).all(), "a draw that contradicts its context is not moved"


@pytest.mark.parametrize("observations", [0, 2, 10])
def test_an_exact_sampler_passes_on_functions(observations: int) -> None:
    score = score_functions(EXACT, observations, points=50)
    assert score.clean.mean == 1.0
    assert score.distance.mean < 0.05


def test_an_exact_sampler_passes_on_marginals_and_a_gaussian_process_fails_on_everything() -> None:
    marginal = score_marginal(EXACT, contexts=100)
    assert marginal.within.mean == 1.0
    assert marginal.largest < 0.02
    jointly = score_marginal(EXACT, contexts=100, other_targets=7)
    assert jointly.within.mean == 1.0
    assert (marginal.other_targets, jointly.other_targets) == (0, 7)
    for score in (marginal, jointly):
        assert abs(score.error.mean - score.noise) < 4.5 * score.error.standard_error
    gp = Method("gp", regression_gp("se").condition, draws=200, draws_at_zero=200)
    assert score_functions(gp, 2, points=30).clean.mean == 0.0
    assert score_functions(gp, 2, points=30).distance.mean > 0.1
    assert score_marginal(gp, contexts=20).within.mean < 0.5


def test_the_picture_and_the_tables_say_what_was_measured() -> None:
    sizes = Sizes(
        *(40, 12, (0, 3)),
        contexts=5,
        draws_at_zero=20,
        draws_with_others=20,
        other_targets=3,
        repaint_draws=0,
        repaint_levels=0,
    )
    stages: list[str] = []
    ours = Method("step", Step().condition, draws=40, draws_at_zero=20, draws_with_others=20)
    outcome = measure([Method("exact posterior", Step().condition, 40, 20), ours], sizes, stages.append)
    assert len(stages) == 7
    functions, marginals = tables(outcome)
    assert [row[:2] for row in functions.rows] == [(m, o) for m in ("exact posterior", "step") for o in ("0", "3")]
    assert [row[:2] for row in marginals.rows] == [("exact posterior", "none"), ("step", "none"), ("step", "3")]
    assert "drawn with 3 other targets" in describe(outcome, "step", 0.4, 0.4)
    assert "Between 100.0% and 100.0% of the draws" in describe(outcome, "step", 0.4, 0.4)
    grid = torch.linspace(-1, 1, 12, dtype=torch.float64)
    rows = draw_rows("step", "cpu", grid, values=16)
    assert ((rows[0].at_zero > 0.5).mean() > 0.1) & ((rows[0].at_zero > 0.5).mean() < 0.8)
    assert all(np.abs(row.at_zero - 0.4).max() < 0.6 for row in rows[1:]), "Gaussian processes stay in between"
    panels = picture(rows, grid.numpy(), 0.375).axes
    assert len(panels) == 9
