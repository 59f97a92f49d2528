"""Requests to the server of the page: small ones, the largest ones, and damaged ones with the statuses that they should get."""

import http.client
import json
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PATIENCE = 120.0  # seconds in which any answer comes, on a machine that is busy with other work too
LONGEST_ERROR, LONGEST_ANSWER = 1_000, 8_000_000  # bytes


@dataclass(frozen=True)
class Request:
    """A request and the statuses that an answer to it may have."""

    kind: str
    path: str
    body: bytes
    expected: tuple[int, ...] = (200,)
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


@dataclass(frozen=True)
class Answer:
    status: int
    seconds: float
    retry_after: int | None
    body: bytes


def ask(port: int, request: Request) -> Answer:
    begun = time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request(request.method, request.path, request.body, dict(request.headers))
        response = connection.getresponse()
        body = response.read(LONGEST_ANSWER + 1)
        retry_after = response.getheader("Retry-After")
    seconds = time.monotonic() - begun
    return Answer(response.status, seconds, int(retry_after) if retry_after else None, body)


def judge(request: Request, answer: Answer) -> str | None:
    """None for an answer with a status that was expected, and a body that is bounded and JSON."""
    if answer.status not in request.expected:
        return f"answers {answer.status} in place of {request.expected}: {answer.body[:200]!r}"
    if b"Traceback" in answer.body:
        return f"the answer holds a traceback: {answer.body[:200]!r}"
    if len(answer.body) > (LONGEST_ANSWER if answer.status == 200 else LONGEST_ERROR):
        return f"the body of a {answer.status} has {len(answer.body)} bytes or more"
    if answer.status in (408, 413, 415, 422, 429, 503) and not json.loads(answer.body).get("detail"):
        return f"a {answer.status} does not say why: {answer.body[:200]!r}"
    if answer.status == 200:
        json.loads(answer.body, parse_constant=lambda name: _not_finite(name))
    return None


def _not_finite(name: str) -> None:
    raise ValueError(f"the answer holds {name}")


def post(kind: str, path: str, expected: tuple[int, ...] = (200,), **body: Any) -> Request:
    return Request(kind, f"/api/{path}", json.dumps(body).encode(), expected)


def small() -> list[Request]:
    """One cheap request of each kind of work."""
    points, at = [{"x": -0.5, "y": 0.9}, {"x": 0.3, "y": -0.4, "noise": 0.2}], [-1.0, -0.2, 0.3, 1.0]
    given: dict[str, Any] = {"model": "se", "context": points, "at": at}
    return [
        post("draws", "draws", **given, draws=2, steps=2),
        post("film", "draws", **given, draws=2, steps=2, trajectory=True),
        post("summary", "summary", **given, num_samples=4, steps=2),
        post("exact", "exact", **given),
        post("density", "log-density", **given, values=[[0.1] * 4], steps=2),
        post("pictures", "images/complete", model="mnist", draws=1, steps=1),
        post("thompson", "optimise/step", model="universal", evaluated=[0, 1, 1.5], draws=2, steps=2),
        post("joint", "optimise/step", model="joint", method="joint", evaluated=[0, 1, 0.5]),
    ]


