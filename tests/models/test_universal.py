"""The model that a universal recipe makes: exact in what it promises by construction, before any training."""

from pathlib import Path

import numpy as np
import pytest
import torch

import ndp
from ndp.core.units import ContextUnits
from ndp.models.registry import read_model, write_model
from ndp.training.build import begin_with, make_ndp, make_sources, make_validation
from ndp.training.config import Recipe
from ndp.training.loop import fit
from ndp.training.run_folder import RunFolder

SMALL = {"width": 16, "heads": 2, "blocks": 2, "level_width": 8}
RECIPE = Recipe.from_dict(
    {
        "prior": "universal",
        "dims": (1, 3),
        "network": SMALL,
        "posterior_mean": True,
        "most_context": 12,
        "targets": 6,
        "steps": 384,
        "batch": 32,
        "warmup": 5,
        "ema": 0.9,
        "learning_rate": 3e-3,
    }
)
KINDS = [{"joint": joint, "observation_noise": noisy} for joint in (True, False) for noisy in (True, False)]


def untrained() -> ndp.NDP:
    model = make_ndp(RECIPE)
    torch.manual_seed(1)
    torch.nn.init.normal_(model.network.out.weight, std=0.3)
    model.network.double().requires_grad_(False)
    return model


def data(rows: int = 9, dim: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, dim)), rng.normal(size=rows), rng.normal(size=(4, dim))


def draws(posterior: object, x: np.ndarray, **kind: bool) -> np.ndarray:
    return np.asarray(posterior.sample(x, 3, steps=4, generator=torch.Generator().manual_seed(0), **kind))


def test_affine_changes_of_targets_and_inputs_change_the_answer_by_just_that() -> None:
    model, (x, y, x_new) = untrained(), data()
    shift, scale = np.array([5.0, -1e6, 0.0]), np.array([100.0, 0.01, 3.0])
    here, there = model.condition(x, y), model.condition(shift + scale * x, 1e9 * y - 7e9)
    moved = shift + scale * x_new
    values, volume = np.array([0.1, -0.5, 0.3, 1.0]), np.log(1e9)
    for kind in KINDS:
        expected = 1e9 * draws(here, x_new, **kind) - 7e9
        np.testing.assert_allclose(draws(there, moved, **kind), expected, rtol=1e-6)
        found = there.log_prob(moved, 1e9 * values - 7e9, steps=4, **kind)
        lost = volume * (4 if kind["joint"] else 1)
        np.testing.assert_allclose(found, here.log_prob(x_new, values, steps=4, **kind) - lost, rtol=1e-6)


@pytest.mark.parametrize("mirrored", [(-1, (1, 1, 1)), (1, (1, -1, 1)), (-3, (-1, 2, -1))])
def test_a_mirror_image_of_the_data_has_the_mirror_image_for_an_answer(mirrored: tuple[int, tuple[int, ...]]) -> None:
    model, (x, y, x_new) = untrained(), data()
    of_y, of_x = mirrored[0], np.array(mirrored[1])
    here, there = model.condition(x, y, noise=0.1), model.condition(of_x * x, of_y * y, noise=0.1 * abs(of_y))
    np.testing.assert_allclose(draws(there, of_x * x_new), of_y * draws(here, x_new), rtol=1e-6)
    found = there.moments(of_x * x_new, joint=False, steps=4)
    expected = here.moments(x_new, joint=False, steps=4)
    np.testing.assert_allclose(found.mean, of_y * np.asarray(expected.mean), rtol=1e-6)
    np.testing.assert_allclose(found.std, abs(of_y) * np.asarray(expected.std), rtol=1e-6)
    asked = [0.1, 0.3, 0.8]
    mirrored_asked = [1 - p for p in asked] if of_y < 0 else asked
    quantiles = np.asarray(here.quantiles(x_new, mirrored_asked, joint=False, steps=4))
    image = there.quantiles(of_x * x_new, asked, joint=False, steps=4)
    np.testing.assert_allclose(image, of_y * quantiles, rtol=1e-6)
    values = np.array([0.1, -0.5, 0.3, 1.0])
    volume = np.log(abs(of_y))
    each = there.log_prob(of_x * x_new, of_y * values, joint=False, steps=4)
    np.testing.assert_allclose(each, here.log_prob(x_new, values, joint=False, steps=4) - volume, rtol=1e-6)
    joint = there.log_prob(of_x * x_new, of_y * values, steps=4)
    assert joint == pytest.approx(here.log_prob(x_new, values, steps=4) - 4 * volume, rel=1e-6)


