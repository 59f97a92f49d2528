"""One attempt to break the library, and what it means that the library held.

A family is a function `attempts(sizes, folder)` that yields attempts; `folder` is empty and its own. An attempt returns nothing
where the library held, and otherwise one sentence on what went wrong.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

LONGEST_MESSAGE = 400  # characters of an error that is one sentence or two


@dataclass(frozen=True)
class Sizes:
    """How many attempts each family makes, as a share of the full number."""

    share: float = 1.0
    seed: int = 0

    def of(self, full: int) -> int:
        """The number of attempts in place of `full`; at least one."""
        return max(1, round(self.share * full))


FULL, QUICK = Sizes(), Sizes(share=0.05)


@dataclass(frozen=True)
class Attempt:
    """What was tried, in words, and how: `run` returns None where the library held."""

    name: str
    run: Callable[[], str | None]


Family: TypeAlias = Callable[[Sizes, Path], Iterator[Attempt]]


def is_refused(
    call: Callable[[], object], *words: str, errors: tuple[type[Exception], ...] = (ValueError,)
) -> str | None:
    """None if `call` raises one of `errors`, in one line that holds each of `words`."""
    try:
        answer = call()
    except errors as error:
        return bad_message(str(error), *words)
    except Exception as error:
        return f"raises {type(error).__name__}: {str(error)[:200]}"
    return f"answers {str(answer)[:100]!r} where it should refuse"


def bad_message(message: str, *words: str) -> str | None:
    """None for an error message of one short line that holds each of `words`, in any case."""
    if not message.strip() or "\n" in message.strip() or len(message) > LONGEST_MESSAGE:
        return f"the message is not one short line: {message[:200]!r}"
    missing = [word for word in words if word.lower() not in message.lower()]
    return f"the message does not name {missing[0]!r}: {message[:200]!r}" if missing else None
