"""Model folders: flipped bits, hostile configurations, damaged weights, and a writer beside a reader."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import safetensors.torch
import torch

from benchmarks.reliability.attempts import Attempt, Sizes, bad_message, is_refused
from benchmarks.reliability.hostile import configurations
from ndp.core.units import FixedUnits
from ndp.models.registry import TrainedModel, load, write_model
from ndp.networks.registry import make_network
from ndp.processes.ndp import NDP
from ndp.processes.neural_process import NeuralProcess

FLIPS, HOSTILE, LOADS, NOT_FINITE, DAMAGED = 260, 300, 300, 60, 60
SECONDS, BYTES = 1.0, 200e6  # in which each hostile configuration is refused
SMALL = {"width": 16, "heads": 2, "blocks": 1, "level_width": 8}


def attempts(sizes: Sizes, folder: Path) -> Iterator[Attempt]:
    """Every attempt on the loading of models."""
    rng = Random(sizes.seed)
    made = {kind: folder / kind for kind in _kinds()}
    for kind, place in made.items():
        write_model(small_model(kind), place)
    good = made["bidimensional"]
    for number in range(sizes.of(FLIPS)):
        name = ("config.json", "model.safetensors")[number % 2]
        yield Attempt(f"bit {number} of {name} flipped", partial(_flip, good, folder / "flipped", name, rng.random()))
    yield from _hostile(sizes, folder, made, rng)
    for number in range(sizes.of(NOT_FINITE)):
        value = ("nan", "inf", "-inf")[number % 3]
        yield Attempt(
            f"a weight of {value}", partial(_not_finite, good, folder / "not-finite", float(value), rng.random())
        )
    for number in range(sizes.of(DAMAGED)):
        how = DAMAGES[number % len(DAMAGES)]
        yield Attempt(f"weights with a {how}", partial(_damaged, good, folder / "damaged", how, rng.random()))
    writer = Writer(folder / "rewritten", left=sizes.of(LOADS))
    for number in range(sizes.of(LOADS)):
        yield Attempt(f"load {number} beside a writer", writer.load_beside)


def small_model(kind: str, bias: float = 0.5) -> TrainedModel:
    """A model of random weights, of one of the kinds that a folder may hold."""
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(0)
    try:
        if kind in ("gnp", "convcnp"):
            plain = {"width": 16, "dim_embedding": 16, "num_dec_layers": 2, "num_basis_functions": 8}
            return NeuralProcess(
                kind, 1, options=plain if kind == "gnp" else {"points_per_unit": 8, "unet_channels": [8, 8]}
            )
        network = make_network(kind=kind, **SMALL)
        torch.nn.init.constant_(network.out.bias, bias)
        units = FixedUnits((5.0,), (2.5,), (100.0,), (bias,)) if kind == "bidimensional" else None
        dims = [2] if kind == "image" else [1]
        return NDP(network.requires_grad_(False), noise_floor=bias / 10, input_dims=dims, units=units)
    finally:
        torch.random.set_rng_state(torch_state)


def _kinds() -> tuple[str, ...]:
    of_package = ("gnp", "convcnp") if find_spec("neuralprocesses") else ()
    return ("bidimensional", "joint", "image", *of_package)


def _fresh(good: Path, place: Path) -> Path:
    copytree(good, place, dirs_exist_ok=True)
    return place


def _flip(good: Path, place: Path, name: str, where: float) -> str | None:
    """One bit is another: the model is refused, or it is the same model."""
    file = _fresh(good, place) / name
    content = bytearray(file.read_bytes())
    bit = int(where * len(content) * 8)
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    try:
        found = load(place)
    except ValueError as error:
        return bad_message(str(error))
    return None if _same(found, load(good)) else "loads another model without a word"


def _same(first: Any, second: Any) -> bool:
    weights = first.network.state_dict(), second.network.state_dict()
    equal = all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
    return equal and first.config() == second.config()


def _rewrite(place: Path, weights: bytes) -> None:
    """New weights, with the digest that they need."""
    (place / "model.safetensors").write_bytes(weights)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"weights_sha256": hashlib.sha256(weights).hexdigest()}))


def _not_finite(good: Path, place: Path, value: float, where: float) -> str | None:
    _fresh(good, place)
    tensors = safetensors.torch.load((good / "model.safetensors").read_bytes())
    name = sorted(tensors)[int(where * len(tensors))]
    tensors[name].view(-1)[int(where * tensors[name].numel())] = value
    _rewrite(place, safetensors.torch.save(tensors))
    return is_refused(partial(load, place), name, "NaN or infinity")


DAMAGES = ("missing tensor", "renamed tensor", "new shape", "whole numbers", "cut end", "broken header")


def _damaged(good: Path, place: Path, how: str, where: float) -> str | None:
    """Weights that are not those of the configuration, though their digest is."""
    _fresh(good, place)
    content = (good / "model.safetensors").read_bytes()
    tensors = safetensors.torch.load(content)
    name = sorted(tensors)[int(where * len(tensors))]
    words = (name,)
    match how:
        case "missing tensor":
            del tensors[name]
        case "renamed tensor":
            tensors[f"{name}_"] = tensors.pop(name)
        case "new shape":
            tensors[name] = tensors[name][None]
        case "whole numbers":
            tensors[name] = tensors[name].to(torch.int32)
    content = safetensors.torch.save(tensors)
    if how in ("cut end", "broken header"):
        at, words = int(where * len(content)), ()
        content = content[:at] if how == "cut end" else bytes([content[0] ^ 255]) + content[1:]
    _rewrite(place, content)
    return is_refused(partial(load, place), "does not fit its configuration", *words)


def _hostile(sizes: Sizes, folder: Path, made: dict[str, Path], rng: Random) -> Iterator[Attempt]:
    """Configurations that are wrong, or would fill the machine."""
    every: list[tuple[str, Path, bytes]] = []
    for kind, place in made.items():
        good = json.loads((place / "config.json").read_text())
        every += [(name, place, text) for name, text in configurations(kind, good)]
    chosen = rng.sample(every, min(sizes.of(HOSTILE), len(every)))
    child = Child(folder / "hostile", [(place, text) for _, place, text in chosen])
    for number, (name, _, _) in enumerate(chosen):
        yield Attempt(f"configuration: {name}", partial(child.held, number))


@dataclass
class Child:
    """A process that tries configurations one after another; it is started by the first question about one."""

    folder: Path
    tries: list[tuple[Path, bytes]]
    _answers: list[list[Any]] | None = None

    def held(self, number: int) -> str | None:
        """None if a configuration was refused in one sentence, in little time and memory."""
        if self._answers is None:
            self._answers = self._run()
        if number >= len(self._answers):
            return "the process did not survive this configuration, or one before it"
        kind, message, seconds, memory = self._answers[number]
        if kind not in ("ValueError", "ModelNotFoundError"):
            return f"{kind}: {message[:200]}"
        if seconds > SECONDS or memory > BYTES:
            return f"is refused after {seconds:.1f} s and {memory / 1e6:.0f} MB"
        return bad_message(message)

    def _run(self) -> list[list[Any]]:
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for number, (place, text) in enumerate(self.tries):
            file = self.folder / f"{number}.json"
            file.write_bytes(text)
            lines.append(json.dumps([str(place), str(file)]))
        command = [sys.executable, "-m", "benchmarks.reliability.hostile"]
        text, limit = "\n".join(lines), 60 + 6 * len(lines)
        try:
            done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, timeout=limit)
        except subprocess.TimeoutExpired as late:
            return [json.loads(line) for line in (late.stdout or b"").decode().splitlines()]
        return [json.loads(line) for line in done.stdout.splitlines()]


@dataclass
class Writer:
    """A process that writes two models into one folder, in turn, until the last load beside it."""

    folder: Path
    left: int
    _process: subprocess.Popen[str] | None = field(default=None)

    def load_beside(self) -> str | None:
        """None if the model that is loaded has the weights and the settings of one of the two."""
        if self._process is None:
            write_model(two_models()[0], self.folder)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.reliability.checkpoints", str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert self._process.stdout is not None
            self._process.stdout.readline()  # it has begun
        try:
            found: Any = load(self.folder)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
        finally:
            self.left -= 1
            if not self.left:
                self._stop()
        return None if any(_same(found, model) for model in two_models()) else "loads a mixture of two models"

    def _stop(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError("the writer ended before the last load")
        self._process.communicate()  # closes its input, which ends it


def two_models() -> tuple[TrainedModel, TrainedModel]:
    """Two models of equal shapes, so that a mixture of them would load."""
    return small_model("bidimensional", 0.5), small_model("bidimensional", 2.0)


def write_in_turn(folder: Path) -> None:
    """Write two models into a folder, in turn, until the standard input ends."""
    from threading import Thread

    reader = Thread(target=sys.stdin.read)
    reader.start()
    models = two_models()
    print("begun", flush=True)
    while reader.is_alive():
        for model in models:
            write_model(model, folder)


if __name__ == "__main__":
    write_in_turn(Path(sys.argv[1]))
