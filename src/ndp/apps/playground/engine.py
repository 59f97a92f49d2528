"""One worker thread for all requests: those of the same kind that wait together are computed together."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

CORES = os.cpu_count() or 1
MOST_TOGETHER = 8
MOST_WAITING = 256
PATIENCE = 30.0  # seconds that a request may wait for its answer

# Whether anybody still waits for what is being computed.
Wanted = Callable[[], bool]
# Tasks of one kind to their answers, in order.
Compute = Callable[[Sequence[Any], Wanted], Sequence[Any]]


class BusyError(Exception):
    """More is asked than can be answered in time."""


class UnwantedError(Exception):
    """Nobody waits for this any more."""


@dataclass(eq=False)
class _Entry:
    compute: Compute
    task: Any
    kind: Hashable
    answer: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    dropped: bool = False


class Engine:
    """Computes tasks in one thread, with a `crew` of others to help. A task cancelled while it waits is never begun."""

    def __init__(
        self, *, most_together: int = MOST_TOGETHER, most_waiting: int = MOST_WAITING, patience: float = PATIENCE
    ) -> None:
        self._most_together, self._most_waiting, self._patience = most_together, most_waiting, patience
        self._waiting: deque[_Entry] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None
        self.crew = ThreadPoolExecutor(CORES, thread_name_prefix="ndp-crew")
        self.largest_batch = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def run(self, compute: Compute, task: Any, *, kind: Hashable) -> Any:
        """The answer to `task`. Tasks of equal `kind` must share `compute`, and may be computed in one call of it."""
        loop = asyncio.get_running_loop()
        entry = _Entry(compute, task, kind, loop.create_future(), loop)
        with self._changed:
            if self._closed or len(self._waiting) >= self._most_waiting:
                raise BusyError(f"{len(self._waiting)} requests are waiting; try again in a moment")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ndp-engine", daemon=True)
                self._thread.start()
            self._waiting.append(entry)
            self._changed.notify()
        try:
            return await asyncio.wait_for(entry.answer, self._patience)
        except TimeoutError:
            raise BusyError(
                f"no answer within {self._patience:g} s; ask for fewer draws, points or solver calls"
            ) from None
        finally:
            entry.dropped = True

    def close(self) -> None:
        """Finish what is being computed, and nothing else."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=self._patience)
        self.crew.shutdown(wait=False)

    def _work(self) -> None:
        while batch := self._next_batch():
            self.largest_batch = max(self.largest_batch, len(batch))
            self._answer(batch)

    def _next_batch(self) -> list[_Entry]:
        """The task that has waited longest, and others of its kind. Empty when the engine closes."""
        with self._changed:
            while True:
                if self._closed:
                    return []
                alive = [entry for entry in self._waiting if not entry.dropped]
                if alive:
                    break
                self._waiting.clear()
                self._changed.wait()
            batch = [entry for entry in alive if entry.kind == alive[0].kind][: self._most_together]
            chosen = set(map(id, batch))
            self._waiting = deque(entry for entry in alive if id(entry) not in chosen)
        return batch

    def _answer(self, batch: list[_Entry]) -> None:
        def wanted() -> bool:
            return not self._closed and any(not entry.dropped for entry in batch)

        try:
            answers = batch[0].compute([entry.task for entry in batch], wanted)
        except UnwantedError:
            return
        except Exception as error:
            if len(batch) == 1:
                _settle(batch[0], error=error)
            else:  # one that cannot be answered must not take the others with it
                for entry in batch:
                    self._answer([entry])
            return
        for entry, answer in zip(batch, answers, strict=True):
            _settle(entry, answer)


def _settle(entry: _Entry, answer: Any = None, error: Exception | None = None) -> None:
    def settle() -> None:
        if entry.answer.done():
            return
        if error is not None:
            entry.answer.set_exception(error)
        else:
            entry.answer.set_result(answer)

    if not entry.loop.is_closed():
        entry.loop.call_soon_threadsafe(settle)
