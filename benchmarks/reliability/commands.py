"""Hostile command lines: exit status 1 or 2, one line that says what is wrong, no traceback, and no file left.

Most run in this process. What a full disk, a missing package or a closed pipe does is tried in a process of its own; a limit of
the system on the size of files stands for a disk.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from benchmarks.reliability.attempts import Attempt, Sizes, bad_message
from benchmarks.reliability.tables import csv_bytes, parquet_bytes, png_bytes
from ndp.apps.cli import app

PROGRAM = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit, hidden, sys.argv = int(sys.argv[1]), sys.argv[2], ["ndp", *sys.argv[3:]]
if hidden:
    sys.modules[hidden] = None
import torch
from ndp.apps.cli import app
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
app()
"""
MOST_SECONDS = 120
ODD_NUMBERS = ["10" + "0" * 12, "9" * 30, "-1", "0", "nan", "1e3", "1;2", "", "2.5", "0x10"]
EXTRAS = {
    "fastapi": ("serve", "serve --no-open"),
    "uvicorn": ("serve", "serve --no-open"),
    "pyarrow": ("parquet", "train --data {in}/functions.parquet --out {out}/run --steps 1"),
    "datasets": ("datasets", "train --prior mnist --data-dir some/body --out {out}/run --steps 1"),
    "neuralprocesses": ("baselines", "train --prior se --model gnp --out {out}/run --steps 1"),
}
WRITERS = {
    "export": "export se {out}/model",
    "export in 16 bits": "export se {out}/model --half",
    "train": "train --prior se --batch 2 --steps 1 --device cpu --out {out}/run",
    "sample": "sample --model gp-se --at {in}/at.csv --draws 200 --out {out}/draws.csv",
    "sample with a picture": "sample --model gp-se --at {in}/at.csv --draws 2 --out {out}/draws.csv --plot {out}/plot.png",
    "predict": "predict {in}/train.csv --target y --at {in}/at.csv --out {out}/predictions.csv",
    "predict with a picture": "predict {in}/train.csv --target y --at {in}/at.csv --out {out}/p.csv --plot",
    "demo": "demo --draws 1 --steps 7 --out {out}/demo.png",
    "complete": "complete {in}/grey.png --draws 1 --steps 2 --out {out}/out.png",
}


def attempts(sizes: Sizes, folder: Path) -> Iterator[Attempt]:
    """Options out of range, wrong files and names, full disks, missing packages and a closed output."""
    given, out = folder / "in", folder / "out"
    for made in (given, out):
        made.mkdir(exist_ok=True)
    _write_inputs(given)
    rng = np.random.default_rng(sizes.seed)
    lines = [*_options_out_of_range(), *_wrong_names()]
    for i in rng.permutation(len(lines))[: sizes.of(len(lines))]:
        yield Attempt(f"ndp {lines[i]}", partial(_refused_here, lines[i], given, out))
    children = [
        *(
            Attempt(
                f"a full disk after {limit} bytes: {name}", partial(_refused_elsewhere, line, given, out, limit=limit)
            )
            for name, line in WRITERS.items()
            for limit in (1, 100)
        ),
        *(
            Attempt(
                f"without {hidden}: {line}",
                partial(_refused_elsewhere, line, given, out, hidden=hidden, word=f"[{extra}]"),
            )
            for hidden, (extra, line) in EXTRAS.items()
        ),
        Attempt("standard output is full", partial(_full_output, given)),
    ]
    yield from (children[i] for i in rng.permutation(len(children))[: sizes.of(len(children))])


