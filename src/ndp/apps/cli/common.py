"""What all commands share: reading options, and user errors in one line."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ndp.core.extras import MissingExtraError

MOST_DIMS = 1000  # input dimensions that can be asked for


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
    except MemoryError as error:
        typer.secho(f"Error: there is not enough memory: {error}", fg=typer.colors.RED, err=True)
        raise typer.Exit(code=2) from None
    except (ValueError, OSError, FloatingPointError, MissingExtraError) as error:
        typer.secho(f"Error: {error}", fg=typer.colors.RED, err=True)
        raise typer.Exit(code=2) from None


def read_dims(text: str) -> tuple[int, ...] | None:
    """The numbers of input dimensions in text such as 1,2,3; None for no text."""
    dims = read_whole_numbers("--dim", text, "2 or 1,2,3")
    if dims and not (min(dims) >= 1 and max(dims) <= MOST_DIMS):
        raise ValueError(f"--dim takes numbers of input dimensions, each from 1 to {MOST_DIMS}, not {text!r}")
    return dims or None


def read_whole_numbers(option: str, text: str, example: str) -> tuple[int, ...]:
    """The whole numbers in text, separated by commas; none for no text."""
    try:
        if "_" in text:  # which Python takes for a separator of digits
            raise ValueError
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise ValueError(f"{option} takes whole numbers such as {example}, not {text!r}") from None