def test_quantiles_rise_for_data_and_for_their_mirror_image() -> None:
    model, (x, y, x_new) = untrained(), data()
    several = model.condition(np.stack([x, x]), np.stack([y, -y]))
    found = np.asarray(several.quantiles(np.stack([x_new, x_new]), [0.1, 0.5, 0.9], joint=False, steps=4))
    assert (np.diff(found, axis=0) > 0).all()


def test_functions_and_observations_are_different_answers_to_the_same_context() -> None:
    model, (x, y, x_new) = untrained(), data()
    posterior = model.condition(x, y)
    function, observations = (draws(posterior, x_new, observation_noise=noisy) for noisy in (False, True))
    assert np.abs(function - observations).max() > 1e-3
    np.testing.assert_array_equal(draws(posterior, x_new), function)
    with pytest.raises(ValueError, match="one kind of values"):
        draws(ndp.load("oracle-se").condition(x, y), x_new, observation_noise=False)


def test_the_views_of_the_first_release_warn_and_are_the_same_calls() -> None:
    model, (x, y, x_new) = untrained(), data()
    posterior = model.condition(x, y)
    with pytest.warns(DeprecationWarning, match="pass observation_noise=True"):
        observations = posterior.observations
    with pytest.warns(DeprecationWarning, match="pass joint=False"):
        each = observations.marginals
    np.testing.assert_array_equal(draws(observations, x_new), draws(posterior, x_new, observation_noise=True))
    found = each.moments_and_quantiles(x_new, [0.2, 0.7], steps=4)
    expected = posterior.summary(x_new, [0.2, 0.7], joint=False, observation_noise=True, steps=4)
    for old, new in zip((*found[0], found[1]), (*expected[0], expected[1]), strict=True):
        np.testing.assert_array_equal(old, new)


def test_nothing_one_value_and_equal_values_have_defined_units() -> None:
    model, (x, y, x_new) = untrained(), data()
    assert np.isfinite(draws(model.condition(x[:0], y[:0]), x_new)).all()
    np.testing.assert_array_equal(
        draws(model.condition(x[:0], y[:0]), x_new),
        np.asarray(model.sample(x_new, 3, steps=4, generator=torch.Generator().manual_seed(0))),
    )
    single = draws(model.condition(x[:1], np.array([2e5])), x_new)
    assert np.isfinite(single).all()
    assert 1e3 < np.abs(single - 2e5).max() < 1e7  # in units of the only size that is known
    equal = [draws(model.condition(x, np.full(9, value)), x_new) for value in (0.1, 0.1 * (1 + 1e-15))]
    np.testing.assert_allclose(equal[0], equal[1], rtol=1e-9)
    assert np.isfinite(draws(model.condition(np.ones((9, 3)), y), x_new)).all()


def test_a_mask_and_a_batch_do_not_change_the_units_of_a_task() -> None:
    model, (x, y, x_new) = untrained(), data()
    padded_x, padded_y = np.stack([x, 3 * x]), np.stack([y, y + 8])
    mask = np.ones((2, 9), dtype=bool)
    mask[0, 5:] = False
    together = model.condition(padded_x, padded_y, mask=mask).moments(np.stack([x_new, x_new]), joint=False, steps=4)
    first = model.condition(x[:5], y[:5]).moments(x_new, joint=False, steps=4)
    np.testing.assert_allclose(np.asarray(together.mean)[0].ravel(), first.mean, rtol=1e-9)
    second = model.condition(3 * x, y + 8).moments(x_new, joint=False, steps=4)
    np.testing.assert_allclose(np.asarray(together.std)[1].ravel(), second.std, rtol=1e-9)


