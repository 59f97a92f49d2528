"""The measurements of the playground measure what they say."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.playground import BROWSERS, measure_load


def test_many_clients_are_counted() -> None:
    load = measure_load(clients=6, seconds=2.0)
    assert load.answers >= 6
    assert load.errors == 0
    assert 0 < load.median_seconds <= load.p95_seconds
    assert load.memory_late < 1.3 * load.memory_early


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="there is no Chromium here")
def test_clicks_are_timed(tmp_path: Path) -> None:
    options = ["--clicks", "2", "--draws", "2", "--calls", "2", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["playground-speed", *options])
    assert result.exit_code == 0, result.output
    speed = json.loads((tmp_path / "playground-speed.json").read_text())
    assert 90 < speed["median"] <= speed["p95"] < 20_000
    assert 0 < speed["first_paint"] < 20_000
