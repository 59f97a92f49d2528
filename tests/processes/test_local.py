"""The posterior given a large table, with the model that ships for tables."""

from copy import copy

import numpy as np
import pytest
import torch

import ndp
from ndp.processes import local
from ndp.processes.local import LocalPosterior

STEPS = 5


def table(rows: int, inputs: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """A function of the first two inputs whose noise grows along the second."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, inputs))
    noise = 0.1 * np.exp(0.5 * x[:, 1]) * rng.normal(size=rows)
    return x, np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + noise


@pytest.fixture(scope="module")
def model() -> ndp.NDP:
    return ndp.load("universal").to("cpu")


@pytest.fixture(scope="module")
def posterior(model: ndp.NDP) -> LocalPosterior:
    return model.condition_locally(*table(400))


@pytest.fixture(scope="module")
def places() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(12, 2))


def test_few_rows_are_answered_as_by_condition(model: ndp.NDP, places: np.ndarray) -> None:
    x, y = table(40)
    one, other = model.condition_locally(x, y), model.condition(x, y)
    for observation_noise in (False, True):
        options = {"joint": False, "observation_noise": observation_noise, "steps": STEPS}
        (mean, std), quantiles = one.summary(places, [0.05, 0.9], **options)
        expected, expected_quantiles = other.summary(places, [0.05, 0.9], **options)
        np.testing.assert_allclose(mean, expected.mean, atol=1e-6)
        np.testing.assert_allclose(std, expected.std, atol=1e-6)
        np.testing.assert_allclose(quantiles, expected_quantiles, atol=1e-6)
    values = np.sin(2 * places[:, 0])
    log_p = one.log_prob(places, values, joint=False, observation_noise=True, steps=4)
    np.testing.assert_allclose(
        log_p, other.log_prob(places, values, joint=False, observation_noise=True, steps=4), atol=1e-5
    )


def test_an_answer_depends_on_no_other_question(posterior: LocalPosterior, places: np.ndarray) -> None:
    mean, std = posterior.moments(places, steps=STEPS)
    again = posterior.moments(places[[7, 2]], steps=STEPS)
    np.testing.assert_array_equal(again.mean, mean[[7, 2]])
    np.testing.assert_array_equal(again.std, std[[7, 2]])


def test_regions_together_and_one_by_one_agree(
    model: ndp.NDP, posterior: LocalPosterior, places: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    mean, std = posterior.moments(places, steps=STEPS, observation_noise=True)
    monkeypatch.setitem(local.AT_ONCE, "cpu", 3)
    together = model.condition_locally(*table(400)).moments(places, steps=STEPS, observation_noise=True)
    np.testing.assert_allclose(together.mean, mean, atol=1e-5)
    np.testing.assert_allclose(together.std, std, atol=1e-5)


def test_all_rows_are_used(posterior: LocalPosterior, model: ndp.NDP) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(64, 2))
    truth = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1]
    some = model.condition(*(part[:100] for part in table(400)))
    of_all = np.abs(posterior.moments(x, steps=STEPS, observation_noise=False).mean - truth)
    of_some = np.abs(some.moments(x, joint=False, steps=STEPS, observation_noise=False).mean - truth)
    assert of_all.mean() < 0.75 * of_some.mean()


def test_draws_have_the_distribution_of_single_values(posterior: LocalPosterior, places: np.ndarray) -> None:
    draws = posterior.sample(places, 2000, generator=torch.Generator().manual_seed(0), steps=STEPS)
    quantiles = posterior.quantiles(places, [0.1, 0.5, 0.9], steps=STEPS)
    below = (draws[None] < quantiles[:, None]).mean(1)
    np.testing.assert_allclose(below, np.array([[0.1], [0.5], [0.9]]).repeat(12, 1), atol=0.05)
    near = np.concatenate([places[:1], places[:1] + 1e-3])
    pair = posterior.sample(near, 200, generator=torch.Generator().manual_seed(0), steps=STEPS)
    assert np.corrcoef(pair.T)[0, 1] > 0.95


def test_the_joint_density_of_one_value_is_its_own(posterior: LocalPosterior, places: np.ndarray) -> None:
    alone = posterior.log_prob(places[:1], np.zeros(1), joint=False, observation_noise=True, steps=4)
    joint = posterior.log_prob(places[:1], np.zeros(1), observation_noise=True, steps=4)
    np.testing.assert_allclose(joint, alone[0], atol=1e-6)


def test_the_relevant_inputs_are_used(model: ndp.NDP) -> None:
    x, y = table(120, inputs=30)
    x = x[:, np.random.default_rng(3).permutation(30)]
    y = np.sin(2 * x[:, 20]) + 0.5 * x[:, 4]
    assert {4, 20} <= set(model.condition_locally(x, y).columns.tolist())


def test_no_more_inputs_are_used_than_the_model_was_trained_for(model: ndp.NDP) -> None:
    x, y = table(40, inputs=5)
    narrow = copy(model)
    narrow.input_dims = (2, 3, 8)
    assert len(narrow.condition_locally(x, y).columns) == 3
    with pytest.raises(ValueError, match=r"1 input dimension.*needs 2"):
        narrow.condition_locally(x[:, :1], y)


def test_progress_is_reported(posterior: LocalPosterior, places: np.ndarray) -> None:
    seen: list[tuple[int, int]] = []
    posterior.moments(places, steps=STEPS, report=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (12, 12)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_what_cannot_be_conditioned_locally_is_refused(model: ndp.NDP) -> None:
    x, y = table(20)
    with pytest.raises(ValueError, match="no GP experts that adapt"):
        ndp.load("se").condition_locally(x[:, :1], y)
    with pytest.raises(ValueError, match="rows of one table"):
        model.condition_locally(np.stack([x, x]), np.stack([y, y]))
    with pytest.raises(ValueError, match="rows of one table"):
        model.condition_locally(x[:0], y[:0])
