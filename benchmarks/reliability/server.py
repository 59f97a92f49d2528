"""The server of the page under bad requests, bad clients and too many of both.

It runs in a process of its own on loopback, which lives as long as `attempts` is iterated: run each attempt as it comes.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.playground_server import memory_of, running_server
from benchmarks.reliability.attempts import Attempt, Sizes
from benchmarks.reliability.server_requests import Answer, Request, ask, damaged, judge, largest, post, small

AT_ONCE = (
    2.0  # seconds in which a refusal comes, and an answer to a small request where the server has nothing else to do
)
REST = 2.0  # seconds after which the server has given memory back
GROWTH = 1.2  # of its memory
IDLE = 560
STEPS = 50  # of the largest requests


def attempts(sizes: Sizes, folder: Path) -> Iterator[Attempt]:
    """Attempts on one server, the last of which stops it, and on others that are stopped at work."""
    log = folder / "server.log"
    with running_server(log) as (port, process):
        yield from fuzzed(port, sizes)
        for index in range(sizes.of(40)):
            yield _attempt("bytes that are no request", send_bytes, port, np.random.default_rng([sizes.seed, 1, index]))
        for index in range(sizes.of(30)):
            yield _leaving(port, np.random.default_rng([sizes.seed, 2, index]))
        for _ in range(sizes.of(3)):
            yield _attempt(f"{IDLE} idle connections", idle_connections, port)
        for request in [largest(sizes.of(STEPS))[k] for k in (0, 2, 5)][: sizes.of(3)]:
            yield _attempt(f"sixteen of {request.kind} at once", at_once, port, request)
        yield _attempt("memory after the largest requests", memory, port, process, sizes.of(STEPS))
        yield from _stopped(port, process, log)
    for index in range(1, sizes.of(3)):
        log = folder / f"server-{index}.log"
        with running_server(log) as (port, process):
            yield from _stopped(port, process, log)


def _attempt(name: str, call: Callable[..., str | None], *given: Any) -> Attempt:
    def run() -> str | None:
        try:
            return call(*given)
        except Exception as error:  # such as no answer at all
            return f"{type(error).__name__}: {error}"

    return Attempt(name, run)


def fuzzed(port: int, sizes: Sizes) -> Iterator[Attempt]:
    """Small requests with one thing wrong."""
    for index in range(sizes.of(540)):
        request = damaged(np.random.default_rng([sizes.seed, index]))
        yield _attempt(request.kind, answered, port, request)


def _leaving(port: int, rng: np.random.Generator) -> Attempt:
    """Clients that hang up while their work waits or goes on; the work is not finished for nobody."""
    costly = [request for request in largest(STEPS) if request.kind not in ("exact", "joint")]
    chosen = [costly[k] for k in rng.integers(0, len(costly), 3)]
    names = ", ".join(request.kind for request in chosen)
    return _attempt(f"clients leave: {names}", leave, port, chosen, float(rng.uniform(0, 0.4)))


def _stopped(port: int, process: int, log: Path) -> Iterator[Attempt]:
    yield _attempt("stopped at work", stopped_at_work, port, process)
    yield _attempt("the log of the server", check_log, log)


def answered(port: int, request: Request) -> str | None:
    return judge(request, ask(port, request))


def send_bytes(port: int, rng: np.random.Generator) -> str | None:
    """None if the server says that these are no request, or hangs up, and answers the next client."""
    heads = [
        b"",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api/draws HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/draws HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /api/draws HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000,
    ]
    sent = heads[rng.integers(len(heads))] + rng.bytes(int(rng.integers(1, 500))) + b"\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=15) as line:
        reply = b""
        with suppress(ConnectionError):
            line.sendall(sent)
            reply = line.recv(4096)
    if reply and not reply.startswith((b"HTTP/1.1 4", b"HTTP/1.1 505")):
        return f"answers {reply[:100]!r}"
    return _is_free(port)


def leave(port: int, requests: list[Request], after: float) -> str | None:
    lines = []
    for request in requests:
        line = socket.create_connection(("127.0.0.1", port), timeout=15)
        head = f"POST {request.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        line.sendall(f"{head}Content-Length: {len(request.body)}\r\n\r\n".encode() + request.body)
        lines.append(line)
    time.sleep(after)
    for line in lines:
        line.close()
    return _is_free(port)


def _is_free(port: int) -> str | None:
    """None where a small request is answered at once, but for a piece of work that goes on."""
    request = small()[0]
    try:
        answer = ask(port, request)
    except OSError as error:
        return f"the next client is not answered: {error}"
    wrong = judge(request, answer)
    if wrong is None and answer.seconds > 2 * AT_ONCE:
        wrong = f"the next client waits for {answer.seconds:.1f} s"
    return wrong


def idle_connections(port: int) -> str | None:
    with ExitStack() as stack:
        for _ in range(IDLE):
            with suppress(ConnectionError):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        return _is_free(port)


def at_once(port: int, request: Request, clients: int = 16) -> str | None:
    """None if each of the clients is answered, or told at once when to come back."""
    answers = ask_at_once(port, request, clients)
    if not any(answer.status == 200 for answer in answers):
        return "no client is served"
    return next(filter(None, map(_late, answers)), None)


def ask_at_once(port: int, request: Request, clients: int = 16) -> list[Answer]:
    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(lambda _: ask(port, request), range(clients)))


def _late(answer: Answer) -> str | None:
    if answer.status == 200:
        return None
    if answer.status not in (429, 503):
        return f"answers {answer.status}: {answer.body[:200]!r}"
    if answer.seconds > AT_ONCE:
        return f"a {answer.status} comes after {answer.seconds:.1f} s"
    return None if answer.retry_after else f"a {answer.status} does not say when to come back"


def memory(port: int, process: int, steps: int) -> str | None:
    """None if the largest requests leave the memory within a fifth of its start."""
    start, end = memory_around(port, process, steps)
    return f"{end:.0f} MB in place of {start:.0f}" if end > GROWTH * start else None


def memory_around(port: int, process: int, steps: int) -> tuple[float, float]:
    """Memory before and after one of the largest requests of each kind, at rest, in MB.

    Before them is after one small request of each kind: models, libraries and their work space are loaded then.
    """
    return _memory_after(port, process, small()), _memory_after(port, process, largest(steps))


def _memory_after(port: int, process: int, requests: list[Request]) -> float:
    for request in requests:
        wrong = judge(request, ask(port, request))
        if wrong:
            raise RuntimeError(f"{request.kind}: {wrong}")
    time.sleep(REST)
    return memory_of(process)


def stopped_at_work(port: int, process: int) -> str | None:
    """None if SIGTERM answers what is in flight, and refuses what comes later."""
    statuses, late = statuses_of_a_stop(port, process)
    if statuses != [200] * len(statuses):
        return f"what was in flight is answered with {statuses}"
    if late not in (None, 503):
        return f"a request that comes later is answered with {late}"
    deadline = time.monotonic() + 40
    while _listens(port) and time.monotonic() < deadline:
        time.sleep(0.1)
    return "the server does not end" if _listens(port) else None


def statuses_of_a_stop(port: int, process: int) -> tuple[list[int], int | None]:
    """Statuses of four requests that are in flight at a SIGTERM, and of one that comes later (None: nobody listens)."""
    work: dict[str, Any] = {"model": "se", "at": [k / 100 for k in range(100)], "draws": 10, "steps": 50}
    waiting = post("draws", "draws", **work)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, port, waiting) for _ in range(4)]
        time.sleep(0.5)
        os.kill(process, signal.SIGTERM)
        time.sleep(0.3)  # the server looks for signals ten times a second
        late = _late_request(port)
        return [one.result().status for one in asked], late


def _late_request(port: int) -> int | None:
    """The status of a request to a server that stops, or None where it does not listen any more."""
    try:
        return ask(port, small()[0]).status
    except OSError:
        return None


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            return True
    except OSError:
        return False


def check_log(log: Path) -> str | None:
    text = log.read_text()
    line = next((line for line in text.splitlines() if "Traceback" in line or "Exception" in line), None)
    return None if line is None else f"the server logs {line[:200]!r}: {text[-200:]!r}"
