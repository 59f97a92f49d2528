"""The playground in a thread, for tests that need a real socket."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ndp.apps.playground.catalogue import Catalogue
from ndp.apps.playground.server import Server, make_server


@contextmanager
def listening(catalogue: Catalogue, **options: Any) -> Iterator[int]:
    """The port of a server on loopback, in a thread."""
    with running(catalogue, **options) as (port, _):
        yield port


@contextmanager
def running(catalogue: Catalogue, **options: Any) -> Iterator[tuple[int, Server]]:
    """A server on a free port of loopback, in a thread, and its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = make_server(port=port, catalogue=catalogue, **options)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.started
    yield port, server
    server.should_exit = True
    thread.join(timeout=20)
