"""What all commands share: reading options, and user errors in one line."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import typer


@contextmanager
def user_errors() -> Iterator[None]:
    """Print an error in what the user gave as one line without a traceback, and warnings as notes."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default", UserWarning)
            yield
        for warning in caught:
            if issubclass(warning.category, UserWarning):
                typer.secho(f"Note: {warning.message}", fg=typer.colors.YELLOW, err=True)
    except (ValueError, OSError, FloatingPointError) as error:
        typer.secho(f"Error: {error}", fg=typer.colors.RED, err=True)
        raise typer.Exit(code=2) from None


def require(*packages: str, extra: str) -> None:
    """Raise an error that names the extra to install, if one of these packages is missing."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ValueError(f"this needs {' and '.join(missing)}: pip install 'neural-diffusion-processes[{extra}]'")


def read_dims(text: str) -> tuple[int, ...] | None:
    """The numbers of input dimensions in text such as 1,2,3; None for no text."""
    dims = read_whole_numbers("--dim", text, "2 or 1,2,3")
    if dims and min(dims) < 1:
        raise ValueError(f"--dim takes numbers of input dimensions, each at least 1, not {text!r}")
    return dims or None


def read_whole_numbers(option: str, text: str, example: str) -> tuple[int, ...]:
    """The whole numbers in text, separated by commas; none for no text."""
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise ValueError(f"{option} takes whole numbers such as {example}, not {text!r}") from None
