"""Asking where the minimum is, with the exact law of the answer: it finds minima, loses nothing, and goes on exactly."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ndp.gp.inverse import ExactInputs
from ndp.gp.joint_oracle import JointOracle
from ndp.models.registry import minima_gp
from ndp.optimise.joint_search import JointSearch, Target, minimise
from ndp.optimise.loop import AskTell
from ndp.processes.joint import JointNDP

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

    assert regret(**EXACT) < 0.3 * regret(model=None)


def test_a_joint_ndp_with_the_exact_denoiser_asks_in_the_box_and_for_several_points() -> None:
    search = JointSearch(BOUNDS, JointNDP(JointOracle(minima_gp(), nodes=300)), initial=3)
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


def test_a_run_that_was_cut_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole = minimise(valley, BOUNDS, evaluations=8, progress=False, **EXACT)
    path = tmp_path / "history.jsonl"
    minimise(valley, BOUNDS, evaluations=6, progress=False, history=path, **EXACT)
    resumed = minimise(valley, BOUNDS, evaluations=8, progress=False, history=path, **EXACT)
    np.testing.assert_allclose(resumed.x, whole.x, rtol=1e-12)
    assert resumed.picture(minimum=LEAST) is not None


def test_targets_are_a_normal_law_about_the_best_value_cut_off_above_it() -> None:
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
