"""Predictions of many rows on a local Dask cluster of two workers, against one process: the same bits, and seconds."""

import time
import warnings
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from benchmarks.report import Progress, Report, Table
from benchmarks.timing import limited_threads
from ndp.sklearn import NDPRegressor

ROWS, QUICK_ROWS = 100_000, 3_000
OBSERVATIONS, WORKERS = 50, 2


@dataclass(frozen=True)
class Seconds:
    """What so many predictions took, and whether all are the same."""

    rows: int
    one_process: float
    cluster: float
    same_bits: bool


def reproduce(*, quick: bool, progress: Progress) -> Report:
    """Predict with one process, and then on the cluster."""
    found = measure(QUICK_ROWS if quick else ROWS, progress)
    row = (f"{found.rows:,}", f"{found.one_process:.0f}", f"{found.cluster:.0f}", "yes" if found.same_bits else "no")
    headings = ("rows", "seconds in one process", f"with {WORKERS} Dask workers", "same bits")
    table = Table(f"Mean and spread: 3 columns, one of text, {OBSERVATIONS} observations", headings, [row])
    findings = f"{'met' if found.same_bits else 'NOT met'}: a cluster gives the same bits as one process"
    return Report("dask", [table], findings, asdict(found), failed=not found.same_bits)


def measure(rows: int, progress: Progress) -> Seconds:
    """Both ways, each after a first prediction that conditions the model."""
    from dask.distributed import Client, LocalCluster
    from joblib import parallel_config

    known, asked = _table(OBSERVATIONS, 0), _table(rows, 1)
    y = known["a"] ** 2 + known["b"] + (known["kind"] == "red")
    with limited_threads(1), warnings.catch_warnings(action="ignore", category=UserWarning):
        regressor = NDPRegressor().fit(known, y)
        regressor.predict(asked[:1])
        progress(f"{rows:,} rows in one process")
        began = time.perf_counter()
        alone = regressor.predict(asked, return_std=True)
        one_process = time.perf_counter() - began
        progress(f"{rows:,} rows with {WORKERS} workers of Dask")
        cluster = LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None)
        with cluster, Client(cluster) as client:
            client.run(_one_thread)
            with parallel_config(backend="dask"):
                regressor.predict(asked[:2000])  # workers import torch and condition the model
                began = time.perf_counter()
                together = regressor.predict(asked, return_std=True)
                seconds = time.perf_counter() - began
    same = all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))
    return Seconds(rows, one_process, seconds, same)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _table(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kind = rng.choice(["red", "green", "blue"], size=rows)
    return pd.DataFrame({"a": rng.normal(size=rows), "b": rng.normal(size=rows), "kind": kind})
