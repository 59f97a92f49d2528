"""What a request may be: its body of a bounded size, whole within seconds, addressed to this host."""

import asyncio
import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 256 * 1024
BODY_SECONDS = 10.0

# Nothing but the page's own files: no script, style, font or picture from elsewhere, and no frame around it.
SAFETY_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class BoundedBody:
    """Reads a body before the application does, and turns away what is too large (413) or too slow (408)."""

    def __init__(self, app: ASGIApp, *, most_bytes: int = MOST_BYTES, seconds: float = BODY_SECONDS) -> None:
        self.app, self.most_bytes, self.seconds = app, most_bytes, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        too_large = f"the body is larger than {self.most_bytes // 1024} kB"
        if _content_length(scope) > self.most_bytes:
            await _turn_away(send, 413, too_large)
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
                    if len(body) > self.most_bytes:
                        await _turn_away(send, 413, too_large)
                        return
        except TimeoutError:
            await _turn_away(send, 408, f"the body did not come within {self.seconds:g} s")
            return
        handed_over = False

        async def replay() -> Message:
            nonlocal handed_over
            if handed_over:
                return await receive()
            handed_over = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self.app(scope, replay, send)


class SafetyHeaders:
    """Adds the headers that keep the page to itself."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *SAFETY_HEADERS]
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


async def _turn_away(send: Send, status: int, why: str) -> None:
    """Answer and close: what is left of the body is not read."""
    body = json.dumps({"detail": why}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
