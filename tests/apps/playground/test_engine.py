"""One worker, many clients."""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from ndp.apps.playground.engine import BusyError, Engine, UnwantedError, Wanted


def doubling(calls: list[int]) -> Any:
    def compute(tasks: Sequence[int], wanted: Wanted) -> list[int]:
        calls.append(len(tasks))
        time.sleep(0.02)
        if 99 in tasks:
            raise ValueError("99 is not for me")
        return [2 * task for task in tasks]

    return compute


def test_tasks_with_equal_keys_are_one_batch_and_answered_in_their_order() -> None:
    calls: list[int] = []
    compute = doubling(calls)

    async def ask() -> list[int]:
        return await asyncio.gather(*(engine.run(compute, task, batch_key=task % 2) for task in range(20)))

    engine = Engine(max_batch=4)
    assert asyncio.run(ask()) == [2 * task for task in range(20)]
    engine.close()
    assert max(calls) == 4
    assert len(calls) < 12


def test_a_task_that_fails_does_not_fail_its_batch() -> None:
    async def ask() -> list[Any]:
        return await asyncio.gather(
            *(engine.run(compute, task, batch_key="all") for task in (1, 99, 2, 3)), return_exceptions=True
        )

    compute = doubling([])
    engine = Engine()
    first, failed, *others = asyncio.run(ask())
    engine.close()
    assert (first, others) == (2, [4, 6])
    assert isinstance(failed, ValueError)


def test_too_many_tasks_and_too_slow_ones_are_errors() -> None:
    release = threading.Event()

    def wait(tasks: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
        release.wait(5)
        return tasks

    async def ask() -> list[Any]:
        return await asyncio.gather(*(engine.run(wait, k, batch_key=k) for k in range(9)), return_exceptions=True)

    engine = Engine(max_waiting=3, timeout=0.1)
    answers = asyncio.run(ask())
    release.set()
    engine.close()
    assert all(isinstance(answer, BusyError) for answer in answers)
    assert "try again" in str(answers[-1])
    assert "no answer within 0.1 s" in str(answers[0])


def test_a_cancelled_task_is_not_started_or_is_stopped() -> None:
    begun: list[int] = []
    given_up = threading.Event()

    def compute(tasks: Sequence[int], wanted: Wanted) -> Sequence[int]:
        begun.extend(tasks)
        while tasks[0] == 0:
            time.sleep(0.005)
            if not wanted():
                given_up.set()
                raise UnwantedError
        return tasks

    async def ask() -> int:
        first, second = (asyncio.ensure_future(engine.run(compute, k, batch_key=k)) for k in (0, 1))
        await asyncio.sleep(0.05)
        second.cancel()
        first.cancel()
        return await engine.run(compute, 2, batch_key=2)

    engine = Engine()
    assert asyncio.run(ask()) == 2
    assert given_up.wait(2)
    engine.close()
    assert begun == [0, 2]
    with pytest.raises(BusyError):
        asyncio.run(engine.run(compute, 3, batch_key=3))
