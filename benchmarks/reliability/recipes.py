"""The small recipe of the runs, recipes with wrong settings, and starts that fail."""

import io
import json
import math
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, get_type_hints

from rich.console import Console

from benchmarks.reliability.attempts import Attempt, Sizes, is_refused
from ndp.training.config import Recipe
from ndp.training.run import prepare, train
from ndp.training.run_folder import RunFolder

WRONG_TYPES, STARTS = 150, 24
STEPS, SAVE_EVERY = 60, 4
NETWORK = {"width": 16, "heads": 2, "blocks": 1, "level_width": 8}
SETTINGS: dict[str, Any] = {
    "prior": "se",
    "steps": STEPS,
    "batch": 2,
    "warmup": 5,
    "network": NETWORK,
    "most_context": 8,
}


def attempts(sizes: Sizes, folder: Path, rng: Random) -> Iterator[Attempt]:
    """Every attempt on recipes and on starts that fail."""
    types = list(wrong_types())
    for name, value in rng.sample(types, min(sizes.of(WRONG_TYPES), len(types))):
        for way in ("JSON", "TOML"):
            yield Attempt(
                f"recipe in {way}: {name} = {value!r}", partial(_wrong_type, folder / "types", way, name, value)
            )
    for number in range(sizes.of(STARTS)):
        how = list(FAILURES)[number % len(FAILURES)]
        yield Attempt(f"start with {how}", partial(_failed_start, folder / f"start-{number}", how))


def recipe(**changes: Any) -> Recipe:
    """A small recipe."""
    return Recipe.from_dict(SETTINGS | changes)


WRONG: dict[Any, tuple[Any, ...]] = {
    str: (3, 0.5, True, ["se"], {"a": 1}),
    bool: (1, 0.0, "yes", [True], {"a": 1}),
    int: ("1", 1.5, True, [1], {"a": 1}, -(10**30)),
    float: ("0.1", True, [0.1], {"a": 1}),
    tuple[int, ...]: (1, "1", [1.5], ["1"], [True], {"a": 1}, [0], []),
    tuple[float, float]: (1.0, "wide", {"mean": 1}, [1.0], [1.0, "2"], [0.0, -1.0], [1.0, 2.0, 3.0]),
    dict[str, Any]: (1, "width", [["width", 1]], True),
}


def wrong_types() -> Iterator[tuple[str, Any]]:
    """Every setting of a recipe, with values that it cannot have."""
    hints = get_type_hints(Recipe)
    for setting in fields(Recipe):
        for value in WRONG[hints[setting.name]]:
            yield setting.name, value


def _wrong_type(path: Path, way: str, name: str, value: Any) -> str | None:
    path.mkdir(parents=True, exist_ok=True)
    settings = {"prior": "se", name: value}
    if way == "JSON":
        (path / "recipe.json").write_text(json.dumps(settings))
        return is_refused(RunFolder(path).recipe, name)
    config, out = path / "recipe.toml", path / "run"
    config.write_text("".join(f"{key} = {_toml(one)}\n" for key, one in settings.items()))
    wrong = is_refused(lambda: start({}, out, config=config), name)
    return wrong or ("a folder is left" if out.exists() else None)


def _toml(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def start(settings: dict[str, Any], out: Path, config: Path | None = None, **changes: Any) -> None:
    """Start a run and train it, as `ndp train` does."""
    options: dict[str, Any] = {
        "resume": None,
        "overwrite": False,
        "device": "cpu",
        "devices": 1,
        "precision": "32-true",
    }
    prepared = prepare(settings, config=config, out=out, **(options | changes))
    train(prepared, console=Console(file=io.StringIO()), save_every=SAVE_EVERY)


# Settings of a start that fails, options of the command, and a word of the error.
FAILURES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a rate that diverges": ({"learning_rate": 1e30, "warmup": 0, "clip": math.inf}, {}, "lower learning rate"),
    "an unknown prior": ({"prior": "sea"}, {}, "no prior named"),
    "a table that is not there": ({"prior": "", "data": "nowhere.csv", "most_context": 0}, {}, "nowhere.csv"),
    "a width of zero": ({"network": NETWORK | {"width": 0}}, {}, "width"),
    "no heads": ({"network": NETWORK | {"heads": 0}}, {}, "heads"),
    "an unknown setting of the network": ({"network": NETWORK | {"breadth": 3}}, {}, "breadth"),
    "a model that is not there": ({"start": "univeral"}, {}, "universal"),
    "an unknown precision": ({}, {"precision": "8-bit"}, "8-bit"),
    "a recipe and a run to resume": ({}, {"resume": Path("run")}, "--resume"),
    "a schedule of one step": ({"schedule": 1}, {}, "schedule"),
}


def _failed_start(path: Path, how: str) -> str | None:
    """A start that fails leaves no folder, so that the next one can have it."""
    settings, changes, word = FAILURES[how]
    out = path / "run"
    small = SETTINGS | {"steps": 8}
    wrong = is_refused(lambda: start(small | settings, out, **changes), word, errors=(ValueError, FloatingPointError))
    if wrong or out.exists():
        return wrong or "the folder of a failed start is left"
    start(small, out)
    return None if (out / "model.safetensors").exists() else "the next start made no model"
