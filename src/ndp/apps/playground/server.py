"""The HTTP server of the playground: the address it listens at, the names it answers to, and deadlines for slow clients."""

import asyncio
import ipaddress
import socket
import threading
import webbrowser
from contextlib import suppress
from typing import Any

import torch
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ndp.apps.playground.app import create_app

HEADER_SECONDS = 10.0
MAX_CONNECTIONS = 512


class DeadlineProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with a deadline for the headers of every request. A connection that misses it is closed."""

    header_seconds = HEADER_SECONDS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_deadline()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and not self._answering:
            self._set_deadline()
        super().data_received(data)
        if self._answering:
            self._unset_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_deadline()
        super().connection_lost(exc)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _set_deadline(self) -> None:
        self._deadline = self.loop.call_later(self.header_seconds, self.transport.close)

    def _unset_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def make_server(
    *, host: str = "127.0.0.1", port: int = 8000, header_seconds: float = HEADER_SECONDS, **options: Any
) -> uvicorn.Server:
    """A server that is ready to run; `options` are those of `create_app`."""
    protocol = type("Deadline", (DeadlineProtocol,), {"header_seconds": header_seconds})
    app = create_app(hosts=allowed_hosts(host), **options)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            http=protocol,
            ws="none",
            lifespan="on",
            log_level="warning",
            timeout_keep_alive=15,
            timeout_graceful_shutdown=3,
            limit_concurrency=MAX_CONNECTIONS,
            server_header=False,
        )
    )


def allowed_hosts(host: str) -> list[str]:
    """The host names that a server at `host` answers to.

    On loopback these are its own names only: no other site can reach the server by pointing its name at this machine.
    """
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    return ["localhost", "127.0.0.1", "[::1]", "::1", host] if loopback else ["*"]


def check_free(host: str, port: int) -> None:
    """Raise an `OSError` if the port is in use, before the models are loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise OSError(f"cannot listen at {host}:{port}: {error.strerror or error}; try another --port") from None


def address(host: str, port: int) -> str:
    """The address of the page."""
    shown = "127.0.0.1" if host == "0.0.0.0" else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/"


def run(server: uvicorn.Server, *, host: str, port: int, open_page: bool) -> None:
    """Serve until interrupted."""
    torch.set_num_threads(1)  # the engine's thread pool divides the draws instead
    if open_page:
        opener = threading.Timer(0.5, webbrowser.open, [address(host, port)])
        opener.daemon = True
        opener.start()
    with suppress(KeyboardInterrupt):
        server.run()