def _write_inputs(folder: Path) -> None:
    """Files that are right, and files that are wrong."""
    from PIL import Image

    (folder / "train.csv").write_text("x1,y\n" + "".join(f"{i / 7:.3f},{i % 4}\n" for i in range(20)))
    (folder / "at.csv").write_text("x1\n0.1\n0.3\n")
    (folder / "at2.csv").write_text("x1,x2\n0.1,0.2\n")
    (folder / "words.csv").write_text("x1,y\nred,1\nblue,2\n")
    (folder / "ragged.csv").write_bytes(csv_bytes() + b"1,2\n")
    (folder / "empty.csv").write_bytes(b"")
    (folder / "settings.toml").write_text("steps = [1")
    (folder / "colour.png").write_bytes(png_bytes())
    (folder / "damaged.png").write_bytes(png_bytes()[:500])
    (folder / "functions.parquet").write_bytes(parquet_bytes())
    (folder / "a folder").mkdir(exist_ok=True)
    Image.fromarray(np.arange(784, dtype=np.uint8).reshape(28, 28)).save(folder / "grey.png")


def _options_out_of_range() -> list[str]:
    """Every option that takes a number, with numbers that it does not take."""
    commands = {
        "demo --out {out}/demo.png": ("draws", "steps", "seed"),
        "sample --model gp-se --at {in}/at.csv --out {out}/draws.csv": ("draws", "seed"),
        "complete {in}/grey.png --out {out}/out.png": ("draws", "steps", "size"),
        "evaluate se": ("tasks", "draws", "steps", "dim"),
        "train --prior se --device cpu --out {out}/run": ("steps", "batch", "devices", "dim", "seed"),
        "predict {in}/train.csv --target y --at {in}/at.csv --out {out}/p.csv": ("seed",),
        "serve --no-open": ("port",),
    }
    # Zero is a seed, the size of a model's own pictures; no text is no choice of dimensions.
    fine = {("seed", "0"), ("size", "0"), ("dim", "")}
    return [
        f"{command} --{option} '{number}'"
        for command, options in commands.items()
        for option in options
        for number in ODD_NUMBERS
        if (option, number) not in fine
    ]


def _wrong_names() -> list[str]:
    """Files, folders, columns and models that are not there, or are not what they should be."""
    wrong = [
        "{in}/nowhere.csv",
        "{in}/a folder",
        "{in}/empty.csv",
        "{in}/words.csv",
        "{in}/ragged.csv",
        "{in}/colour.png",
    ]
    nowhere = ["{in}/train.csv/p.csv", "{in}/a folder", "/proc/nowhere/p.csv", "/dev/full"]
    return [
        *(f"predict '{path}' --target y --at {{in}}/at.csv --out {{out}}/p.csv" for path in wrong),
        *(f"predict {{in}}/train.csv --target y --at '{path}' --out {{out}}/p.csv" for path in wrong),
        *(f"predict {{in}}/train.csv --target y --at {{in}}/at.csv --out '{path}'" for path in nowhere),
        *(f"sample --model gp-se --context '{path}' --at {{in}}/at.csv --out {{out}}/p.csv" for path in wrong),
        *(f"sample --model gp-se --at '{path}' --out {{out}}/p.csv" for path in wrong if "ragged" not in path),
        *(f"sample --model gp-se --at {{in}}/at.csv --out '{path}'" for path in nowhere),
        *(f"demo --context '{path}' --out {{out}}/demo.png" for path in wrong),
        *(f"complete '{path}' --out {{out}}/out.png" for path in [*wrong, "{in}/damaged.png"]),
        *(f"train --data '{path}' --out {{out}}/run" for path in [*wrong, "{in}/train.csv"]),
        *(
            f"train --config '{path}' --out {{out}}/run"
            for path in ["{in}/settings.toml", "{in}/at.csv", "{in}/nowhere"]
        ),
        *(f"train --resume '{path}'" for path in ["{in}/nowhere", "{in}/a folder"]),
        *(f"predict {{in}}/train.csv --target {name} --at {{in}}/at.csv" for name in ("z", "''", "x1")),
        *(
            f"predict {{in}}/train.csv --target y --at {{in}}/at.csv --model {name}"
            for name in ("se", "mnist", "joint", "gp-se")
        ),
        *(
            f"{command} nowhere"
            for command in ("evaluate", "nothing", "--nothing", "models", "sample --at {in}/at.csv --model")
        ),
        *(
            f"sample --model {name} --at {{in}}/at2.csv --plot {{out}}/p.png"
            for name in ("gp-se", "universal", "mnist")
        ),
        *(f"evaluate {name} --tasks 2 --draws 64" for name in ("mnist", "universal", "gp-se", "se --device tpu")),
        *(f"evaluate se --tasks 2 --draws 64 --shift {number}" for number in ("nan", "inf", "1e300", "1e20")),
        "sample --model gp-se --at {in}/at.csv --plot {out}/plot.exe",
        "predict {in}/train.csv --target y",
        "complete {in}/grey.png --mask nowhere",
        "complete {in}/grey.png --mask random:2",
        "complete {in}/grey.png --mask random:nan",
        "complete {in}/grey.png --model se",
        "complete {in}/grey.png --out {out}/p.exe",
        "export gp-se {out}/model",
        "export nowhere {out}/model",
        "export se {in}",
        "export se {in}/at.csv",
        "train --prior se",
        "train --prior nowhere --out {out}/run",
        "train --prior se --model nowhere --out {out}/run",
        "train --prior se --start nowhere --out {out}/run",
        "train --prior se --precision 8 --out {out}/run",
        "train --prior se --device tpu --out {out}/run",
        "train --prior mnist --out {out}/run",
        "train --prior mnist --data-dir {in} --out {out}/run",
        "train --prior se --out {in}",
        "train --prior se --learning-rate nan --out {out}/run --device cpu --steps 1 --batch 2",
        "reproduce step",
    ]


