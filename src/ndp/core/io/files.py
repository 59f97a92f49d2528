"""Atomic writes: a file is complete, or it is not there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError


class WriteError(ValueError):
    """A file that cannot be written where it was asked for."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary path that becomes `path` only when everything was written.

    A failure to write is a `WriteError` that names `path`, and leaves neither the temporary file nor a new folder.
    """
    if path.exists() and not path.is_file():
        raise WriteError(f"cannot write {path}: it is {'a folder' if path.is_dir() else 'not a regular file'}")
    new_folders = [folder for folder in path.parents if not folder.exists()]
    temporary = path
    try:
        with write_errors(path):
            temporary = _temporary_file(path)
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
    except BaseException:
        if temporary != path:
            temporary.unlink(missing_ok=True)
        with suppress(OSError):
            for folder in new_folders:
                folder.rmdir()
        raise


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turns an error of the system in writing to `path`, such as a full disk, into a `WriteError` that names it."""
    try:
        yield
    except FileExistsError:
        raise WriteError(f"cannot write {path}: {path.parent} is not a folder") from None
    except (OSError, SafetensorError) as error:
        raise WriteError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error


def _temporary_file(path: Path) -> Path:
    """A new file beside `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    return Path(name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
