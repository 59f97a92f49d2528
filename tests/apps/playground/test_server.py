"""The server on a real socket: it rejects clients that are too slow or send too much, and survives them."""

import asyncio
import http.client
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

import pytest
from local_server import listening, running
from typer.testing import CliRunner

from ndp.apps.cli.commands import app
from ndp.apps.playground import server as server_module
from ndp.apps.playground.catalogue import Catalogue
from ndp.apps.playground.engine import Engine, StoppingError
from ndp.apps.playground.limits import GivenUp
from ndp.apps.playground.server import address, allowed_hosts, check_free


@pytest.fixture(scope="module")
def hasty(catalogue: Catalogue) -> Iterator[int]:
    """A server that waits half a second."""
    with listening(catalogue, header_seconds=0.5, body_seconds=0.5) as port:
        yield port


def reply_to(port: int, *pieces: bytes, pause: float = 0.1, wait: float = 5.0) -> bytes:
    """The reply of a server to a client that sends pieces slowly, until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as line:
        try:
            for piece in pieces:
                line.sendall(piece)
                time.sleep(pause)
        except OSError:  # hung up while we were speaking
            pass
        answer = b""
        try:
            while piece := line.recv(4096):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


def health(port: int) -> dict[str, Any]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", "/api/health")
        return json.loads(connection.getresponse().read())


def post(port: int, path: str, **body: Any) -> tuple[int, http.client.HTTPMessage, dict[str, Any]]:
    """Status, headers and answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", f"/api/{path}", json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, response.headers, json.loads(response.read())


LARGE = {"model": "se", "at": [k / 100 for k in range(100)], "draws": 24, "steps": 16}


def is_alive(port: int) -> bool:
    return health(port)["status"] == "ok"


def test_slow_headers_are_cut_off(hasty: int) -> None:
    begun = time.monotonic()
    assert reply_to(hasty, b"GET / HTTP/1.1\r\n", *([b"X: y\r\n"] * 100)) == b""
    assert reply_to(hasty) == b"", "nothing said at all"
    assert time.monotonic() - begun < 8
    assert is_alive(hasty)


def test_slow_headers_of_a_second_request_are_cut_off(hasty: int) -> None:
    first = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    begun = time.monotonic()
    answer = reply_to(hasty, first, *([b"G"] * 100))
    assert answer.count(b"HTTP/1.1") == 1
    assert time.monotonic() - begun < 8


def test_a_slow_body_times_out(hasty: int) -> None:
    head = (
        b"POST /api/draws HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
    )
    answer = reply_to(hasty, head, *([b"{"] * 20))
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"the body did not arrive within 0.5 s" in answer
    assert is_alive(hasty)


@pytest.mark.parametrize("head", [b"Content-Length: 99999999", b"Transfer-Encoding: chunked"])
def test_a_large_body_is_rejected(port: int, head: bytes) -> None:
    request = b"POST /api/draws HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + head + b"\r\n\r\n"
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    answer = reply_to(port, request, *([chunk] * 6 if b"chunked" in head else []), pause=0)
    assert answer.startswith(b"HTTP/1.1 413")
    assert is_alive(port)


def test_what_is_not_http_gets_a_400(port: int) -> None:
    assert reply_to(port, b"\x16\x03\x01 hello\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert reply_to(port, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000, pause=0).startswith(
        b"HTTP/1.1 400"
    )
    assert is_alive(port)


def test_the_name_of_another_site_is_not_answered(port: int) -> None:
    """A page elsewhere whose name is made to point at this machine must not reach the server through a browser."""
    request = b"GET /api/models HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n"
    assert reply_to(port, request).startswith(b"HTTP/1.1 400")


