"""Thompson sampling with an exact GP: it finds minima, loses no evaluation, and continues a run exactly."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpytorch
import numpy as np
import pytest
import torch

from ndp.gp.exact import GP
from ndp.gp.oracle import GPOracle
from ndp.optimise.history import History
from ndp.optimise.thompson import PAPER_RULE, UNIT_BOX, Thompson, minimise
from ndp.processes.ndp import NDP


def model() -> GP:
    kernel = gpytorch.kernels.MaternKernel(nu=2.5)
    kernel.lengthscale = 0.5
    return GP(kernel, noise=1e-3)


def bowl(x: np.ndarray) -> float:
    return float(((x - np.array([3.0, -20.0])) ** 2 / np.array([1.0, 100.0])).sum())


BOUNDS = [[0.0, 10.0], [-50.0, 50.0]]


def regret(surrogate: GP | str, **options: Any) -> float:
    """The median over seeds of the best value after 40 evaluations; the minimum is 0."""
    runs = (minimise(bowl, BOUNDS, surrogate, evaluations=40, progress=False, seed=s, **options) for s in range(5))
    return float(np.median([run.best[1] for run in runs]))


def test_it_finds_a_minimum_and_random_search_does_not() -> None:
    assert regret(model()) < 0.3 * regret("random")


def test_the_papers_rule_works_too_and_the_default_is_better() -> None:
    assert regret(model()) < regret(model(), rule=PAPER_RULE) < regret("random")


def test_an_interrupted_run_continues_as_if_it_had_not_been_interrupted(tmp_path: Path) -> None:
    whole = minimise(bowl, BOUNDS, model(), evaluations=9, progress=False)
    path = tmp_path / "history.jsonl"

    def dies_later(x: np.ndarray) -> float:
        if len(path.read_text().splitlines() if path.exists() else []) == 6:
            raise RuntimeError("power cut")
        return bowl(x)

    with pytest.raises(RuntimeError):
        minimise(dies_later, BOUNDS, model(), evaluations=9, progress=False, history=path)
    resumed = minimise(bowl, BOUNDS, model(), evaluations=9, progress=False, history=path)
    np.testing.assert_allclose(resumed.x, whole.x, rtol=1e-12)


def test_a_history_in_memory_survives_a_crash() -> None:
    history = History()

    def dies(x: np.ndarray) -> float:
        if len(history) == 3:
            raise RuntimeError("power cut")
        return bowl(x)

    with pytest.raises(RuntimeError):
        minimise(dies, BOUNDS, model(), evaluations=9, progress=False, history=history)
    assert len(history) == 3
    assert len(minimise(bowl, BOUNDS, model(), evaluations=9, progress=False, history=history)) == 9


@pytest.mark.parametrize("surrogate", [model(), NDP(GPOracle(model()))], ids=["gp", "oracle"])
def test_the_same_point_again_and_again_is_no_obstacle(surrogate: Any) -> None:
    optimiser = Thompson(BOUNDS, surrogate, initial=1)
    for y in (1.0, 1.0, 1.5, 1.0):
        optimiser.tell([5.0, 0.0], y)
    (point,) = optimiser.ask()
    assert 0 <= point[0] <= 10
    assert -50 <= point[1] <= 50


def test_a_constant_objective_is_searched_to_the_end() -> None:
    history = minimise(lambda x: 3.0, BOUNDS, model(), evaluations=12, progress=False)
    assert history.best[1] == 3.0
    assert len(np.unique(np.array(history.x), axis=0)) == 12


def test_failed_evaluations_are_kept_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    optimiser = Thompson(BOUNDS, model(), history=path, initial=2)
    with pytest.warns(UserWarning, match="kept as a failed evaluation"):
        optimiser.tell([1.0, 0.0], math.nan)
    with pytest.raises(ValueError, match="every evaluation failed"):
        _ = optimiser.best
    for y in (1.0, 1.0, 1.0):  # a constant objective is no obstacle
        optimiser.tell([2.0, 1.0], y)
    assert np.isfinite(optimiser.ask(3)).all()
    again = Thompson(BOUNDS, model(), history=path)
    assert math.isnan(again.history.y[0])
    np.testing.assert_array_equal(again.history.best_so_far()[1:], 1.0)


def test_several_points_are_minimisers_of_different_draws() -> None:
    optimiser = Thompson(BOUNDS, model(), initial=1)
    optimiser.tell([5.0, 0.0], 1.0)
    asked = optimiser.ask(4)
    assert asked.shape == (4, 2)
    assert len(np.unique(asked, axis=0)) == 4
    np.testing.assert_array_equal(asked, optimiser.ask(4))


def test_user_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"bounds must be \[D, 2\]"):
        Thompson([0, 1], None)
    with pytest.raises(ValueError, match="below its upper bound"):
        Thompson([[1, 0]], None)
    with pytest.raises(
        ValueError, match=r"for functions of 3 inputs, and the bounds have 2; trained for 2: .*matern52"
    ):
        Thompson(BOUNDS, NDP(GPOracle(model()), input_dims=(3,)))
    with pytest.raises(ValueError, match="\"random\" for random points; it is 'matern52'"):
        Thompson(BOUNDS, "matern52")
    optimiser = Thompson(BOUNDS, None)
    with pytest.raises(ValueError, match="a point has 2 coordinates, not 3"):
        optimiser.tell([1, 2, 3], 0.0)
    with pytest.warns(UserWarning, match="outside the bounds"):
        optimiser.tell([11.0, 0.0], 0.0)
    with pytest.raises(ValueError, match="bounds have 40; no shipped network is trained for 40; for any number: gp-se"):
        Thompson([[0, 1]] * 40, NDP(GPOracle(model()), input_dims=(3,)))
    (tmp_path / "broken.jsonl").write_text('{"x": [1, 2], "y": 0.5}\nnonsense\n')
    with pytest.raises(ValueError, match=r"line 2 of .* is not an evaluation"):
        Thompson(BOUNDS, None, history=tmp_path / "broken.jsonl")
    (tmp_path / "other.jsonl").write_text('{"x": [1], "y": 0.5}\n')
    with pytest.raises(ValueError, match="points of 1 inputs, and the bounds have 2"):
        Thompson(BOUNDS, None, history=tmp_path / "other.jsonl")


def test_proposals_are_those_of_the_first_release() -> None:
    history = minimise(bowl, BOUNDS, model(), evaluations=20, progress=False, seed=4)
    expected = [[1.38132919848299, 8.946321530918425], [4.290460345056661, -21.046484521205215]]
    np.testing.assert_allclose(history.x[-2:], expected, rtol=1e-9)
    history = minimise(bowl, BOUNDS, NDP(GPOracle(model())), evaluations=9, progress=False, seed=4)
    expected = [[2.5812620873575143, -31.75650872048307], [9.927191376938596, 36.01834806013342]]
    np.testing.assert_allclose(history.x[-2:], expected, rtol=1e-9)


@pytest.mark.parametrize("surrogate", [model(), NDP(GPOracle(model()))], ids=["gp", "oracle"])
def test_proposals_do_not_depend_on_units(surrogate: Any) -> None:
    """The same problem in other units, with large offsets, has the same answer in those units."""
    here = minimise(bowl, BOUNDS, surrogate, evaluations=9, progress=False)
    away = np.array([1e4, -1e4])
    moved = minimise(
        lambda x: 1e6 + 1e-3 * bowl((x - away) / 5),
        np.array(BOUNDS) * 5 + away[:, None],
        surrogate,
        evaluations=9,
        progress=False,
    )
    np.testing.assert_allclose((np.array(moved.x) - away) / 5, here.x, rtol=1e-7)


def test_units_are_of_the_known_values() -> None:
    optimiser = Thompson(BOUNDS, None, domain=(-2.0, 2.0))
    for x, y in (([0.0, -50.0], 1e8), ([10.0, 50.0], 1e8 + 2)):
        optimiser.tell(x, y)
    inquiry = optimiser.inquiry()
    np.testing.assert_allclose(inquiry.x, [[-2, -2], [2, 2]])
    np.testing.assert_allclose(inquiry.y, [-1, 1])
    np.testing.assert_allclose(optimiser.to_bounds(inquiry.candidates), inquiry.points, rtol=1e-12)
    assert ((inquiry.points >= [0, -50]) & (inquiry.points <= [10, 50])).all()
    assert (inquiry.candidates.abs() <= 2 + 1e-9).all()


def test_rounding_does_not_leave_the_box() -> None:
    """-0.1 + (0.2 + 0.1) is above 0.2 in floating point."""
    optimiser = Thompson([[-0.1, 0.2]], None)
    assert optimiser.to_bounds(torch.ones(1, 1, dtype=torch.float64), UNIT_BOX).item() == 0.2


def test_draws_are_of_the_function_and_not_of_new_observations() -> None:
    kernel = gpytorch.kernels.RBFKernel()
    kernel.lengthscale = 2.0
    optimiser = Thompson([[0.0, 1.0]], GP(kernel, noise=0.5), initial=1)
    for x in np.linspace(0, 1, 30):
        optimiser.tell([x], 5 * x)
    assert optimiser.ask(50).max() < 0.1, "noise would put the minimum anywhere"
    noisy = Thompson(
        [[0.0, 1.0]], optimiser.model, history=optimiser.history, sample_options={"observation_noise": True}
    )
    assert noisy.ask(50).max() > 0.1


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the most memory of one program")
def test_many_evaluations_of_many_inputs_fit_in_little_memory(tmp_path: Path) -> None:
    """The last of 200 evaluations in D = 6, where most is known, with a network of the size that ships."""
    path = tmp_path / "history.jsonl"
    points = np.random.default_rng(0).uniform(size=(196, 6))
    path.write_text("".join(json.dumps({"x": point.tolist(), "y": point.sum()}) + "\n" for point in points))
    script = f"""
