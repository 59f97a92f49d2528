"""`minimise` without a model: it uses one that suits the number of inputs."""

import numpy as np
import pytest

import ndp
from ndp.gp.mixture import GPMixture
from ndp.optimise import joint_search
from ndp.optimise.default_model import default_joint_model, default_model
from ndp.processes.ndp import NDP


def parabola(x: np.ndarray) -> float:
    return float(((x - 0.3) ** 2).sum())


def test_the_call_of_the_readme() -> None:
    point, value = ndp.minimise(parabola, bounds=[(-1, 1)], evaluations=15, progress=False).best
    assert abs(point[0] - 0.3) < 0.01
    assert value == parabola(point)


@pytest.mark.parametrize("dim", [2, 3])
def test_the_default_model_is_better_than_random_search(dim: int) -> None:
    found, random = (
        ndp.minimise(parabola, [(-1, 1)] * dim, model, evaluations=15, progress=False, seed=1).best[1]
        for model in (None, "random")
    )
    assert found < 0.5 * random


@pytest.mark.parametrize(
    ("dim", "kind"), [(1, GPMixture), (2, GPMixture), (3, NDP), (6, NDP), (7, GPMixture), (40, GPMixture)]
)
def test_there_is_a_default_for_every_number_of_inputs(dim: int, kind: type) -> None:
    model = default_model(dim)
    assert isinstance(model, kind)
    x = np.random.default_rng(0).uniform(-1, 1, (8, dim))
    assert np.isfinite(model.condition(x[:4], x[:4].sum(1)).sample(x)).all()


def test_the_default_joint_model_is_of_one_input() -> None:
    history = joint_search.minimise(lambda x: float(np.sin(5 * x[0])), [(-3, 3)], evaluations=7, progress=False)
    assert len(history) == 7
    assert default_joint_model(1).of_points
    with pytest.raises(ValueError, match="for functions of 1 inputs, not 2; pass a model"):
        joint_search.minimise(parabola, [(-1, 1)] * 2)


def test_a_model_is_an_object_and_not_a_name() -> None:
    for search in (ndp.minimise, joint_search.minimise):
        with pytest.raises(ValueError, match="or \"random\" for random points; it is 'matern52'"):
            search(parabola, [(-1, 1)], "matern52")