def test_only_loopback_is_listened_to(port: int) -> None:
    others = {address for *_, (address, *_) in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for other in others - {"127.0.0.1"}:
        if other.startswith("127."):
            continue
        with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
            socket.create_connection((other, port), timeout=2)
    assert allowed_hosts("0.0.0.0") == ["*"]
    assert "localhost" in allowed_hosts("127.0.0.1")
    assert address("::1", 80) == "http://[::1]:80/"


def test_a_port_in_use_is_an_error(port: int) -> None:
    with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{port}: Address already in use; try another --port"):
        check_free("127.0.0.1", port)


def test_clients_that_disconnect_leave_no_work_behind(port: int) -> None:
    body = json.dumps({"model": "se", "at": [k / 100 for k in range(100)], "draws": 64, "steps": 20}).encode()
    head = (
        b"POST /api/draws HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    for _ in range(6):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
            line.sendall(head % len(body) + body)
            time.sleep(0.05)
    deadline = time.monotonic() + 20
    waiting = 6
    while waiting and time.monotonic() < deadline:
        waiting = health(port)["waiting"]
        time.sleep(0.1)
    assert waiting == 0


def test_many_clients_are_all_answered(port: int) -> None:
    def ask(client: int) -> list[int]:
        context = [{"x": k / 10, "y": 0.5} for k in range(client % 4)]
        body = {"model": "se", "at": [0, 0.5, 1], "draws": 2, "steps": 2, "context": context, "seed": client}
        found = []
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            for _ in range(2):
                connection.request("POST", "/api/draws", json.dumps(body), {"content-type": "application/json"})
                response = connection.getresponse()
                assert len(json.loads(response.read())["draws"]) == 2
                found.append(response.status)
        return found

    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(ask, range(50))) == [[200, 200]] * 50


def test_large_requests_at_once_are_answered_or_refused_at_once(catalogue: Catalogue) -> None:
    def ask(seed: int) -> tuple[int, float, int]:
        begun = time.monotonic()
        status, headers, _ = post(port, "draws", **LARGE, seed=seed)
        return status, time.monotonic() - begun, int(headers.get("Retry-After", 0))

    with listening(catalogue, engine=Engine(patience=0.8)) as port, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(16)))
    assert {status for status, *_ in answers} == {200, 429}
    for status, seconds, retry_after in answers:
        if status == 429:
            assert retry_after >= 1
            assert seconds < 1


def test_a_server_that_stops_answers_what_it_has_accepted(catalogue: Catalogue) -> None:
    with running(catalogue) as (port, server), ThreadPoolExecutor(4) as pool:
        accepted = [pool.submit(post, port, "draws", **LARGE, seed=seed) for seed in range(3)]
        deadline = time.monotonic() + 5
        while health(port)["waiting"] < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        server.should_exit = True
        status = 200
        while status == 200:
            status, headers, answer = post(port, "draws", model="se", at=[0], draws=1, steps=1)
        assert status == 503
        assert answer == {"detail": str(StoppingError())}
        assert headers["Connection"] == "close"
        assert [each.result()[0] for each in accepted] == [200] * 3


def test_a_second_interrupt_gives_up_what_is_in_flight(catalogue: Catalogue, capfd: pytest.CaptureFixture[str]) -> None:
    with running(catalogue) as (port, server), ThreadPoolExecutor(4) as pool:
        accepted = [pool.submit(post, port, "draws", **LARGE | {"draws": 40, "steps": 50, "seed": k}) for k in range(4)]
        deadline = time.monotonic() + 5
        while health(port)["waiting"] < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        server.should_exit = server.force_exit = True
        assert [each.result()[0] for each in accepted] == [503] * 4
    assert "Traceback" not in capfd.readouterr().err


def test_a_request_that_is_given_up_is_no_server_error() -> None:
    """uvicorn cancels what is left when it stops, such as a client that is still sending."""
    sent: list[Any] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    async def serve() -> None:
        request = asyncio.ensure_future(GivenUp(slow)({"type": "http"}, send, send))
        await asyncio.sleep(0.01)
        request.cancel()
        await request

    asyncio.run(serve())
    assert sent[0]["status"] == 503
    assert b"the server is stopping" in sent[1]["body"]


def test_idle_connections_keep_nobody_out(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that has been idle for longest is closed, be it new or kept alive."""
    monkeypatch.setattr(server_module, "MAX_IDLE", 4)
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 8)
    with listening(catalogue) as port:
        kept = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        kept.request("GET", "/api/health")
        assert kept.getresponse().read()
        idle = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(20)]
        assert is_alive(port)
        assert kept.sock.recv(1) == b"", "closed by the server"
        assert idle[0].recv(1) == b""
        idle[-1].sendall(b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle[-1].recv(100).startswith(b"HTTP/1.1 200")
        for line in (kept, *idle):
            line.close()


def test_a_client_that_does_not_read_its_answer_is_cut_off(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "READ_SECONDS", 0.2)
    with running(catalogue) as (port, server):
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect(("127.0.0.1", port))
            many = b"GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000
            line.settimeout(1)
            with suppress(OSError):
                line.sendall(many)
            deadline = time.monotonic() + 10
            served = server.server_state
            while (served.connections or not served.total_requests) and time.monotonic() < deadline:
                time.sleep(0.05)
        assert not server.server_state.connections


def test_a_server_that_others_can_reach_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "check_free", lambda host, port: None)
    monkeypatch.setattr(server_module, "make_server", lambda **options: None)
    monkeypatch.setattr(server_module, "run", lambda server, **options: None)
    said = {host: CliRunner().invoke(app, ["serve", "--host", host]).output for host in ("127.0.0.1", "::1", "0.0.0.0")}
    assert "Warning: anybody on the network can use it, because of --host 0.0.0.0." in said["0.0.0.0"]
    assert "Warning" not in said["127.0.0.1"] + said["::1"]
