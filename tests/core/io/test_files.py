"""Whatever happens, there is the whole file or what was there before."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from safetensors import SafetensorError

from ndp.core.io.files import WriteError, atomic_write


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("existing", [True, False])
def test_a_failure_leaves_what_was_there(tmp_path: Path, existing: bool) -> None:
    path = tmp_path / "draws.csv"
    if existing:
        path.write_text("old")

    def fail_half_way() -> None:
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("out of power")

    with pytest.raises(RuntimeError, match="out of power"):
        fail_half_way()
    assert names_in(tmp_path) == (["draws.csv"] if existing else [])
    assert not existing or path.read_text() == "old"


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("old and longer")
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert temporary.parent == path.parent  # or it could not be moved in one piece
        assert temporary.suffix == ".txt"
        assert path.read_text() == "old and longer"
    assert path.read_text() == "new"
    assert names_in(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_has_the_permissions_of_any_other(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with atomic_write(tmp_path / "notes.txt") as temporary:
            temporary.write_text("new")
    finally:
        os.umask(before)
    assert (tmp_path / "notes.txt").stat().st_mode & 0o777 == mode


def write_something(path: Path) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text("something")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("folder", "cannot write .*folder: it is a folder$"),
        ("file/draws.csv", "cannot write .*draws.csv: .*file is not a folder$"),
        ("file/folder/draws.csv", "cannot write .*draws.csv: Not a directory$"),
        ("pipe", "cannot write .*pipe: it is not a regular file$"),
    ],
)
def test_where_no_file_can_be(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WriteError, match=message):
        write_something(tmp_path / path)
    assert names_in(tmp_path) == ["file", "folder", "pipe"]
    assert names_in(tmp_path / "folder") == []
    assert (tmp_path / "file").read_text() == "old"


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated, for root may write anywhere."""

    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(WriteError, match=r"cannot write .*draws.csv: Permission denied$"):
        write_something(tmp_path / "draws.csv")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError("encoder error -2 when writing image file"), "encoder error -2 when writing image file"),
        (SafetensorError("I/O error: File too large"), "I/O error: File too large"),
    ],
)
@pytest.mark.parametrize("existing", [True, False])
def test_a_full_disk_names_the_file_and_leaves_nothing_new(
    tmp_path: Path, error: Exception, why: str, existing: bool
) -> None:
    path = tmp_path / "new" / "folder" / "draws.csv"
    if existing:
        path.parent.mkdir(parents=True)
        path.write_text("old")

    def fill_the_disk() -> None:
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(WriteError, match=f"cannot write {path}: {why}$"):
        fill_the_disk()
    assert names_in(path.parent if existing else tmp_path) == (["draws.csv"] if existing else [])
    assert not existing or path.read_text() == "old"


def test_writes_beyond_a_limit_of_the_system_name_the_file(tmp_path: Path) -> None:
    """A real failure of a write: the system's limit on the size of a file, in a process of its own."""
    program = f"""
import resource, signal
from pathlib import Path
from ndp.core.io.files import atomic_write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with atomic_write(Path({str(tmp_path / "large.bin")!r})) as temporary:
        temporary.write_bytes(bytes(5000))
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"cannot write {tmp_path / 'large.bin'}: File too large\n"
    assert names_in(tmp_path) == []
