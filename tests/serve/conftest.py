"""A server and a browser for the tests of the playground."""

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ndp.serve.app import create_app
from ndp.serve.catalogue import Catalogue
from ndp.serve.server import make_server


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return Catalogue()


@pytest.fixture
def client(catalogue: Catalogue) -> Iterator[TestClient]:
    with TestClient(create_app(catalogue)) as client:
        yield client


@contextmanager
def listening(catalogue: Catalogue, **options: Any) -> Iterator[int]:
    """A server on a free port of loopback, in a thread."""
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
    yield port
    server.should_exit = True
    thread.join(timeout=20)


@pytest.fixture(scope="session")
def port(catalogue: Catalogue) -> Iterator[int]:
    with listening(catalogue) as port:
        yield port


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("there is no Chromium here (on Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
