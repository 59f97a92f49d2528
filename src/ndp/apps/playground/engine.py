"""One worker thread computes all requests. Waiting requests that can share a batch are computed in one call."""

import asyncio
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from ndp.apps.playground.costs import Pace
from ndp.core.memory import give_back_freed_memory

CORES = os.cpu_count() or 1
MAX_BATCH = 8
BATCH_SECONDS = 1.0  # estimated seconds of a batch: large requests are computed, and answered, one by one
MAX_WAITING = 256
PATIENCE = 20.0  # estimated seconds until its answer, for a request that is accepted while others are there
REST = 1.0  # seconds without requests after which freed memory is given back
CLOSING = 30.0  # seconds in which the work that is going on reaches its next check

# Whether a client still waits for the result.
Wanted = Callable[[], bool]
# Tasks of one batch to their results, in order.
Compute = Callable[[Sequence[Any], Wanted], Sequence[Any]]


class BusyError(Exception):
    """There are more requests than can be answered in time; after `seconds` there will be room."""

    def __init__(self, ahead: float, seconds: int) -> None:
        super().__init__(
            f"the server is busy with {max(1, round(ahead))} s of work; ask again in {seconds} s, or for less"
        )
        self.seconds = seconds


class StoppingError(Exception):
    """The server is about to stop, and takes no requests."""

    def __init__(self) -> None:
        super().__init__("the server is stopping; ask again when it has been started anew")


class UnwantedError(Exception):
    """No client waits for the result any more."""


@dataclass(eq=False)
class _Entry:
    compute: Compute
    task: Any
    cost: float
    batch_key: Hashable
    answer: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    dropped: bool = False


# A task with its result, or with the error in place of it.
_Outcome = tuple[_Entry, Any, Exception | None]


class Engine:
    """Computes tasks in one worker thread. A task that is cancelled while it waits is never started.

    A task is accepted if it is estimated to be answered within `patience` seconds, or if no other is there, and otherwise
    refused at once. What is accepted is answered, however long it takes. `pool` is a thread pool among whose threads a
    computation may divide its draws.
    """

    def __init__(
        self, *, max_batch: int = MAX_BATCH, max_waiting: int = MAX_WAITING, patience: float = PATIENCE
    ) -> None:
        self._max_batch, self._max_waiting, self._patience = max_batch, max_waiting, patience
        self._waiting: deque[_Entry] = deque()
        self._changed = threading.Condition()
        self._stopping = self._closed = False
        self._thread: threading.Thread | None = None
        self._pace = Pace()
        self._batch: list[_Entry] = []  # what is computed now
        self._begun = 0.0
        self.pool = ThreadPoolExecutor(CORES, thread_name_prefix="ndp-pool")
        self.largest_batch = 0

    @property
    def waiting(self) -> int:
        """How many tasks wait to be started."""
        return len(self._waiting)

    @property
    def busy(self) -> bool:
        """Whether a task is computed, or waits."""
        return bool(self._waiting or self._batch)

    async def run(self, compute: Compute, task: Any, *, cost: float, batch_key: Hashable = None) -> Any:
        """The result of `task`, which is estimated to take `cost` seconds of two idle cores.

        Tasks with equal keys must have the same `compute`, and may be computed in one call of it. A task without a key is
        computed by itself.
        """
        loop = asyncio.get_running_loop()
        key = object() if batch_key is None else batch_key
        entry = _Entry(compute, task, cost, key, loop.create_future(), loop)
        with self._changed:
            self._check_room(cost)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ndp-engine", daemon=True)
                self._thread.start()
            self._waiting.append(entry)
            self._changed.notify()
        try:
            return await entry.answer
        finally:
            entry.dropped = True

    def stop(self) -> None:
        """Accept no more tasks, and go on with those that are there."""
        with self._changed:
            self._stopping = True

    def close(self) -> None:
        """Stop the current batch at its next check, and start no other."""
        with self._changed:
            self._stopping = self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=CLOSING)
        for entry in self._waiting:
            _settle(entry, None, StoppingError())
        self.pool.shutdown(wait=False)

    def _check_room(self, cost: float) -> None:
        """Raise an error if a task of that cost cannot be answered in time."""
        if self._stopping:
            raise StoppingError
        alive = [entry.cost for entry in self._waiting if not entry.dropped]
        ahead = self._pace.ratio * sum(alive)
        if self._batch:
            begun = self._pace.ratio * sum(entry.cost for entry in self._batch)
            ahead += max(0.0, begun - (time.monotonic() - self._begun))
        late = ahead + self._pace.ratio * cost - self._patience
        if len(alive) >= self._max_waiting or ((alive or self._batch) and late > 0):
            raise BusyError(ahead, max(1, math.ceil(late)))

    def _work(self) -> None:
        rested = True
        while (batch := self._next_batch(None if rested else REST)) is not None:
            rested = not batch
            if batch:
                self.largest_batch = max(self.largest_batch, len(batch))
                outcomes = self._compute(batch)
                self._batch = []  # before the clients know, who may ask for more at once
                for outcome in outcomes:
                    _settle(*outcome)
            else:
                give_back_freed_memory()

    def _next_batch(self, patience: float | None) -> list[_Entry] | None:
        """The task that has waited longest, and others with its key, up to a second of work.

        Empty where none comes in so many seconds, and None when the engine closes.
        """
        with self._changed:
            while True:
                if self._closed:
                    return None
                alive = [entry for entry in self._waiting if not entry.dropped]
                if alive:
                    break
                self._waiting.clear()
                if not self._changed.wait(patience):
                    return []
            same = [entry for entry in alive if entry.batch_key == alive[0].batch_key]
            upto = accumulate(entry.cost for entry in same)
            fitting = sum(seconds <= BATCH_SECONDS for seconds in upto)
            self._batch = same[: max(1, min(fitting, self._max_batch))]
            self._begun = time.monotonic()
            chosen = set(map(id, self._batch))
            self._waiting = deque(entry for entry in alive if id(entry) not in chosen)
            return self._batch

    def _compute(self, batch: list[_Entry]) -> list[_Outcome]:
        def wanted() -> bool:
            return not self._closed and any(not entry.dropped for entry in batch)

        begun = time.monotonic()
        try:
            answers = batch[0].compute([entry.task for entry in batch], wanted)
        except UnwantedError:
            return [(entry, None, StoppingError()) for entry in batch]
        except Exception as error:
            if len(batch) == 1:
                return [(batch[0], None, error)]
            # a task that fails must not fail the others of its batch
            return [outcome for entry in batch for outcome in self._compute([entry])]
        if len(batch) == 1:  # tasks of a batch share an overhead, which their estimates count once each
            self._pace.learn(estimated=batch[0].cost, taken=time.monotonic() - begun)
        return [(entry, answer, None) for entry, answer in zip(batch, answers, strict=True)]


def _settle(entry: _Entry, answer: Any, error: Exception | None) -> None:
    def settle() -> None:
        if entry.answer.done():
            return
        if error is not None:
            entry.answer.set_exception(error)
        else:
            entry.answer.set_result(answer)

    if not entry.loop.is_closed():
        entry.loop.call_soon_threadsafe(settle)