def _refused_here(line: str, given: Path, out: Path) -> str | None:
    before = os.getcwd()
    os.chdir(out)
    try:
        result = CliRunner().invoke(app, _split(line, given, out), env={"COLUMNS": "300", "NO_COLOR": "1"})
    finally:
        os.chdir(before)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"raises {type(result.exception).__name__}: {str(result.exception)[:200]}"
    return _refused(result.exit_code, result.stderr, out)


def _refused_elsewhere(
    line: str, given: Path, out: Path, *, limit: int = 0, hidden: str = "", word: str = "cannot write"
) -> str | None:
    done = _run([str(limit), hidden, *_split(line, given, out)], out)
    return _refused(done.returncode, done.stderr, out) or bad_message(_errors(done.stderr)[0], word)


def _full_output(given: Path) -> str | None:
    with open("/dev/full", "w") as full:
        done = _run(["0", "", "models"], given, stdout=full)
    return None if done.returncode in (1, 2) and len(_errors(done.stderr)) == 1 else f"ends with {done.stderr[-300:]!r}"


def _run(arguments: list[str], folder: Path, stdout: object = subprocess.DEVNULL) -> "subprocess.CompletedProcess[str]":
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    environment = os.environ | {"COLUMNS": "300", "NO_COLOR": "1", "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=folder,
        env=environment,
        stdout=stdout,  # type: ignore[arg-type]
        stderr=subprocess.PIPE,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )


def _split(line: str, given: Path, out: Path) -> list[str]:
    """The words of a command line; quotes hold words with spaces together."""
    return [word.replace("{in}", str(given)).replace("{out}", str(out)) for word in shlex.split(line)]


def _refused(code: int, stderr: str, out: Path) -> str | None:
    """None for a command that ended with one message and left no file; what it left is removed."""
    left = sorted(path for path in out.rglob("*") if path.is_file())
    names = [str(path.relative_to(out)) for path in left]
    for path in left:
        path.unlink()
    if code not in (1, 2):
        return f"ends with status {code}: {stderr[-200:]!r}"
    if "Traceback" in stderr:
        return f"ends with a traceback: {stderr[-300:]!r}"
    if names:
        return f"leaves {', '.join(names)}"
    if stderr.startswith("Usage:"):  # how Typer answers an option that it does not take
        return None if "Error" in stderr else f"names no error: {stderr[:200]!r}"
    errors = _errors(stderr)
    return bad_message(errors[0]) if len(errors) == 1 else f"prints {len(errors)} lines: {stderr[-300:]!r}"


def _errors(stderr: str) -> list[str]:
    """The lines on standard error, without notes."""
    return [line for line in stderr.splitlines() if line.strip() and not line.startswith("Note:")] or [""]