import re
from pathlib import Path
from ndp.optimise.thompson import minimise
from ndp.training.build import make_ndp
from ndp.training.config import Recipe
ndp = make_ndp(Recipe(prior="bo-marginal", dims=(3, 4, 5, 6)))
found = minimise(sum, [[0, 1]] * 6, ndp, evaluations=200, progress=False, history={str(path)!r})
print(len(found), re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    evaluations, kibibytes = (int(number) for number in output.split())
    assert evaluations == 200
    assert kibibytes < 2 * 2**20


def test_a_picture_shows_the_best_so_far() -> None:
    history = History(y=[3.0, math.nan, 2.0, 2.5], x=[[0.0]] * 4)
    (ax,) = history.picture().axes
    values, best, failed = ax.get_lines()
    np.testing.assert_array_equal(values.get_ydata(), [3.0, 2.0, 2.5])
    np.testing.assert_array_equal(best.get_ydata(), [3.0, 3.0, 2.0, 2.0])
    np.testing.assert_array_equal(failed.get_xdata(), [2])
    (ax,) = history.picture(minimum=2.0).axes
    assert ax.get_yscale() == "log"
    np.testing.assert_array_equal(ax.get_lines()[1].get_ydata(), [1.0, 1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="nothing to draw"):
        History().picture()
