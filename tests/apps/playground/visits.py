"""A page in a browser, and what a visitor does there."""

import re
from typing import Any


class Visit:
    """A page, and what a visitor can see and do on it."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def settled(self) -> None:
        self.page.wait_for_selector("#posterior[data-state=drawn], #posterior[data-state=idle]", timeout=30_000)

    def idle(self) -> None:
        self.page.wait_for_selector("#posterior[data-state=idle]", timeout=60_000)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where in the window the values are: the surface covers the axes, from the lowest to the highest of each."""
        box = self.page.locator("#posterior .surface").bounding_box()
        return box["x"] + box["width"] * (x + 2) / 4, box["y"] + box["height"] * (3 - y) / 6

    def click(self, x: float, y: float) -> None:
        self.page.mouse.click(*self.place(x, y))

    @property
    def points(self) -> list[list[float]]:
        """The points as they are in the address."""
        self.page.wait_for_timeout(250)
        text = re.search(r"points=([^&]*)", self.page.url)
        assert text
        return [[float(v) for v in point.split(",")] for point in text[1].split(";") if point]

    @property
    def draws(self) -> list[str]:
        return self.page.eval_on_selector_all("#posterior .draws path", "all => all.map(p => p.getAttribute('d'))")

    def status(self, words: str) -> None:
        self.page.wait_for_function(
            "words => document.getElementById('status').textContent.includes(words)", arg=words, timeout=30_000
        )