def largest(steps: int) -> list[Request]:
    """A request of each kind at the limits; `steps` of 50 is as many as are allowed."""
    places = np.random.default_rng(0).uniform(-1, 1, (100, 2)).tolist()
    at = np.linspace(-1, 1, 400).tolist()
    given: dict[str, Any] = {"model": "se", "context": [{"x": x, "y": y, "noise": 0.1} for x, y in places]}
    few = max(2, steps * 2 // 5)
    return [
        post("draws", "draws", **given, at=at, draws=10, steps=steps),
        post("film", "draws", **given, at=at, draws=10, steps=steps, trajectory=True),
        post("summary", "summary", **given, at=at, num_samples=10, steps=steps),
        post("exact", "exact", **given, at=at),
        post("density", "log-density", **given, at=[0], values=[[0.1]] * 128, steps=few, noise=0.3),
        post("long density", "log-density", **given, at=at[::25], values=[[0.1] * 16] * 8, steps=few, noise=0.3),
        post("pictures", "images/complete", model="mnist", draws=8, steps=max(1, steps * 3 // 10)),
        post("thompson", "optimise/step", model="universal", evaluated=at[:60], draws=32, steps=few),
        post("joint", "optimise/step", model="joint", method="joint", evaluated=at[:60]),
    ]


def damaged(rng: np.random.Generator) -> Request:
    """A small request with one thing wrong, or with none."""
    request = small()[rng.integers(len(small()))]
    return DAMAGES[rng.integers(len(DAMAGES))](request, rng)


Damage = Callable[[Request, np.random.Generator], Request]


def _with(request: Request, kind: str, expected: tuple[int, ...], **changes: Any) -> Request:
    values = {"path": request.path, "body": request.body, "method": request.method, "headers": request.headers}
    return Request(f"{request.kind}, {kind}", expected=expected, **(values | changes))


def _field(request: Request, rng: np.random.Generator) -> tuple[dict[str, Any], str]:
    body = json.loads(request.body)
    return body, str(rng.choice(list(body)))


def _nothing(request: Request, rng: np.random.Generator) -> Request:
    return _with(request, "as it should be", (200,))


def _cut(request: Request, rng: np.random.Generator) -> Request:
    return _with(request, "JSON cut short", (400,), body=request.body[: rng.integers(1, len(request.body) - 1)])


def _noise(request: Request, rng: np.random.Generator) -> Request:
    return _with(request, "random bytes", (400,), body=rng.bytes(int(rng.integers(2, 4000))))


def _wrong_type(request: Request, rng: np.random.Generator) -> Request:
    body, name = _field(request, rng)
    body[name] = [{"a": 1}, [[["x"]]], "\ud800 x", None][rng.integers(4)]
    return _with(request, f"wrong type of {name}", (422,), body=json.dumps(body).encode())


def _number(request: Request, rng: np.random.Generator) -> Request:
    body, name = _field(request, rng)
    body[name] = "NUMBER"
    number = str(rng.choice(["NaN", "-Infinity", "1e999", "9" * 400, "-1e300", "1e300"]))
    return _with(request, f"{number[:9]} as {name}", (422,), body=json.dumps(body).replace('"NUMBER"', number).encode())


def _long_number(request: Request, rng: np.random.Generator) -> Request:
    return _with(request, "a number of 5,000 digits", (400,), body=b'{"model": ' + b"9" * 5000 + b"}")


def _deep(request: Request, rng: np.random.Generator) -> Request:
    return _with(request, "deep JSON", (400, 422), body=b'{"at": ' + b"[" * 50_000 + b"]" * 50_000 + b"}")


def _unknown_field(request: Request, rng: np.random.Generator) -> Request:
    body = json.loads(request.body) | {"x" * int(rng.integers(1, 200_000)): 1}
    return _with(request, "an unknown field", (422,), body=json.dumps(body).encode())


def _unknown_model(request: Request, rng: np.random.Generator) -> Request:
    name = str(rng.choice(["../se", "/etc/passwd", "owner/name", "SE", "", "se\n", "x" * 64]))
    return _with(
        request, "an unknown model", (422,), body=json.dumps(json.loads(request.body) | {"model": name}).encode()
    )


def _probability(request: Request, rng: np.random.Generator) -> Request:
    wrong = float(rng.choice([0, 1, -0.1, 2]))
    return post(f"probability {wrong:g}", "exact", (422,), model="se", at=[0], probabilities=[0.5, wrong])


def _too_much(request: Request, rng: np.random.Generator) -> Request:
    given: list[dict[str, Any]] = [
        {"at": [0.1] * 401},
        {"at": [0.1] * 400, "draws": 128},
        {"at": [0.1], "draws": 129},
        {"at": [0.1], "steps": 51},
        {"at": [0.1], "context": [{"x": 0, "y": 0}] * 101},
    ]
    return post("one too many", "draws", (422,), model="se", **given[rng.integers(len(given))])


def _at_the_limit(request: Request, rng: np.random.Generator) -> Request:
    given: list[dict[str, Any]] = [
        {"at": [0.1] * 400, "draws": 1, "steps": 1},
        {"at": [0.1], "draws": 128, "steps": 1},
        {"at": [0.1], "draws": 1, "steps": 50},
        {"at": [100, -100], "draws": 1, "steps": 1},
        {"at": [0.1], "draws": 1, "steps": 1, "context": [{"x": 0.3, "y": 1}] * 100},
        {"at": [0.1], "draws": 1, "steps": 1, "context": [{"x": 100, "y": 1000, "noise": 100}]},
    ]
    return post("at a limit", "draws", (200, 422), model="se", **given[rng.integers(len(given))])


def _method(request: Request, rng: np.random.Generator) -> Request:
    method = str(rng.choice(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "NONSENSE"]))
    return _with(request, method, (404, 405), method=method)


def _content_type(request: Request, rng: np.random.Generator) -> Request:
    kind = str(rng.choice(["text/plain", "application/xml", "multipart/form-data", "x", ""]))
    return _with(request, f"content type {kind!r}", (415, 422), headers={"Content-Type": kind})


def _host(request: Request, rng: np.random.Generator) -> Request:
    host = str(rng.choice(["elsewhere.example", "127.0.0.1.example", "x" * 300, "10.0.0.1", ""]))
    headers = {"Content-Type": "application/json", "Host": host}
    return _with(request, f"host {host[:20]!r}", (400,), headers=headers)


def _too_large(request: Request, rng: np.random.Generator) -> Request:
    return _with(request, "a body of 300 kB", (413,), body=b" " * 300_000)


def _path(request: Request, rng: np.random.Generator) -> Request:
    path = str(
        rng.choice(["/api/none", "/../app.py", "/%2e%2e/app.py", "//etc/passwd", "/api/draws/", "/" + "a" * 5000])
    )
    return _with(request, path[:20], (404, 405, 307), path=path, method=str(rng.choice(["GET", "POST"])))


DAMAGES: tuple[Damage, ...] = (
    _nothing,
    _cut,
    _noise,
    _wrong_type,
    _number,
    _long_number,
    _deep,
    _unknown_field,
    _unknown_model,
    _probability,
    _too_much,
    _at_the_limit,
    _method,
    _content_type,
    _host,
    _too_large,
    _path,
)
