"""Seconds and memory of `ndp predict` for many rows: ten inputs, 256 observations, mean, spread and five quantiles."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.report import Progress, Report, Table

ROWS, QUICK_ROWS = 100_000, 1_000
INPUTS, OBSERVATIONS = 10, 256
MOST_MEGABYTES = 1000.0
POLL = 0.2  # seconds between two looks at the memory


@dataclass(frozen=True)
class Predictions:
    """What one run of the command took, from its start to its end."""

    rows: int
    threads: int
    seconds: float
    megabytes: float  # resident, at the most

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds


def reproduce(*, threads: int, quick: bool, progress: Progress) -> Report:
    """Time the command in a process of its own, and compare its memory with a gigabyte."""
    rows = QUICK_ROWS if quick else ROWS
    progress(f"Predicting {rows:,} rows: about {max(1, round(rows / 100 / 60 / threads))} minutes")
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), rows, threads=threads)
    within = found.megabytes <= MOST_MEGABYTES
    row = (
        f"{found.rows:,}",
        str(found.threads),
        f"{found.seconds:.0f}",
        f"{found.rows_per_second:.0f}",
        f"{found.megabytes:.0f}",
    )
    title = f"ndp predict: {INPUTS} inputs, {OBSERVATIONS} observations"
    table = Table(title, ("rows", "threads", "seconds", "rows a second", "megabytes"), [row])
    findings = f"{'met' if within else 'NOT met'}: at most {MOST_MEGABYTES:.0f} megabytes"
    numbers = asdict(found) | {"rows_per_second": found.rows_per_second}
    return Report("predictions", [table], findings, numbers, failed=not within)


def measure(folder: Path, rows: int, *, threads: int) -> Predictions:
    """Run `ndp predict` on a table of this many rows."""
    rng = np.random.default_rng(0)
    names = [f"x{i + 1}" for i in range(INPUTS)]
    known = pd.DataFrame(rng.normal(size=(OBSERVATIONS, INPUTS)), columns=names)
    known["y"] = np.sin(known["x1"]) + known["x2"] * known["x3"] + rng.normal(0, 0.1, OBSERVATIONS)
    known.to_csv(folder / "train.csv", index=False)
    asked = pd.DataFrame(rng.uniform(-1, 1, size=(rows, INPUTS)), columns=names)
    asked.to_csv(folder / "at.csv", index=False)
    command = [sys.executable, "-c", "from ndp.apps.cli import app; app()", "predict"]
    command += ["train.csv", "--target", "y", "--at", "at.csv"]
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
    }
    began = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        megabytes = 0.0
        while process.poll() is None:
            megabytes = max(megabytes, _megabytes(process.pid))
            time.sleep(POLL)
        seconds = time.perf_counter() - began
        printed = process.stdout.read() if process.stdout else ""
    written = len(pd.read_csv(folder / "predictions.csv")) if process.returncode == 0 else 0
    if written != rows:
        raise ValueError(f"ndp predict wrote {written} rows of {rows} and ended with {process.returncode}: {printed}")
    return Predictions(rows, threads, seconds, megabytes)


def _megabytes(pid: int) -> float:
    """The most memory that a process has had resident so far; 0 where the system does not say."""
    status = Path(f"/proc/{pid}/status")
    try:
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(lines["VmHWM"].split()[0]) / 1000
    except (OSError, KeyError, ValueError):
        return 0.0
