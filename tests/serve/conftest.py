"""A server and a browser for the tests of the playground."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from local_server import listening

from ndp.serve.app import create_app
from ndp.serve.catalogue import Catalogue


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return Catalogue()


@pytest.fixture
def client(catalogue: Catalogue) -> Iterator[TestClient]:
    with TestClient(create_app(catalogue)) as client:
        yield client


@pytest.fixture(scope="session")
def port(catalogue: Catalogue) -> Iterator[int]:
    with listening(catalogue) as port:
        yield port


@pytest.fixture(scope="module")  # while playwright lives, nothing else in this process can run an event loop of its own
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
