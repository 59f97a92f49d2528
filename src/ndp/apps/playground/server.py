"""The HTTP server of the playground: the address it listens at, the names it answers to, its limits, and how it stops."""

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
from ndp.apps.playground.engine import Engine

HEADER_SECONDS = 10.0
READ_SECONDS = 60.0  # in which a client reads some of its answer
MAX_IDLE, MAX_CONNECTIONS = 256, 512
PATIENCE = 30.0  # seconds in which a server that stops answers what was accepted


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with deadlines, and a bound on idle connections.

    A connection is closed that takes too long to send the headers of a request or to read an answer. Where too many connections
    wait for a request, the one that has waited longest is closed.
    """

    header_seconds = HEADER_SECONDS
    idle: "dict[BoundedProtocol, None]"  # those of a server that wait for a request, in order
    _deadline: asyncio.TimerHandle | None = None
    _read_by: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_deadline()
        self._set_idle()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and not self._answering:
            self._set_deadline()
        super().data_received(data)
        if self._answering:
            self._unset_deadline()
            self.idle.pop(self, None)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._answering and not self.transport.is_closing():
            self._set_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_deadline()
        self._unset_reading()
        self.idle.pop(self, None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_by = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._unset_reading()
        super().resume_writing()

    def _unset_reading(self) -> None:
        if self._read_by is not None:
            self._read_by.cancel()
            self._read_by = None

    def _set_idle(self) -> None:
        self.idle[self] = None
        if len(self.idle) > MAX_IDLE:
            longest = next(iter(self.idle))
            del self.idle[longest]
            longest.transport.close()

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _set_deadline(self) -> None:
        self._deadline = self.loop.call_later(self.header_seconds, self.transport.close)

    def _unset_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """A server that answers what it has accepted before it stops. New work meanwhile gets a 503."""

    def __init__(self, engine: Engine, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._engine = engine

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._engine.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self._engine.busy and not self.force_exit:
                    await asyncio.sleep(0.05)
        await asyncio.to_thread(self._engine.close)  # what is left gets a 503
        self.force_exit = False  # with it, uvicorn ends with a traceback of the app that it leaves behind
        await super().shutdown(sockets)


def make_server(
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    header_seconds: float = HEADER_SECONDS,
    engine: Engine | None = None,
    **options: Any,
) -> Server:
    """A server that is ready to run; `options` are those of `create_app`."""
    protocol = type("Bounded", (BoundedProtocol,), {"header_seconds": header_seconds, "idle": {}})
    engine = engine or Engine()
    app = create_app(hosts=allowed_hosts(host), engine=engine, **options)
    return Server(
        engine,
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
        ),
    )


def allowed_hosts(host: str) -> list[str]:
    """The host names that a server at `host` answers to.

    On loopback these are its own names only: no other site can reach the server by pointing its name at this machine.
    """
    return ["localhost", "127.0.0.1", "[::1]", "::1", host] if is_loopback(host) else ["*"]


def is_loopback(host: str) -> bool:
    """Whether a server at `host` can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
