"""A server and a browser for the tests of the playground."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from local_server import listening
from visits import Visit

from ndp.apps.playground.app import create_app
from ndp.apps.playground.catalogue import Catalogue, ImageModel
from ndp.networks.image import ImageAttention
from ndp.processes.ndp import NDP

SHOTS = os.environ.get("NDP_SCREENSHOTS")  # a folder: then every test leaves a picture there


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    """The shipped models, and a small untrained one of colour pictures."""
    catalogue = Catalogue()
    torch.manual_seed(0)
    network = ImageAttention(num_outputs=3, width=16, heads=2, blocks=1, level_width=8)
    for weights in network.parameters():  # those of the last layer are zero at first
        torch.nn.init.normal_(weights, std=0.3)
    process = NDP(network.requires_grad_(False).eval(), num_outputs=3, input_dims=(2,))
    colour = ImageModel("colour", process, "Colours", "32 x 32 colour pixels, not trained", 32, 3, calls=4, example=0)
    catalogue.images[colour.name] = colour
    return catalogue


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


@pytest.fixture
def opened(browser: Any, port: int, request: pytest.FixtureRequest) -> Iterator[Callable[..., Visit]]:
    """Opens the page at an address. Nothing is asked of other hosts meanwhile, and the console stays silent."""
    complaints: list[str] = []
    pages: list[Any] = []

    def watch(page: Any) -> None:
        page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("response", lambda got: complaints.append(f"{got.status} {got.url}") if got.status >= 400 else None)
        own = (f"http://127.0.0.1:{port}/", "blob:", "data:")
        page.on("request", lambda made: complaints.append(made.url) if not made.url.startswith(own) else None)

    def open_page(address: str, **options: Any) -> Visit:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 860}} | options))
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        watch(page)
        page.goto(address if address.startswith("http") else f"http://127.0.0.1:{port}/#{address}")
        pages.append(page)
        return Visit(page)

    yield open_page
    for index, page in enumerate(pages):
        if SHOTS:
            name = re.sub(r"\W+", "-", f"{request.node.name} {index}")
            page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)
        page.context.close()
    assert complaints == []
