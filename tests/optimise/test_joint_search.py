"""Joint search with exact draws of x*: it finds minima, loses no evaluation, and continues a run exactly."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ndp.gp.inverse import ExactInputs
from ndp.gp.joint_oracle import JointOracle
from ndp.gp.named import minima_gp, regression_gp
from ndp.models.registry import load_ndp
from ndp.optimise.joint_search import JointSearch, Target, minimise
from ndp.optimise.loop import AskTell
from ndp.processes.ndp import NDP

BOUNDS = [[10.0, 14.0]]


def valley(x: np.ndarray) -> float:
    place = (x[0] - 12) / 2
    return float(100 + 20 * np.cos(5 * place + 1) + 30 * (place - 0.4) ** 2)


LEAST = min(valley(np.array([place])) for place in np.linspace(10, 14, 2001))
EXACT = {"model": ExactInputs(minima_gp()), "sample_options": {}}


def test_it_finds_a_minimum_sooner_than_random_search() -> None:
    def regret(**options: object) -> float:
        runs = (minimise(valley, BOUNDS, evaluations=12, progress=False, seed=s, **options) for s in range(8))
        return float(np.median([run.best[1] - LEAST for run in runs]))

    assert regret(**EXACT) < 0.3 * regret(model="random")


def test_a_joint_ndp_with_the_exact_denoiser_proposes_several_points_in_the_box() -> None:
    search = JointSearch(BOUNDS, NDP(JointOracle(minima_gp(), nodes=300)), initial=3)
    assert isinstance(search, AskTell)
    for _ in range(3):
        (point,) = search.ask()
        search.tell(point, valley(point))
    assert not search.starting
    points = search.ask(4)
    assert points.shape == (4, 1)
    assert ((points >= 10) & (points <= 14)).all()
    np.testing.assert_array_equal(points, search.ask(4))
    assert search.best[1] == min(search.history.y)


def test_an_interrupted_run_continues_as_if_it_had_not_been_interrupted(tmp_path: Path) -> None:
    whole = minimise(valley, BOUNDS, evaluations=8, progress=False, **EXACT)
    path = tmp_path / "history.jsonl"
    minimise(valley, BOUNDS, evaluations=6, progress=False, history=path, **EXACT)
    resumed = minimise(valley, BOUNDS, evaluations=8, progress=False, history=path, **EXACT)
    np.testing.assert_allclose(resumed.x, whole.x, rtol=1e-12)
    assert resumed.picture(minimum=LEAST) is not None


def test_targets_are_normal_about_the_best_value_and_truncated_above_it() -> None:
    y = torch.tensor([2.0, 4.0, 6.0], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    for spread in (1.0, 0.5):
        below = 2.0 - np.array([Target(spread).draw(y, generator) for _ in range(4000)])
        assert below.min() >= 0
        width = spread * float(y.std(correction=0))
        assert abs(np.sqrt((below**2).mean()) / width - 1) < 0.05
    assert Target().draw(y[:1], generator) < 2.0
    assert Target().draw(torch.ones(3, dtype=torch.float64), generator) < 1.0
    with pytest.raises(ValueError, match="spread must be positive"):
        Target(0.0)


def test_a_model_of_other_inputs_is_refused() -> None:
    with pytest.raises(ValueError, match="functions of 1 inputs, and the bounds have 2"):
        JointSearch([[0, 1], [0, 1]], ExactInputs(minima_gp()))


def test_a_model_that_cannot_draw_inputs_is_refused() -> None:
    with pytest.raises(ValueError, match="values at known inputs; use a joint model"):
        JointSearch(BOUNDS, load_ndp("se"))
    search = JointSearch(BOUNDS, regression_gp("se"), initial=1)
    search.tell([12.0], 1.0)
    with pytest.raises(ValueError, match="cannot draw inputs; use a joint model"):
        search.ask()


def test_proposals_stay_as_they_are() -> None:
    history = minimise(
        lambda x: float(np.sin(x[0] * 2)), BOUNDS, load_ndp("joint"), evaluations=8, progress=False, seed=2
    )
    np.testing.assert_allclose(history.x[-2:], [[11.338563859462738], [11.550975382328033]], atol=1e-4)


def test_a_value_of_the_model_is_one_of_the_user() -> None:
    search = JointSearch(BOUNDS, None, initial=1)
    for x, y in ((10.0, 1e8), (14.0, 1e8 + 2)):
        search.tell([x], y)
    assert search.to_value(-1.0) == 1e8
    assert search.to_value(0.5) == 1e8 + 1.5
    np.testing.assert_allclose(search.to_bounds(torch.tensor([[-1.0], [0.0], [1.0]])), [[10], [12], [14]])
