"""What all commands share: reading options, and telling mistakes plainly."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import typer


@contextmanager
def told_plainly() -> Iterator[None]:
    """A mistake in what the user gave is one line, not a traceback."""
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("default", UserWarning)
            yield
        for word in told:
            if issubclass(word.category, UserWarning):
                typer.secho(f"Note: {word.message}", fg=typer.colors.YELLOW, err=True)
    except (ValueError, OSError, FloatingPointError) as error:
        typer.secho(f"Error: {error}", fg=typer.colors.RED, err=True)
        raise typer.Exit(code=2) from None


def require(*packages: str, extra: str) -> None:
    """Say which extra to install where one of these packages is not there."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ValueError(f"this needs {' and '.join(missing)}: pip install 'neural-diffusion-processes[{extra}]'")


def read_dims(text: str) -> tuple[int, ...] | None:
    """Input dimensions from text such as 1,2,3."""
    dims = read_whole_numbers("--dim", text, "2 or 1,2,3")
    if dims and min(dims) < 1:
        raise ValueError(f"--dim takes numbers of inputs, of at least 1, not {text!r}")
    return dims or None


def read_whole_numbers(option: str, text: str, such_as: str) -> tuple[int, ...]:
    """Whole numbers with commas between them; none for no text."""
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise ValueError(f"{option} takes whole numbers such as {such_as}, not {text!r}") from None
