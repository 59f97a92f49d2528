"""The neural process beside the NDP: it is found, or the report says why not."""

import sys
from pathlib import Path

import pytest

import ndp
import ndp.models.registry
from benchmarks import baseline, weights_folder
from benchmarks.baseline import find_baseline
from benchmarks.images import load_image_model
from ndp.core.extras import MissingExtraError
from ndp.models.registry import load_ndp, write_model
from ndp.processes.neural_process import NeuralProcess

SMALL = {"width": 16, "dim_embedding": 16, "num_dec_layers": 2, "dim_lv": 4}


def untrained(prior: str) -> NeuralProcess:
    return NeuralProcess("anp", 1, options=SMALL, about={"recipe": {"prior": prior}, "trained_on": prior})


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Weights of one small attentive neural process, of squared exponentials."""
    write_model(untrained("se"), tmp_path / "weights" / "anp-se", half=True)
    for module in (baseline, weights_folder):
        monkeypatch.setattr(module, "WEIGHTS", tmp_path / "weights")
    return tmp_path / "weights"


def test_the_one_for_the_prior_is_found(weights: Path) -> None:
    found = find_baseline("", load_ndp("oracle-se"), "cpu")
    assert found.name == "anp-se"
    assert isinstance(found.process, NeuralProcess)
    assert not found.absence
    named = find_baseline("anp-se", load_ndp("oracle-se"), "cpu")
    assert isinstance(named.process, NeuralProcess)


def test_a_neural_process_in_the_package_describes_itself(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndp.models.registry, "_pretrained", lambda: weights)
    (listed,) = ndp.models.registry.shipped()
    assert (listed.name, listed.architecture, listed.input_dims) == ("anp-se", "attentive neural process", (1,))


def test_what_does_not_ship_is_left_out_with_a_reason(weights: Path) -> None:
    found = find_baseline("", load_ndp("oracle-matern52"), "cpu")
    assert found.process is None
    assert found.absence.startswith("The neural process anp-matern52 is left out: no such model ships")


def test_without_the_extra_it_is_left_out_with_a_reason(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "neuralprocesses.torch", None)
    found = find_baseline("", load_ndp("oracle-se"), "cpu")
    assert found.process is None
    assert "pip install" in found.absence
    with pytest.raises(MissingExtraError, match=r"neural processes need the extra `baselines`: pip install"):
        ndp.load(str(weights / "anp-se"))


def test_one_that_was_asked_for_must_fit(tmp_path: Path) -> None:
    oracle = load_ndp("oracle-se")
    write_model(untrained("matern52"), tmp_path)
    with pytest.raises(ValueError, match="was trained on matern52, and the model beside it on se"):
        find_baseline(str(tmp_path), oracle, "cpu")
    with pytest.raises(ValueError, match="gp-se is not a neural process"):
        find_baseline("gp-se", oracle, "cpu")
    with pytest.raises(ValueError, match="there is no model and no folder"):
        find_baseline("nowhere", oracle, "cpu")


def test_weights_that_come_with_the_benchmarks_are_found_by_name() -> None:
    assert weights_folder.find_weights("se") == "se"
    assert weights_folder.find_weights("") == ""
    for folder in weights_folder.WEIGHTS.iterdir():
        assert weights_folder.find_weights(folder.name) == str(folder)
    faces = load_image_model("celeba32", "celeba32", "cpu")
    assert (faces.num_outputs, faces.input_dims) == (3, (2,))
