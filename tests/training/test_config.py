"""Recipes: plain values, checked, and the same again after a trip through JSON."""

import json
import subprocess
import sys
from dataclasses import Field, fields
from typing import get_type_hints

import pytest
import torch

import ndp
from ndp.diffusion.objective import Error
from ndp.diffusion.prediction import Prediction
from ndp.priors.registry import PRIORS, make_prior
from ndp.processes.ndp import NDP
from ndp.training import weights
from ndp.training.build import begin_with, make_model, make_sources
from ndp.training.config import _WORDS, CHOICES, Recipe


@pytest.mark.parametrize("prior", list(PRIORS))
def test_every_named_prior_draws_finite_functions_of_about_unit_size_in_model_units(prior: str) -> None:
    few = {"most_context": 48, "targets": 32} if prior == "universal" else {}
    recipe = Recipe(prior=prior, network={"width": 16, "heads": 2, "blocks": 1}, **few)
    for source in make_sources(recipe, torch.device("cpu")):
        batch = source.draw(200, generator=torch.Generator().manual_seed(0))
        assert torch.isfinite(batch.y).all()
        assert 0.7 < batch.y[batch.mask].square().mean().sqrt() < 1.3
    assert make_model(recipe).noise_floor == PRIORS[prior].noise_floor


def test_a_recipe_survives_json() -> None:
    settings = {"prior": "se", "dims": [1, 2], "prediction": "eps", "error": "l1", "network": {"width": 32}}
    recipe = Recipe.from_dict(settings)
    again = Recipe.from_dict(json.loads(json.dumps(recipe.as_dict())))
    assert again == recipe
    assert again.prediction == "eps"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "either a prior or a table"),
        ({"prior": "se", "data": "x.csv"}, "either a prior or a table"),
        ({"prior": "sea"}, "no prior named 'sea'; there are: se, matern52"),
        ({"prior": "se", "stepz": 3}, "no setting 'stepz'; did you mean steps[?] it has: batch"),
        ({"prior": "se", "optimiser": "adam"}, "optimiser is one of muon, adamw, not 'adam'"),
        ({"prior": "se", "steps": 0}, "steps must be from 1 to 1,000,000,000, not 0"),
        ({"prior": "se", "batch": 10**12}, "batch must be from 1 to 1,048,576, not 1000000000000"),
        ({"prior": "se", "seed": -1}, "seed must be from 0"),
        ({"prior": "se", "ema": 1.5}, "ema must be from 0 to 1, not 1.5"),
        ({"prior": "se", "noisy_share": float("nan")}, "noisy_share must be from 0 to 1, not nan"),
        ({"prior": "se", "learning_rate": float("inf")}, "learning_rate must be positive and finite, not inf"),
        ({"prior": "se", "learning_rate": 10**400}, "learning_rate must be a number that a computer can hold"),
        ({"prior": "se", "weight_decay": -1.0}, "weight_decay must be finite and not negative"),
        ({"prior": "se", "clip": 0.0}, "clip must be positive"),
        ({"prior": "se", "level_law": [float("nan"), 1.0]}, "level_law is the mean and the standard deviation"),
        ({"prior": "se", "dims": [10**9]}, "dims must be whole numbers from 1 to 1,000"),
        ({"prior": "se", "steps": "many"}, "steps must be a whole number, not 'many'"),
        ({"prior": "se", "steps": True}, "steps must be a whole number, not True"),
        ({"prior": "se", "learning_rate": "fast"}, "learning_rate must be a number, not 'fast'"),
        ({"prior": ["se"]}, "prior must be text, not"),
        ({"prior": "se", "network": [1]}, "network must be a table of settings, not"),
        ({"prior": "se", "dims": 2}, "dims must be a list of whole numbers, not 2"),
        ({"prior": "se", "dims": [1.5]}, "dims must be a list of whole numbers, not"),
        ({"prior": "se", "use_context": 1}, "use_context must be true or false, not 1"),
        ({"prior": "se", "level_law": "wide"}, "level_law must be a list of two numbers, not 'wide'"),
        ({"prior": "se", "dims": [0]}, "dims must be whole numbers"),
        ({"prior": "se", "level_law": [1.0]}, "level_law is the mean and the standard deviation"),
        ({"prior": "se", "level_law": [0.0, 0.0]}, "level_law is the mean and the standard deviation"),
        ({"prior": "se", "error": "l3"}, "error is one of l1, l2, not 'l3'"),
        ({"prior": "universal", "model": "gnp"}, "the universal prior is for an NDP that sees a context"),
        ({"prior": "universal", "model": "ndp-paper"}, "the universal prior is for an NDP that sees a context"),
        ({"prior": "mnist", "targets": 9}, "targets is a number of points of a prior's tasks"),
    ],
)
def test_what_is_wrong_with_a_recipe_is_named(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe.from_dict(settings)


WRONG: dict[str, tuple[object, ...]] = {
    "text": (3, ["se"], {"se": 1}, True, None),
    "true or false": (1, "yes", [True], None),
    "a whole number": ("1", 1.0, True, [1], None),
    "a number": ("0.1", True, [0.1], {}, None),
    "a list of whole numbers": (1, "1", [1.0], ["1"], [True], None),
    "a list of two numbers": (1.0, "wide", {"mean": 1}, None),
    "a table of settings": (1, "width", [["width", 1]], None),
}


@pytest.mark.parametrize("setting", fields(Recipe), ids=lambda setting: setting.name)
def test_a_value_of_the_wrong_type_is_refused(setting: Field) -> None:
    words = _WORDS[get_type_hints(Recipe)[setting.name]]
    for value in WRONG[words]:
        with pytest.raises(ValueError, match=f"{setting.name} must be {words}, not"):
            Recipe.from_dict({"prior": "se"} | {setting.name: value})


def test_a_value_of_the_wrong_type_is_refused_by_the_constructor() -> None:
    """In a process of its own, for here the types of all calls are checked."""
    code = f"""
from dataclasses import fields
from typing import get_type_hints
from ndp.training.config import _WORDS, Recipe
wrong, hints = {WRONG!r}, get_type_hints(Recipe)
tried = 0
for setting in fields(Recipe):
    for value in wrong[_WORDS[hints[setting.name]]]:
        try:
            Recipe(**({{"prior": "se"}} | {{setting.name: value}}))
        except ValueError as error:
            assert f"{{setting.name}} must be" in str(error), error
            tried += 1
print(tried)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stderr == ""
    assert int(found.stdout) == sum(len(WRONG[_WORDS[kind]]) for kind in get_type_hints(Recipe).values())


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ({"prior": "se", "expected": True}, {"prior": "se", "posterior_mean": True}),
        (
            {"prior": "minima", "model": "joint", "together": 0.5},
            {"prior": "minima", "model": "joint", "joint_share": 0.5},
        ),
        (
            {"prior": "universal", "start": "universal", "trust_only": True, "network": {"tells_noise": True}},
            {"prior": "universal", "start": "universal", "gate_only": True, "network": {"separates_noise": True}},
        ),
    ],
)
def test_recipes_of_the_first_release_are_read(old: dict, now: dict) -> None:
    assert Recipe.from_dict(old) == Recipe.from_dict(now)


def test_the_choices_of_a_recipe_are_those_of_the_library() -> None:
    assert set(CHOICES["prediction"]) == set(Prediction)
    assert set(CHOICES["error"]) == set(Error)
    assert set(CHOICES["optimiser"]) == set(weights._OPTIMISERS)


def test_a_setting_of_the_network_leaves_the_papers_other_settings() -> None:
    recipe = Recipe.from_dict({"prior": "se", "model": "ndp-paper", "network": {"width": 32}})
    assert (recipe.network["width"], recipe.network["attention"]) == (32, "per_dimension")


def test_the_weights_of_a_new_model_are_a_function_of_the_seed_and_leave_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    first, again, other = (
        make_model(Recipe(prior="se", seed=seed)).network.state_dict()["embed.weight"] for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_levels_that_are_learned_most_are_the_priors_unless_a_recipe_says_otherwise() -> None:
    assert Recipe.from_dict({"prior": "step"}).level_law == PRIORS["step"].level_law != PRIORS["se"].level_law
    assert Recipe.from_dict({"prior": "step", "level_law": [0.0, 1.0]}).level_law == (0.0, 1.0)
    assert Recipe.from_dict({"prior": "mnist", "data_dir": "pictures"}).level_law == (-0.6, 1.4)


@pytest.mark.parametrize("prior", ["step", "universal"])
def test_there_are_independent_targets_unless_the_context_reads_from_targets(prior: str) -> None:
    for context, asked in (("separate", True), ("full", False)):
        recipe = Recipe(prior=prior, network={"context": context}, most_context=8, targets=4)
        sources = make_sources(recipe, torch.device("cpu"))
        assert any(source.draw(2, generator=torch.Generator()).independent for source in sources) is asked


def test_an_unknown_prior_is_refused() -> None:
    with pytest.raises(ValueError, match="no prior named"):
        make_prior("nothing", torch.device("cpu"))


@pytest.mark.parametrize("name", ["se", "sawtooth"])
def test_training_can_start_from_a_trained_model(name: str) -> None:
    """Also from one that is not told the number of input dimensions (`sawtooth`): what it lacks starts at zero."""
    model, trained = make_model(Recipe(prior="sawtooth")), ndp.load(name)
    begin_with(model, name)
    assert isinstance(model, NDP)
    assert isinstance(trained, NDP)
    expected = {"input_count_code": torch.zeros(128)} | trained.network.state_dict()
    assert all(torch.equal(value, expected[key]) for key, value in model.network.state_dict().items())


@pytest.mark.parametrize(
    ("recipe", "name", "message"),
    [
        (Recipe(prior="se"), "gp-se", "not a trained model of this kind"),
        (Recipe(prior="se"), "oracle-se", "not a trained model of this kind"),
        (Recipe(prior="minima", model="joint"), "se", "not a trained model of this kind"),
        (Recipe(prior="se", network={"width": 32}), "se", "other settings than the recipe's"),
        (Recipe(prior="se"), "nothing", "no model and no folder named 'nothing'"),
    ],
)
def test_what_training_cannot_start_from_is_told(recipe: Recipe, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        begin_with(make_model(recipe), name)


@pytest.mark.parametrize("prior", ["se", "step"])
def test_the_papers_network_is_the_papers_whatever_the_prior_would_have(prior: str) -> None:
    model = make_model(Recipe.from_dict({"prior": prior, "model": "ndp-paper"}))
    assert isinstance(model, NDP)
    config = model.network.config
    assert (config["blocks"], config["inputs"]) == (4, "raw")
