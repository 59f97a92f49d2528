"""One worker, many clients."""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from ndp.apps.playground import engine as engine_module
from ndp.apps.playground.engine import BusyError, Engine, StoppingError, UnwantedError, Wanted
from ndp.apps.playground.tasks import single


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
        return await asyncio.gather(*(engine.run(compute, task, cost=0.0, batch_key=task % 2) for task in range(20)))

    engine = Engine(max_batch=4)
    assert asyncio.run(ask()) == [2 * task for task in range(20)]
    engine.close()
    assert max(calls) == 4
    assert len(calls) < 12


def test_a_task_that_fails_does_not_fail_its_batch() -> None:
    async def ask() -> list[Any]:
        return await asyncio.gather(
            *(engine.run(compute, task, cost=0.0, batch_key="all") for task in (1, 99, 2, 3)), return_exceptions=True
        )

    compute = doubling([])
    engine = Engine()
    first, failed, *others = asyncio.run(ask())
    engine.close()
    assert (first, others) == (2, [4, 6])
    assert isinstance(failed, ValueError)


class Gate:
    """A computation that waits until it is opened, and counts the tasks of each batch."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.batches: list[int] = []

    def __call__(self, tasks: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
        self.batches.append(len(tasks))
        self.opened.wait(5)
        return tasks


async def ask_at_once(engine: Engine, gate: Gate, costs: Sequence[float], **options: Any) -> list[Any]:
    """What becomes of tasks of these costs, the first of which is begun before the others come."""
    asked = []
    for task, cost in enumerate(costs):
        asked.append(asyncio.ensure_future(engine.run(gate, task, cost=cost, **options)))
        while not (gate.batches or asked[0].done()):
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.02)
    refused = sum(one.done() for one in asked)
    gate.opened.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, BusyError) for answer in answers) == refused, "refused at once"
    return answers


def test_what_cannot_be_answered_in_time_is_refused_at_once() -> None:
    engine = Engine(patience=10.0)
    answers = asyncio.run(ask_at_once(engine, Gate(), [4.0, 4.0, 4.0, 4.0, 1.0]))
    engine.close()
    assert [answers[k] for k in (0, 1, 4)] == [0, 1, 4], "small requests still fit"
    assert [answers[k].seconds for k in (2, 3)] == [2, 2]
    assert "the server is busy with 8 s of work; ask again in 2 s" in str(answers[2])


def test_a_task_that_finds_nobody_is_accepted_whatever_it_costs() -> None:
    engine = Engine(patience=1.0)
    first, second = asyncio.run(ask_at_once(engine, Gate(), [50.0, 1.0]))
    engine.close()
    assert first == 0
    assert second.seconds in (49, 50)


def test_a_client_that_has_its_answer_finds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its next task must not be refused because of the one that was just finished."""
    busy: list[bool] = []
    settle = engine_module._settle

    def watched(*given: Any) -> None:
        busy.append(engine.busy)
        settle(*given)

    monkeypatch.setattr(engine_module, "_settle", watched)
    engine = Engine()
    assert asyncio.run(engine.run(single(lambda wanted: 1), None, cost=50.0)) == 1
    engine.close()
    assert busy == [False]


def test_too_many_tasks_are_refused() -> None:
    engine = Engine(max_waiting=3)
    answers = asyncio.run(ask_at_once(engine, Gate(), [0.0] * 9))
    engine.close()
    assert sum(isinstance(answer, BusyError) for answer in answers) == 5


def test_large_tasks_are_computed_one_by_one() -> None:
    engine, gate = Engine(), Gate()
    asyncio.run(ask_at_once(engine, gate, [0.45] * 6, batch_key="same"))
    assert gate.batches == [1, 2, 2, 1]
    gate = Gate()
    asyncio.run(ask_at_once(engine, gate, [4.0] * 4, batch_key="same"))
    engine.close()
    assert gate.batches == [1] * 4


def test_estimates_follow_the_pace_of_the_machine() -> None:
    """After work that took three times as long as estimated, a third of the work is accepted."""

    async def ask() -> list[Any]:
        await engine.run(single(lambda wanted: time.sleep(0.6)), None, cost=0.2)
        return await ask_at_once(engine, Gate(), [4.0, 4.0])

    engine = Engine(patience=10.0)
    _, second = asyncio.run(ask())
    engine.close()
    assert isinstance(second, BusyError)


def test_an_engine_that_stops_answers_what_it_has_accepted() -> None:
    async def ask() -> list[Any]:
        asked = [asyncio.ensure_future(engine.run(gate, task, cost=0.0)) for task in (1, 2)]
        await asyncio.sleep(0.02)
        engine.stop()
        asked.append(asyncio.ensure_future(engine.run(gate, 3, cost=0.0)))
        await asyncio.sleep(0.02)
        assert engine.busy
        gate.opened.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    engine, gate = Engine(), Gate()
    first, second, late = asyncio.run(ask())
    assert (first, second) == (1, 2)
    assert isinstance(late, StoppingError)
    engine.close()
    assert not engine.busy


def test_memory_is_given_back_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back = threading.Event()
    monkeypatch.setattr(engine_module, "REST", 0.05)
    monkeypatch.setattr(engine_module, "give_back_freed_memory", given_back.set)
    engine = Engine()
    assert asyncio.run(engine.run(single(lambda wanted: 1), None, cost=0.0)) == 1
    assert given_back.wait(2)
    engine.close()


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
        first, second = (asyncio.ensure_future(engine.run(compute, k, cost=0.0)) for k in (0, 1))
        await asyncio.sleep(0.05)
        second.cancel()
        first.cancel()
        return await engine.run(compute, 2, cost=0.0)

    engine = Engine()
    assert asyncio.run(ask()) == 2
    assert given_up.wait(2)
    engine.close()
    assert begun == [0, 2]
    with pytest.raises(StoppingError):
        asyncio.run(engine.run(compute, 3, cost=0.0))
