"""Models on disk: what is loaded is what was saved, or an error that says why not."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

import ndp
from ndp.core.io import checkpoint
from ndp.core.units import FixedUnits
from ndp.models.registry import read_model, write_model
from ndp.networks.bidimensional import BiDimensionalAttention
from ndp.networks.registry import make_network

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
        (change_config(network={"kind": "unheard"}), "there is no network named 'unheard'"),
        (change_config(network={"heads": 0}), "heads must be a whole number from 1 to 1,024, not 0"),
        (change_config(network={"level_width": 9}), "level_width must be even"),
        (change_config(noise_floor=-1.0), "noise_floor must be a standard deviation"),
        (change_config(noise_floor=float("nan")), "noise_floor must be a standard deviation, finite"),
        (change_config(trained_ratios=[1.0]), "trained_ratios must be two numbers, not"),
        (change_config(trained_ratios=[2.0, 1.0]), "trained_ratios must be positive and rise"),
        (change_config(num_outputs=2), "num_outputs is 2, and the network has 1"),
        (change_config(input_dims=[0]), "input_dims must be a list of whole numbers of at least 1"),
        (change_config(input_dims=[2]), "the units are those of 1 inputs, and the model is for"),
        (change_config(units={"by": "guess"}), "fixed units have x_shift, x_scale, y_shift, y_scale, and not: by"),
        (change_config(about={"recipe": []}), "about must hold settings by name"),
        (change_config(schema=0), "has schema 0, which no version of ndp wrote"),
        (change_config(noise_floor=0.04), "is damaged or was changed: its checksum does not match"),
        (change_config(prediction="eps"), "is damaged or was changed: its checksum does not match"),
        (change_config(process="joint"), "a model of inputs and values needs a joint network"),
        (change_config(process=["ndp"]), "is not the configuration of a model"),
        (change_config(process="gp"), "which this version of ndp does not know"),
        (lambda folder: (folder / "config.json").write_text("[" * 10**5), "is not JSON"),
        (lambda folder: (folder / "config.json").write_text("1" * 10**5), "is not JSON"),
        (lambda folder: (folder / "config.json").write_bytes(b"\xff"), "is not JSON"),
        (lambda folder: (folder / "config.json").write_text(" " * 2**20 + "{}"), "more than 1,048,576 bytes"),
    ],
)
def test_a_model_that_cannot_be_trusted_is_refused(folder: Path, damage, message: str) -> None:
    damage(folder)
    with pytest.raises(ValueError, match=message):
        read_model(folder)


def test_what_is_told_about_a_model_may_be_changed(folder: Path) -> None:
    change_config(about={"trained_on": "something"}, library="ndp 0.0.1")(folder)
    assert read_model(folder).about == {"trained_on": "something"}


def without(setting: str):
    def change(folder: Path) -> None:
        path = folder / "config.json"
        config = json.loads(path.read_text())
        del config[setting]
        path.write_text(json.dumps(config))

    return change


@pytest.mark.parametrize("setting", ["network", "prediction", "noise_floor", "input_dims", "about"])
def test_a_configuration_that_lacks_a_setting_is_refused(folder: Path, setting: str) -> None:
    without(setting)(folder)
    with pytest.raises(ValueError, match=f"lacks '{setting}'"):
        read_model(folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 16384}, r"embed.weight has shape \[16, 17\], and not \[16384, 16385\]"),
        ({"blocks": 128}, "the weights lack 'blocks.1.level.weight'"),
        ({"width": 20000}, "width must be a whole number from 1 to 16,384, not 20000"),
        ({"blocks": 10**6}, "blocks must be a whole number from 1 to 128, not 1000000"),
        ({"width": 10**400}, "width must be a whole number"),
        ({"kind": "image", "dims": 10**9}, "does not take these settings"),
    ],
)
def test_a_configuration_cannot_make_a_network_that_the_weights_do_not_fill(
    folder: Path, settings: dict[str, object], message: str
) -> None:
    network = json.loads((folder / "config.json").read_text())["network"]
    change_config(network=network | settings)(folder)
    start = time.perf_counter()
    with Allocations() as allocations, pytest.raises(ValueError, match=message):
        read_model(folder)
    assert allocations.largest < 1e6
    assert time.perf_counter() - start < 1


class Allocations(TorchFunctionMode):
    """The most numbers that one new tensor on the CPU has."""

    largest = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made.device.type == "cpu":
            self.largest = max(self.largest, made.numel())
        return made


def test_large_networks_are_seen_where_they_are_made() -> None:
    with Allocations() as allocations:
        BiDimensionalAttention(width=1024, heads=2, blocks=1)
    assert allocations.largest > 1e6


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_neither_saved_nor_loaded(
    folder: Path, number: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = model()
    bad.network.out.bias[0] = number  # type: ignore[union-attr, index]
    with pytest.raises(ValueError, match=r"out.bias holds NaN or infinity"):
        write_model(bad, tmp_path / "bad")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "check_finite", lambda weights: None)
        write_model(bad, tmp_path / "bad")
    with pytest.raises(ValueError, match=r"out.bias holds NaN or infinity; train the model again"):
        read_model(tmp_path / "bad")


def test_weights_whose_sum_overflows_are_numbers(tmp_path: Path) -> None:
    large = model()
    large.network.out.weight[0, :2] = 3e38  # type: ignore[union-attr, index]
    write_model(large, tmp_path / "large")
    assert isinstance(read_model(tmp_path / "large"), ndp.NDP)


def test_a_loaded_model_is_that_of_a_network_built_the_ordinary_way() -> None:
    """Bit for bit, constants included, and without a draw from the global generator."""
    before = torch.random.get_rng_state()
    loaded = ndp.load("universal")
    assert isinstance(loaded, ndp.NDP)
    built = make_network(**loaded.network.config)
    built.load_state_dict(loaded.network.state_dict())
    assert {name for name, _ in loaded.network.named_buffers()} == {name for name, _ in built.named_buffers()}
    for (name, ours), theirs in zip(loaded.network.named_buffers(), built.buffers(), strict=True):
        assert torch.equal(ours, theirs), name
    assert not any(p.requires_grad or p.is_meta for p in loaded.network.parameters())
    x, noise = np.linspace(-1, 1, 5), np.random.default_rng(0).normal(size=(2, 5))
    other = ndp.NDP(built.requires_grad_(False).eval(), units=loaded.units)
    draws = [one.condition(x, np.sin(x)).sample(x, 2, base_noise=noise) for one in (loaded, other)]
    np.testing.assert_array_equal(*draws)
    torch.random.set_rng_state(before)


def test_a_folder_that_is_rewritten_is_read_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights are of one model and the configuration of another, until the writer has written both."""
    other = model()
    torch.nn.init.ones_(other.network.out.bias)  # type: ignore[union-attr, arg-type]
    write_model(other, tmp_path / "other")
    (folder / "model.safetensors").write_bytes((tmp_path / "other" / "model.safetensors").read_bytes())

    def finish(seconds: float) -> None:
        (tmp_path / "other" / "config.json").replace(folder / "config.json")

    monkeypatch.setattr("time.sleep", finish)
    read = read_model(folder)
    assert isinstance(read, ndp.NDP)
    assert read.network.out.bias.item() == 1  # type: ignore[union-attr]
    assert read.units is None


def test_a_folder_by_its_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(ndp.load(folder), ndp.NDP)
    with pytest.raises(ValueError, match=r"there is no folder .*/saveb; did you mean saved\? .* has: saved"):
        ndp.load(folder.parent / "saveb")
    monkeypatch.chdir(folder.parent)
    assert isinstance(ndp.load("saved"), ndp.NDP)
    with pytest.raises(ValueError, match="there is no folder se"):
        ndp.load(Path("se"))


def test_a_mistyped_folder_is_not_asked_of_the_hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first part of the name is a folder; elsewhere the error says that the hub was asked."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(folder.parent.parent)
    with pytest.raises(ValueError, match=f"there is no folder {folder.parent.name}/m52; .* has: saved"):
        ndp.load(f"{folder.parent.name}/m52")
    with pytest.raises(ValueError, match="there is no folder runs/m52 here, so the hub was asked"):
        ndp.load("runs/m52")


def test_a_mistyped_name_is_told_the_closest() -> None:
    with pytest.raises(ValueError, match=r"named 'univeral'; did you mean universal[?] the models are: "):
        ndp.load("univeral")


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
