"""Training runs: kills and resumes, divergence, damaged states, logs and recipes, and starts that fail."""

import io
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any, get_type_hints

import safetensors.torch
import torch
from lightning_fabric import Fabric
from rich.console import Console
from safetensors import safe_open

from benchmarks.reliability.attempts import Attempt, Sizes, bad_message, is_refused
from ndp.training.build import make_model, make_sources
from ndp.training.config import Recipe
from ndp.training.loop import Progress, fit
from ndp.training.run import prepare, train
from ndp.training.run_folder import RunFolder, TrainingState

KILLS, STOPS, DIVERGING, BITS, STATES, LOGS, WRONG_TYPES, STARTS = 20, 10, 24, 160, 40, 24, 150, 24
CPU = torch.device("cpu")
STEPS, SAVE_EVERY, REPORT_EVERY = 60, 4, 5
NETWORK = {"width": 16, "heads": 2, "blocks": 1, "level_width": 8}
SETTINGS: dict[str, Any] = {
    "prior": "se",
    "steps": STEPS,
    "batch": 2,
    "warmup": 5,
    "network": NETWORK,
    "most_context": 8,
}


def attempts(sizes: Sizes, folder: Path) -> Iterator[Attempt]:
    """Every attempt on training runs."""
    rng = Random(sizes.seed)
    good = Good(folder / "good")
    for number in range(sizes.of(KILLS)):
        yield Attempt(f"kill {number}", partial(_kill, folder / f"kill-{number}", rng.random()))
    for number in range(sizes.of(STOPS)):
        yield Attempt(f"stop {number}", partial(_stop, folder / f"stop-{number}", rng.randint(1, STEPS - 1)))
    for number in range(sizes.of(DIVERGING)):
        yield Attempt(
            f"divergence {number}", partial(_diverge, good, folder / f"diverging-{number}", rng.randint(1, 40))
        )
    for number in range(sizes.of(BITS)):
        yield Attempt(f"bit {number} of a state flipped", partial(_flip, good, folder / "flipped", rng.random()))
    for number in range(sizes.of(STATES)):
        how = list(CHANGES)[number % len(CHANGES)]
        yield Attempt(f"state with a {how}", partial(_change, good, folder / "changed", how, rng.random()))
    for number in range(sizes.of(LOGS)):
        yield Attempt(
            f"log {number} damaged", partial(_damage_log, good, folder / f"log-{number}", rng.randrange(2**32))
        )
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


def run(plan: Recipe, folder: RunFolder, **options: Any) -> dict[str, torch.Tensor]:
    """The weights after training, or after going on with it."""

    def report(progress: Progress) -> None:
        folder.log(progress.step, progress.loss, progress.learning_rate, progress.seconds)

    model = make_model(plan)
    usual = {"save_every": SAVE_EVERY, "report_every": REPORT_EVERY, "report": report}
    fit(
        model,
        make_sources(plan, CPU),
        plan,
        folder=folder,
        fabric=Fabric(accelerator="cpu", devices=1),
        **(usual | options),
    )
    return dict(model.network.state_dict())  # type: ignore[union-attr]


