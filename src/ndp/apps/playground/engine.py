"""One worker thread computes all requests. Waiting requests that can share a batch are computed in one call."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

CORES = os.cpu_count() or 1
MAX_BATCH = 8
MAX_WAITING = 256
TIMEOUT = 30.0  # seconds that a request may wait for its answer

# Whether a client still waits for the result.
Wanted = Callable[[], bool]
# Tasks of one batch to their results, in order.
Compute = Callable[[Sequence[Any], Wanted], Sequence[Any]]


class BusyError(Exception):
    """There are more requests than can be answered in time."""


class UnwantedError(Exception):
    """No client waits for the result any more."""


@dataclass(eq=False)
class _Entry:
    compute: Compute
    task: Any
    batch_key: Hashable
    answer: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    dropped: bool = False


class Engine:
    """Computes tasks in one worker thread. A task that is cancelled while it waits is never started.

    `pool` is a thread pool among whose threads a computation may divide its draws.
    """

    def __init__(self, *, max_batch: int = MAX_BATCH, max_waiting: int = MAX_WAITING, timeout: float = TIMEOUT) -> None:
        self._max_batch, self._max_waiting, self._timeout = max_batch, max_waiting, timeout
        self._waiting: deque[_Entry] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None
        self.pool = ThreadPoolExecutor(CORES, thread_name_prefix="ndp-pool")
        self.largest_batch = 0

    @property
    def waiting(self) -> int:
        """How many tasks wait to be started."""
        return len(self._waiting)

    async def run(self, compute: Compute, task: Any, *, batch_key: Hashable = None) -> Any:
        """The result of `task`.

        Tasks with equal keys must have the same `compute`, and may be computed in one call of it. A task without a key is
        computed by itself.
        """
        loop = asyncio.get_running_loop()
        key = object() if batch_key is None else batch_key
        entry = _Entry(compute, task, key, loop.create_future(), loop)
        with self._changed:
            if self._closed or len(self._waiting) >= self._max_waiting:
                raise BusyError(f"{len(self._waiting)} requests are waiting; try again in a moment")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ndp-engine", daemon=True)
                self._thread.start()
            self._waiting.append(entry)
            self._changed.notify()
        try:
            return await asyncio.wait_for(entry.answer, self._timeout)
        except TimeoutError:
            raise BusyError(
                f"no answer within {self._timeout:g} s; ask for fewer draws, points or solver calls"
            ) from None
        finally:
            entry.dropped = True

    def close(self) -> None:
        """Finish the current batch, and start no other."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=self._timeout)
        self.pool.shutdown(wait=False)

    def _work(self) -> None:
        while batch := self._next_batch():
            self.largest_batch = max(self.largest_batch, len(batch))
            self._answer(batch)

    def _next_batch(self) -> list[_Entry]:
        """The task that has waited longest, and others with its key. Empty when the engine closes."""
        with self._changed:
            while True:
                if self._closed:
                    return []
                alive = [entry for entry in self._waiting if not entry.dropped]
                if alive:
                    break
                self._waiting.clear()
                self._changed.wait()
            batch = [entry for entry in alive if entry.batch_key == alive[0].batch_key][: self._max_batch]
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
            else:  # a task that fails must not fail the others of its batch
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
