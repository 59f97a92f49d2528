"""The measurement of many predictions runs the command that a user runs, in a process whose memory is seen."""

from pathlib import Path

from benchmarks.predictions import measure


def test_the_command_is_timed_and_its_memory_is_seen(tmp_path: Path) -> None:
    found = measure(tmp_path, 16, threads=1)
    assert found.rows == 16
    assert 0 < found.rows_per_second < 16
    assert 100 < found.megabytes < 1000