@cache
def _left_alone(steps: int = STEPS) -> tuple[dict[str, torch.Tensor], float]:
    """The weights of a run that nothing happened to, and its seconds."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        start = time.perf_counter()
        plan = recipe(steps=steps)
        return run(plan, RunFolder.create(Path(place) / "run", plan)), time.perf_counter() - start


def _differs(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> str | None:
    other = [name for name, weight in expected.items() if not torch.equal(weight, found[name])]
    return f"{len(other)} weights differ from those of a run that was left alone" if other else None


def _bad_log(folder: RunFolder, steps: int = STEPS) -> str | None:
    """None for a log that has each reported step once, and nothing else."""
    lines = (folder.path / "log.csv").read_text().splitlines()
    found = [line.split(",")[0] for line in lines[1:]]
    expected = [str(step) for step in range(REPORT_EVERY, steps + 1, REPORT_EVERY)]
    return None if found == expected else f"the log has the steps {found[:20]}"


@dataclass
class Good:
    """A run of half of its steps, made by the first attempt that needs it."""

    path: Path
    half: int = STEPS // 2
    _made: bool = field(default=False)

    def copy(self, to: Path) -> RunFolder:
        """The same run in another folder."""
        if not self._made:
            plan = recipe(steps=self.half)
            run(plan, RunFolder.create(self.path, plan))
            RunFolder(self.path).write_recipe(recipe())
            self._made = True
        copytree(self.path, to, dirs_exist_ok=True)
        return RunFolder(to)


def _kill(path: Path, share: float) -> str | None:
    """SIGKILL at some moment of the run, or after it; what is left goes on to the same bits."""
    expected, seconds = _left_alone()
    folder = RunFolder.create(path, recipe())
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.reliability.runs", str(path), str(torch.get_num_threads())]
    )
    while not (path / "log.csv").exists() and process.poll() is None:
        time.sleep(0.001)
    time.sleep(share * seconds)
    process.kill()
    if process.wait() not in (0, -signal.SIGKILL):
        return f"the run ended with exit status {process.returncode}"
    wrong = _differs(run(folder.recipe(), folder), expected) or _bad_log(folder)
    left = [item.name for item in path.glob(".*")]
    return wrong or (f"unfinished files are left: {left[:3]}" if left else None)


class StopError(Exception):
    """Stops a run in the middle."""


def _stop(path: Path, step: int) -> str | None:
    """An error of something else in the middle of a run."""

    def stop(progress: Progress) -> None:
        if progress.step == step:
            raise StopError

    folder = RunFolder.create(path, recipe())
    try:
        run(recipe(), folder, report=stop, report_every=1)
    except StopError:
        pass
    else:
        return "the error was lost"
    return _differs(run(folder.recipe(), folder), _left_alone()[0])


def _diverge(good: Good, path: Path, report_every: int) -> str | None:
    """A run whose rate is far too high keeps its last good state, and says where it is and what to do."""
    folder = good.copy(path)
    before = (path / "state.safetensors").read_bytes()
    plan = recipe(learning_rate=1e30, warmup=0, clip=math.inf)
    wrong = is_refused(
        partial(run, plan, folder, report_every=report_every),
        f"step {good.half} is kept",
        f"--resume {path} --learning-rate 5e+29",
        errors=(FloatingPointError,),
    )
    changed = (path / "state.safetensors").read_bytes() != before
    return wrong or ("the last good state was replaced" if changed else None)


def _same(first: TrainingState, second: TrainingState) -> bool:
    return first.digest() == second.digest()


def _flip(good: Good, path: Path, where: float) -> str | None:
    """One bit of a state is another: it is refused, or it is the same state."""
    folder = good.copy(path)
    file = path / "state.safetensors"
    content = bytearray(file.read_bytes())
    bit = int(where * len(content) * 8)
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    try:
        found = folder.load_state(CPU)
    except ValueError as error:
        return bad_message(str(error), "cannot be resumed")
    expected = RunFolder(good.path).load_state(CPU)
    assert expected is not None
    return None if found is not None and _same(found, expected) else "resumes from another state without a word"


Change = Callable[[dict[str, torch.Tensor], dict[str, str], str], None]


def _missing(tensors: dict[str, torch.Tensor], about: dict[str, str], name: str) -> None:
    del tensors[name]


def _renamed(tensors: dict[str, torch.Tensor], about: dict[str, str], name: str) -> None:
    tensors[f"{name}_"] = tensors.pop(name)


def _of_new_shape(tensors: dict[str, torch.Tensor], about: dict[str, str], name: str) -> None:
    tensors[name] = tensors[name][None].contiguous()


def _of_new_type(tensors: dict[str, torch.Tensor], about: dict[str, str], name: str) -> None:
    tensors[name] = tensors[name].double()


def _added(tensors: dict[str, torch.Tensor], about: dict[str, str], name: str) -> None:
    tensors["weight/another"] = tensors[name].clone()


def _of_step(tensors: dict[str, torch.Tensor], about: dict[str, str], name: str) -> None:
    about["step"] = "99999"


# What is changed, and whether the checksum is that of the changed state.
CHANGES: dict[str, tuple[Change, bool]] = {
    "missing tensor": (_missing, True),
    "renamed tensor": (_renamed, True),
    "tensor of a new shape": (_of_new_shape, True),
    "tensor of a new type": (_of_new_type, True),
    "tensor too many": (_added, True),
    "missing tensor and an old checksum": (_missing, False),
    "step of 99999": (_of_step, False),
}


def _change(good: Good, path: Path, how: str, where: float) -> str | None:
    """A state that is not the network's: it is refused, and left as it is."""
    folder = good.copy(path)
    file = path / "state.safetensors"
    with safe_open(file, framework="pt") as opened:
        about = dict(opened.metadata())
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    change, signed = CHANGES[how]
    change(tensors, about, sorted(tensors)[int(where * len(tensors))])
    if signed:
        about["sha256"] = TrainingState(int(about["step"]), float(about["seconds"]), tensors).digest()
    safetensors.torch.save_file(tensors, file, metadata=about)
    before = file.read_bytes()
    wrong = is_refused(partial(run, recipe(), folder), "of another network" if signed else "cannot be resumed")
    return wrong or ("the state was replaced" if file.read_bytes() != before else None)


NONSENSE = (
    *("", "  ", "x,1", "7", ",,,,,,", "-5,1,1,1,", "999,1,1,1,", "²,1,1,1,"),
    *('"', "\0\0", "9" * 5000 + ",1,1,1,", "é" * 200_000),
)


def _damage_log(good: Good, path: Path, seed: int) -> str | None:
    """Lines of nonsense, blank lines and later steps in the log: the run goes on, and its log is whole again."""
    rng = Random(seed)
    folder = good.copy(path)
    file = path / "log.csv"
    lines = file.read_text().split("\n")
    for one in rng.sample(NONSENSE, 4):
        lines.insert(rng.randint(1, len(lines)), one)
    file.write_text("\n".join(lines))
    return _differs(run(folder.recipe(), folder), _left_alone_from_half()) or _bad_log(folder)


@cache
def _left_alone_from_half() -> dict[str, torch.Tensor]:
    """The weights of a run of half of the steps that went on to all of them."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        folder = Good(Path(place) / "half").copy(Path(place) / "whole")
        return run(recipe(), folder)


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


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[2]))
    run(recipe(), RunFolder(Path(sys.argv[1])))
