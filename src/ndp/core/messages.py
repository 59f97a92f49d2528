"""Parts of error messages: the first line of another one, a value in a few characters, and the name that was meant."""

import reprlib
from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 200  # characters of another package's error
_WRITTEN = reprlib.Repr()
_WRITTEN.maxstring = _WRITTEN.maxother = 80


def first_line(message: object) -> str:
    """The first line of an error's message, cut where it is long."""
    line = str(message).strip().partition("\n")[0]
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def short(value: object) -> str:
    """A value as Python writes it, cut where it is long."""
    return _WRITTEN.repr(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question whether the closest of the known names was meant, and a space; nothing where none is close."""
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}? " if close else ""
