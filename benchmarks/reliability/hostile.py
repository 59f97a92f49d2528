"""Configurations that mean harm, tried in a process of their own: `python -m benchmarks.reliability.hostile`.

Reads a folder and a configuration from each line. Prints what `ndp.load` said, its seconds of computing, and its memory.
"""

import json
import re
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIZES = (0, -1, 20_000, 10**6, 10**12, 10**400, "64", 2.5, None, True, [64], {}, float("nan"))
WORDS = ("guess", 3, None, [], {})
SWITCHES = ("yes", 1, None, [])
NUMBERS = (-1, "x", float("nan"), float("inf"), None, [], True)
ADDRESS_SPACE = 8 * 2**30  # a bomb that is not refused fails here, and not in the machine's other work

LONGEST = 5  # seconds of a bomb that is not refused

# Settings, and values that they cannot have, for each kind of model.
NETWORKS: dict[str, dict[str, tuple[Any, ...]]] = {
    "bidimensional": {
        **dict.fromkeys(("width", "heads", "blocks", "level_width", "num_outputs"), SIZES),
        "ordered_dims": (-1, 10**6, "2", None),
        **dict.fromkeys(("local_density", "separates_noise", "input_count", "experts"), SWITCHES),
        **dict.fromkeys(("attention", "inputs", "context", "kind"), WORDS),
        "breadth": (3,),
    },
    "joint": {
        **dict.fromkeys(("width", "blocks"), (0, 20_000, 16_384, 10**6, "64")),
        "anchor_points": (-1, 10**6, 10**12, "64", None),
        "rotary": SWITCHES,
        "kind": ("bidimensional", "image"),
    },
    "image": {
        **dict.fromkeys(("width", "blocks", "dims", "expansion"), (0, 20_000, 16_384, 10**9, "64")),
        "kind": ("bidimensional", "joint"),
    },
    "gnp": {
        **dict.fromkeys(
            ("width", "dim_embedding", "num_basis_functions", "num_dec_layers"), (0, 4096, 20_000, 10**6, "9")
        ),
        "likelihood": ("guess", {}),
        "breadth": (3,),
        "dim_yc": ([4000] * 30, 10**9),
    },
    "convcnp": {
        "points_per_unit": (0, 4096.0, 10**9, 1e300, "64", None),
        "margin": (-1.0, 4000.0, 1e300, float("nan"), []),
        "unet_channels": ([4096] * 6, [8] * 30, [8] * 1000, 8, "8"),
        "unet_strides": (256, 10**9, [9] * 9, "2"),
    },
}
MODEL: dict[str, tuple[Any, ...]] = {
    "network": (3, [], "x", None, {}),
    "prediction": WORDS,
    "noise_floor": NUMBERS,
    "trained_ratios": ([1], 3, "ab", [1, "a"], [2, 1], [0, 1], [1, float("nan")], [1, 2, 3], None, {}),
    "num_outputs": (*SIZES, 2),
    "input_dims": (0, "1", [0], [-1], ["1"], [1.5], [], [True], {}),
    "units": (3, [], "x", {"by": "guess"}, {"x_shift": [0.0]}, {}),
    "about": (3, [], "x", {"recipe": []}),
    "process": (3, [], "x", None, "joint", "neural_process"),
    "schema": (0, -1, "1", 99, None, True, 1.5, 10**400),
    "weights_sha256": ("", 3, None, "0" * 64),
}
TEXTS = (
    b"",
    b"{",
    b"[]",
    b"3",
    b"null",
    b"\xff\xfe{}",
    b"{'schema': 1}",
    b"[" * 10**6,
    b'{"schema": ' * 50_000,
    b'{"schema": 1, "about": ' + b"[" * 10**5 + b"]" * 10**5 + b"}",
    b'{"schema": ' + b"1" * 10**6 + b"}",
    b" " * 2**21 + b"{}",
    b'{"schema": 1, "about": [' + b"[]," * 10**6 + b"[]]}",
)


def configurations(kind: str, good: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """What to try on a model of this kind: a name, and the text of its config.json."""
    networks = kind in ("bidimensional", "joint", "image")
    for setting, values in NETWORKS[kind].items():
        for value in values:
            inner = {setting: value}
            network = good["network"] | (inner if networks else {"options": good["network"]["options"] | inner})
            yield f"{kind}, {setting} = {str(value)[:20]}", _text(good | {"network": network})
    if not networks:
        for dim in (0, 2, 10**9, "1", True, None):
            yield f"{kind}, dim = {dim}", _text(good | {"network": good["network"] | {"dim": dim}})
    if kind == "bidimensional":
        for setting, values in MODEL.items():
            for value in values:
                yield f"{setting} = {str(value)[:20]}", _text(good | {setting: value})
            if setting != "process":  # a model of the first release has none
                yield f"no {setting}", _text({name: value for name, value in good.items() if name != setting})
        for text in TEXTS:
            yield f"text {text[:20]!r} of {len(text)} bytes", text


def _text(config: dict[str, Any]) -> bytes:
    return json.dumps(config).encode()


def memory() -> int:
    """The most memory that this process has had, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says of a child begins with the memory of its parent
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) * 1024  # type: ignore[index]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _too_long(number: int, frame: Any) -> None:
    raise TimeoutError(f"not refused in {LONGEST} s")


def main() -> None:
    """Try each line of the input: a JSON list of a folder and a file that takes the place of its config.json."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    signal.signal(signal.SIGALRM, _too_long)
    import ndp

    loaded: set[str] = set()
    for line in sys.stdin:
        folder, text = json.loads(line)
        if folder not in loaded:  # what is imported and made once is no part of an attempt
            ndp.load(folder)
            loaded.add(folder)
            base = memory()
        place = Path(folder) / "config.json"
        good = place.read_bytes()
        place.write_bytes(Path(text).read_bytes())
        before, start = memory(), time.process_time()
        signal.alarm(LONGEST)
        try:
            ndp.load(folder)
            said: list[str] = ["loaded", ""]
        except Exception as error:
            said = [type(error).__name__, str(error)]
        signal.alarm(0)
        seconds = time.process_time() - start
        place.write_bytes(good)
        grown = memory() - base if memory() > before else 0  # the most so far may be that of another attempt
        print(json.dumps([*said, seconds, grown]), flush=True)


if __name__ == "__main__":
    main()
