"""Models on disk: what is loaded is what was saved, or an error that says why not."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import ndp
from ndp.core.units import FixedUnits
from ndp.models.registry import read_model, write_model
from ndp.networks.bidimensional import BiDimensionalAttention

X, Y = np.array([[0.0], [3.0], [9.0]]), np.array([100.0, 120.0, 90.0])


def model(units: FixedUnits | None = None) -> ndp.NDP:
    torch.manual_seed(0)
    network = BiDimensionalAttention(width=16, heads=2, blocks=1, level_width=8, inputs="fourier")
    torch.nn.init.normal_(network.out.weight, std=0.1)
    return ndp.NDP(
        network.requires_grad_(False),
        noise_floor=0.05,
        input_dims=[1],
        units=units,
        trained_ratios=(0.01, 60.0),
        about={"trained_on": "nothing"},
    )


def draws(of: ndp.NDP, x: np.ndarray = X, y: np.ndarray = Y) -> np.ndarray:
    at = np.array([[1.0], [5.0]])
    return of.condition(x, y).sample(at, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model(FixedUnits((5.0,), (2.5,), (100.0,), (15.0,))).save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_a_saved_model_draws_the_same_functions(folder: Path) -> None:
    expected = draws(model(FixedUnits((5.0,), (2.5,), (100.0,), (15.0,))))
    for again in (ndp.load(str(folder)), ndp.NDP.from_pretrained(str(folder))):
        assert isinstance(again, ndp.NDP)
        np.testing.assert_array_equal(draws(again), expected)
        assert again.about == {"trained_on": "nothing"}
        assert again.trained_ratios == (0.01, 60.0)
        assert again.input_dims == (1,)


def test_half_precision_takes_half_the_space_and_draws_nearly_the_same(folder: Path, tmp_path: Path) -> None:
    whole = read_model(folder)
    write_model(whole, tmp_path / "half", half=True)
    sizes = [(path / "model.safetensors").stat().st_size for path in (tmp_path / "half", folder)]
    assert sizes[0] < 0.6 * sizes[1], "half of the numbers; their names take the rest"
    assert json.loads((tmp_path / "half" / "config.json").read_text())["stored_as"] == "float16"
    for again in (ndp.load(str(tmp_path / "half")), ndp.NDP.from_pretrained(str(tmp_path / "half"))):
        assert isinstance(again, ndp.NDP)
        assert again.dtype == torch.float32
        np.testing.assert_allclose(draws(again), draws(whole), atol=0.01 * 15)  # the unit of y is 15
    damage_weights(tmp_path / "half")
    with pytest.raises(ValueError, match="is damaged or was changed"):
        read_model(tmp_path / "half")


def test_what_does_not_fit_into_half_precision_is_refused(tmp_path: Path) -> None:
    large = model()
    large.network.out.weight[0, 0] = 1e6  # type: ignore[union-attr, index]
    with pytest.raises(ValueError, match=r"out.weight holds numbers too large for half precision"):
        write_model(large, tmp_path / "half", half=True)
    assert not (tmp_path / "half").exists()


def test_there_is_no_pickle_in_a_saved_model(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {"model.safetensors", "config.json"} <= names
    assert all(not path.read_bytes().startswith((b"\x80", b"PK")) for path in folder.iterdir())


def test_a_scaled_model_speaks_the_users_units() -> None:
    """Draws, moments and densities in the user's units are the plain model's, moved and stretched."""
    units = FixedUnits((5.0,), (2.5,), (100.0,), (15.0,))
    plain, scaled = model(), model(units)
    at, values = np.array([[1.0], [5.0]]), np.array([95.0, 105.0])
    x, y = (X - 5) / 2.5, (Y - 100) / 15
    inner, outer = plain.condition(x, y, noise=0.2), scaled.condition(X, Y, noise=3.0)
    noise = np.random.default_rng(0).normal(size=(4, 2))
    np.testing.assert_allclose(
        outer.sample(at, 4, base_noise=noise), 100 + 15 * inner.sample((at - 5) / 2.5, 4, base_noise=noise), rtol=1e-5
    )
    np.testing.assert_allclose(outer.moments(at).std, 15 * inner.moments((at - 5) / 2.5).std, rtol=1e-4)
    np.testing.assert_allclose(
        outer.log_prob(at, values), inner.log_prob((at - 5) / 2.5, (values - 100) / 15) - 2 * np.log(15), rtol=1e-4
    )
    prior = scaled.sample(at, 2, generator=torch.Generator().manual_seed(0))
    inner_prior = plain.sample((at - 5) / 2.5, 2, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(prior, 100 + 15 * inner_prior, rtol=1e-5)
    repainted = scaled.repaint(X, Y).log_prob(at, values)
    np.testing.assert_allclose(
        repainted, plain.repaint(x, y).log_prob((at - 5) / 2.5, (values - 100) / 15) - 2 * np.log(15), rtol=1e-3
    )


def damage_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def truncate_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def change_config(**changes: object):
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_weights, "is damaged or was changed"),
        (truncate_weights, "is damaged or was changed"),
        (lambda folder: (folder / "model.safetensors").unlink(), "there is no"),
        (lambda folder: (folder / "config.json").unlink(), "holds no model"),
        (lambda folder: (folder / "config.json").write_text("{"), "is not JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), "is not the configuration of a model"),
        (change_config(schema=99), "newer version of ndp .schema 99, this one reads 1"),
        (change_config(network={"kind": "bidimensional", "width": 32}), "does not fit its configuration"),
        (change_config(network={"kind": "unheard"}), "does not fit its configuration"),
    ],
)
def test_a_model_that_cannot_be_trusted_is_refused(folder: Path, damage, message: str) -> None:
    damage(folder)
    with pytest.raises(ValueError, match=message):
        read_model(folder)


def test_an_oracle_has_nothing_to_save(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no weights to save"):
        ndp.load("oracle-se").save_pretrained(tmp_path / "oracle")


def test_names_that_are_nothing_are_told_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"no model and no folder named 'nothing'; the models are: .*gp-se"):
        ndp.load("nothing")


def test_a_hub_id_without_a_network_is_told_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="the hub cannot be reached"):
        ndp.load("nobody/nothing")
