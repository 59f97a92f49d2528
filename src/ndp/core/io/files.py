"""Atomic writes: a file is complete, or it is not there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class WriteError(ValueError):
    """A file that cannot be written where it was asked for."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary path that becomes `path` only when everything was written."""
    if path.exists() and not path.is_file():
        raise WriteError(f"cannot write {path}: it is {'a folder' if path.is_dir() else 'not a regular file'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    except FileExistsError:
        raise WriteError(f"cannot write {path}: {path.parent} is not a folder") from None
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
