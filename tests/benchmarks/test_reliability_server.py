"""The server's family holds, and notices a server that does not."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.reliability import server
from benchmarks.reliability.attempts import QUICK
from benchmarks.reliability.server_requests import Answer, judge, post, small


def test_the_server_holds(tmp_path: Path) -> None:
    outcomes = [(attempt.name, attempt.run()) for attempt in server.attempts(QUICK, tmp_path)]
    assert [(name, wrong) for name, wrong in outcomes if wrong] == []
    assert len(outcomes) >= 30


class Broken(http.server.BaseHTTPRequestHandler):
    """Fails at every request, with a traceback for an answer."""

    def do_POST(self) -> None:
        self.send_response(500)
        self.end_headers()
        self.wfile.write(b"Traceback (most recent call last): ...")

    do_GET = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_POST  # noqa: N815

    def log_message(self, *given: object) -> None:
        pass


@pytest.fixture
def broken() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Broken) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield listening.server_address[1]
        listening.shutdown()
        thread.join()


def test_a_server_that_fails_is_noticed(broken: int, tmp_path: Path) -> None:
    assert all(attempt.run() for attempt in server.fuzzed(broken, QUICK))
    assert "500" in str(server.leave(broken, small()[:1], 0.0))
    assert "no client is served" in str(server.at_once(broken, small()[0]))
    log = tmp_path / "server.log"
    log.write_text("INFO\nTraceback (most recent call last):\n")
    assert "Traceback" in str(server.check_log(log))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(422, 0.1, None, b'{"detail": "' + b"x" * 2000 + b'"}'), "the body of a 422 has 2014 bytes"),
        (Answer(422, 0.1, None, b"{}"), "does not say why"),
        (Answer(503, 0.1, None, b'{"detail": "busy"}'), "answers 503 in place of"),
    ],
)
def test_a_bad_answer_is_noticed(answer: Answer, words: str) -> None:
    request = post("draws", "draws", (200, 422))
    assert words in str(judge(request, answer))


def test_a_late_refusal_is_noticed() -> None:
    assert "comes after 30.0 s" in str(server._late(Answer(429, 30.0, 1, b"{}")))
    assert "does not say when" in str(server._late(Answer(429, 0.1, None, b"{}")))
    assert server._late(Answer(429, 0.1, 3, b"{}")) is None
