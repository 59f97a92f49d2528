"""The attempts on files hold, and would not with a reader that takes what Python takes."""

from pathlib import Path

import pytest

from benchmarks.reliability.attempts import FULL, QUICK
from benchmarks.reliability.tables import attempts


def test_damaged_and_odd_files_are_read_or_refused(tmp_path: Path) -> None:
    tried = list(attempts(QUICK, tmp_path))
    assert len(tried) >= 20
    assert {one.name: found for one in tried if (found := one.run())} == {}
    assert sum(1 for _ in attempts(FULL, tmp_path)) >= 450


def test_a_reader_that_is_too_kind_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ndp.core.io.tables.parse_number", float)
    monkeypatch.setattr("ndp.core.io.tables._check_text", lambda path, file: None)
    every = {one.name: one for one in attempts(FULL, tmp_path)}
    for name in ("thousands by underscores", "Arabic digits", "gzip for read_table", "UTF-16 for read_observations"):
        assert every[name].run() is not None
