"""The names at the top of the package, and those of the first release."""

import pickle
import re
from importlib import import_module
from pathlib import Path

import pytest

import ndp
from ndp.core import old_names

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ndp.__all__)
def test_every_public_name_is_there(name: str) -> None:
    public = getattr(ndp, name)
    assert getattr(import_module(public.__module__), public.__name__) is public


def test_types_and_names_agree() -> None:
    text = (ROOT / "src" / "ndp" / "__init__.py").read_text()
    for_types = re.findall(r"    from ([\w.]+) import (\w+) as \w+", text)
    assert {name: module for module, name in for_types} == ndp._HOME


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="module 'ndp' has no attribute 'NPD'"):
        ndp.NPD  # noqa: B018
    with pytest.raises(ImportError):
        import_module("ndp.unknown")


def test_the_joint_ndp_of_the_first_release_is_an_ndp() -> None:
    with pytest.warns(DeprecationWarning, match=r"ndp\.JointNDP is deprecated: use ndp\.NDP"):
        assert ndp.JointNDP is ndp.NDP


@pytest.mark.parametrize(("old", "home"), old_names._MODULES.items())
def test_old_modules_warn_and_forward(old: str, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} is deprecated: use {home}"):
        module = import_module(old)
    now = import_module(home)
    for name in vars(now):
        if not name.startswith("_"):
            assert getattr(module, name) is getattr(now, name)
    with pytest.raises(AttributeError, match="has no attribute"):
        module.nothing_of_this_name  # noqa: B018


@pytest.mark.parametrize(
    ("module", "old", "now"),
    [
        ("ndp.models", "minima_gp", "ndp.gp.named"),
        ("ndp.models", "load", "ndp"),
        ("ndp.gp", "GP", "ndp"),
        ("ndp.scaling", "Scaling", "ndp.core.units"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_names_are_the_new_ones(module: str, old: str, now: str) -> None:
    renamed = old_names._RENAMED.get(old, old)
    assert getattr(import_module(module), old) is getattr(import_module(now), renamed)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_pickle_of_the_first_release_finds_its_class() -> None:
    units = ndp.FixedUnits((0.0,), (1.0,), (2.0,), (3.0,))
    old = pickle.dumps(units).replace(b"ndp.core.units", b"ndp.scaling").replace(b"FixedUnits", b"Scaling")
    old = old.replace(b"\x8c\x0endp.scaling", b"\x8c\x0bndp.scaling").replace(b"\x8c\nScaling", b"\x8c\x07Scaling")
    assert pickle.loads(_without_frames(old)) == units


def _without_frames(pickled: bytes) -> bytes:
    """The sizes of frames do not fit any more, and are optional."""
    return re.sub(rb"\x95.{8}", b"", pickled, count=1, flags=re.DOTALL)
