"""Limits of a request: the size of its body and the time in which it must arrive; and security headers of every answer."""

import asyncio
import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ndp.apps.playground.engine import StoppingError

MAX_BYTES = 256 * 1024
BODY_SECONDS = 10.0

# Only the page's own files: no scripts, styles, fonts or pictures of other hosts, and no frame around the page.
SECURITY_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class BoundedBody:
    """Reads the body before the application does; a body that is too large gets a 413, one that is too slow a 408."""

    def __init__(self, app: ASGIApp, *, max_bytes: int = MAX_BYTES, seconds: float = BODY_SECONDS) -> None:
        self.app, self.max_bytes, self.seconds = app, max_bytes, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        too_large = f"the body is larger than {self.max_bytes // 1024} kB"
        if _content_length(scope) > self.max_bytes:
            await _reject(send, 413, too_large)
            return
        body = bytearray()
        try:
            async with asyncio.timeout(self.seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > self.max_bytes:
                        await _reject(send, 413, too_large)
                        return
        except TimeoutError:
            await _reject(send, 408, f"the body did not arrive within {self.seconds:g} s")
            return
        delivered = False

        async def receive_body() -> Message:
            nonlocal delivered
            if delivered:
                return await receive()
            delivered = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self.app(scope, receive_body, send)


class GivenUp:
    """Answers 503 where a server that stops gives a request up, which by itself would be a 500 with a traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except asyncio.CancelledError:
            if not begun:
                await _reject(send, 503, str(StoppingError()))


class SecurityHeaders:
    """Adds the security headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *SECURITY_HEADERS]
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


async def _reject(send: Send, status: int, why: str) -> None:
    """Answer and close the connection; the rest of the body is not read."""
    body = json.dumps({"detail": why}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
