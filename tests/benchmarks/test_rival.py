"""The neural process beside the NDP: it is there, or it is said why not."""

import sys
from pathlib import Path

import pytest

import ndp.models.registry
from benchmarks.rival import find_rival
from ndp.models.checkpoint import write_model
from ndp.models.registry import load_ndp
from ndp.processes.neural_process import NeuralProcess

SMALL = {"width": 16, "dim_embedding": 16, "num_dec_layers": 2, "dim_lv": 4}


def untrained(prior: str) -> NeuralProcess:
    return NeuralProcess("anp", 1, options=SMALL, about={"recipe": {"prior": prior}, "trained_on": prior})


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that ships one small attentive neural process, of squared exponentials."""
    write_model(untrained("se"), tmp_path / "shipped" / "anp-se", half=True)
    monkeypatch.setattr(ndp.models.registry, "_pretrained", lambda: tmp_path / "shipped")
    return tmp_path


def test_the_one_that_ships_for_the_prior_is_found(shipped: Path) -> None:
    found = find_rival("", load_ndp("oracle-se"), "cpu")
    assert found.name == "anp-se"
    assert isinstance(found.process, NeuralProcess)
    assert not found.absence
    (listed,) = ndp.models.registry.shipped()
    assert (listed.name, listed.architecture, listed.input_dims) == ("anp-se", "attentive neural process", (1,))


def test_what_does_not_ship_is_left_out_in_words(shipped: Path) -> None:
    found = find_rival("", load_ndp("oracle-matern52"), "cpu")
    assert found.process is None
    assert found.absence.startswith("The neural process anp-matern52 is left out: no such model ships")


def test_without_the_extra_it_is_left_out_in_words(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "neuralprocesses.torch", None)
    found = find_rival("", load_ndp("oracle-se"), "cpu")
    assert found.process is None
    assert "pip install" in found.absence
    with pytest.raises(ValueError, match=r"neural processes need the extra `baselines`: pip install"):
        ndp.load("anp-se")


def test_one_that_was_asked_for_must_fit(tmp_path: Path) -> None:
    oracle = load_ndp("oracle-se")
    write_model(untrained("matern52"), tmp_path)
    with pytest.raises(ValueError, match="was trained on matern52, and the model beside it on se"):
        find_rival(str(tmp_path), oracle, "cpu")
    with pytest.raises(ValueError, match="gp-se is not a neural process"):
        find_rival("gp-se", oracle, "cpu")
    with pytest.raises(ValueError, match="there is no model and no folder"):
        find_rival("nowhere", oracle, "cpu")
