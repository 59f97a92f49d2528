"""Training runs: kills and resumes, divergence, damaged states and logs, and the attempts on recipes."""

import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import safetensors.torch
import torch
from lightning_fabric import Fabric
from safetensors import safe_open

from benchmarks.reliability import recipes
from benchmarks.reliability.attempts import Attempt, Sizes, bad_message, is_refused
from benchmarks.reliability.recipes import SAVE_EVERY, STEPS, recipe
from ndp.training.build import make_model, make_sources
from ndp.training.config import Recipe
from ndp.training.loop import Progress, fit
from ndp.training.run_folder import RunFolder, TrainingState

KILLS, STOPS, DIVERGING, BITS, STATES, LOGS = 20, 10, 24, 160, 40, 24
CPU = torch.device("cpu")
REPORT_EVERY = 5


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
    yield from recipes.attempts(sizes, folder, rng)


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


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[2]))
    run(recipe(), RunFolder(Path(sys.argv[1])))