def test_it_trains_and_comes_back_from_disk_with_its_units_and_both_kinds(tmp_path: Path) -> None:
    model = make_ndp(RECIPE)
    device = torch.device("cpu")
    validation = make_validation(RECIPE, model, device)
    before = validation(model.network)
    assert set(validation.by_dim) == {1, 3}
    fit(model, make_sources(RECIPE, device), RECIPE)
    assert validation(model.network) < before
    write_model(model, tmp_path)
    again = read_model(tmp_path)
    assert again.units == ContextUnits()
    assert again.input_dims == (1, 2, 3)
    x, y, x_new = data()
    for noisy in (False, True):
        both = (draws(one.condition(x, y), x_new, observation_noise=noisy) for one in (again, model))
        np.testing.assert_array_equal(*both)


def test_the_gate_is_trained_with_the_network_frozen_and_a_run_resumes_where_it_was(tmp_path: Path) -> None:
    write_model(untrained(), tmp_path / "start")
    recipe = Recipe.from_dict(
        RECIPE.as_dict()
        | {"gate_only": True, "start": str(tmp_path / "start"), "steps": 48, "optimiser": "adamw"}
        | {"dims": (1, 2)}
    )
    device = torch.device("cpu")
    sources = make_sources(recipe, device)
    assert [source.independent for source in sources] == [True] * 4
    model = make_ndp(recipe)
    begin_with(model, recipe.start)
    validation = make_validation(recipe, model, device)
    before, started = validation(model.network), {k: v.clone() for k, v in model.network.state_dict().items()}
    fit(model, sources, recipe)
    assert validation(model.network) < before
    changed = {k for k, v in model.network.state_dict().items() if not torch.equal(v, started[k])}
    assert changed == {k for k in started if k.startswith("gate.")}
    assert model.input_dims == (1, 2, 3)  # those of the network that it began with
    write_model(model, tmp_path / "experts")
    assert read_model(tmp_path / "experts").network.gate is not None

    folder = RunFolder.create(tmp_path / "run", recipe)
    cut = make_ndp(recipe)
    begin_with(cut, recipe.start)

    def stop(progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(cut, sources, recipe, folder=folder, report=stop, report_every=20)
    again = make_ndp(recipe)  # with weights of its own: all come from the state
    fit(again, sources, recipe, folder=folder)
    for key, value in model.network.state_dict().items():
        torch.testing.assert_close(again.network.state_dict()[key], value, rtol=1e-5, atol=1e-7)

    without = make_ndp(RECIPE)
    begin_with(without, str(tmp_path / "experts"))
    for key, value in without.network.state_dict().items():
        assert torch.equal(value, started[key])


def test_the_gate_learns_with_experts_that_adapt_and_the_model_is_read_again(tmp_path: Path) -> None:
    write_model(untrained(), tmp_path / "start")
    adaptive = {**SMALL, "experts": "adaptive"}
    recipe = Recipe.from_dict(
        RECIPE.as_dict()
        | {"gate_only": True, "start": str(tmp_path / "start"), "steps": 16, "optimiser": "adamw"}
        | {"dims": (1, 2), "network": adaptive}
    )
    model = make_ndp(recipe)
    begin_with(model, recipe.start)
    validation = make_validation(recipe, model, torch.device("cpu"))
    before = validation(model.network)
    fit(model, make_sources(recipe, torch.device("cpu")), recipe)
    assert validation(model.network) < before
    write_model(model, tmp_path / "adaptive")
    again = read_model(tmp_path / "adaptive")
    x, y, x_new = data()
    for ours, theirs in zip(*(m.condition(x, y).moments(x_new, joint=False) for m in (model, again)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("wrong", [{"prior": "se"}, {"start": ""}, {"network": {**SMALL, "experts": False}}])
def test_a_gate_alone_is_trained_for_a_universal_network_with_experts_that_starts_from_one(
    wrong: dict[str, object],
) -> None:
    with pytest.raises(ValueError, match="gate_only trains the gate of a trained network"):
        Recipe.from_dict(RECIPE.as_dict() | {"gate_only": True, "start": "universal"} | wrong)
