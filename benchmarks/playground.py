"""The speed of the playground: time from a click to new functions, and the server under many clients at once."""

import http.client
import json
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.playground_server import memory_of, running_server
from benchmarks.reliability.server import STEPS, ask_at_once, memory_around, statuses_of_a_stop
from benchmarks.reliability.server_requests import largest
from benchmarks.report import Progress, Report
from ndp.core.extras import require

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Speed:
    """Milliseconds in the browser, from the release of the mouse until the new functions stop moving."""

    clicks: int
    draws: int
    points: int
    calls: int
    median: float
    p95: float
    first_paint: float


@dataclass(frozen=True)
class Load:
    """Answers to many clients, and memory of the server (MB) after a quarter of the time and at the end."""

    clients: int
    seconds: float
    answers: int
    errors: int
    median_seconds: float
    p95_seconds: float
    p99_seconds: float
    memory_early: float
    memory_late: float


@dataclass(frozen=True)
class Limits:
    """What becomes of sixteen largest requests at once (seconds), of the memory (MB), and of four requests at a SIGTERM."""

    answered: int
    refused: int
    slowest_answer: float
    slowest_refusal: float
    memory_start: float
    memory_end: float
    stopped: list[int]

    @property
    def hold(self) -> bool:
        within = self.answered + self.refused == 16 and self.slowest_refusal < 2
        return within and self.memory_end < 1.2 * self.memory_start and set(self.stopped) == {200}


def reproduce_speed(*, clicks: int, draws: int, calls: int, progress: Progress) -> Report:
    """Milliseconds from a click to new functions, in words."""
    require("fastapi", "uvicorn", "playwright", extra="dev")
    speed = measure_speed(clicks=clicks, draws=draws, calls=calls, progress=progress)
    words = (
        f"{draws} draws of {speed.points} points in {calls} solver calls: median {speed.median:.0f} ms, "
        f"95th percentile {speed.p95:.0f} ms of {clicks} clicks; first paint after {speed.first_paint:.0f} ms"
    )
    return Report("playground-speed", [], words, asdict(speed))


def reproduce_load(*, clients: int, seconds: float, progress: Progress) -> Report:
    """Answers to many clients, and to the largest requests, in words; failed if there was an error."""
    require("fastapi", "uvicorn", extra="serve")
    load = measure_load(clients=clients, seconds=seconds, progress=progress)
    limits = measure_limits(progress=progress)
    words = (
        f"{load.clients} clients for {load.seconds:.0f} s: {load.answers} answers, {load.errors} errors; "
        f"median {load.median_seconds:.2f} s, 95th percentile {load.p95_seconds:.2f} s, "
        f"99th percentile {load.p99_seconds:.2f} s; "
        f"memory {load.memory_early:.0f} MB, at the end {load.memory_late:.0f} MB.\n"
        f"Sixteen of the largest requests at once: {limits.answered} answered within {limits.slowest_answer:.1f} s, "
        f"{limits.refused} told within {limits.slowest_refusal:.2f} s when to come back.\n"
        f"Memory after the largest requests: {limits.memory_end:.0f} MB, before them {limits.memory_start:.0f} MB.\n"
        f"Stopped with four requests in flight: {', '.join(map(str, limits.stopped))}"
    )
    return Report(
        "playground-load", [], words, asdict(load) | asdict(limits), failed=load.errors > 0 or not limits.hold
    )


def measure_speed(*, clicks: int, draws: int = 32, calls: int = 7, progress: Progress = lambda words: None) -> Speed:
    """Click in a real browser, again and again, on the model that the page opens with."""
    browser_path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser_path is None:
        raise ValueError("there is no Chromium here; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    rng = np.random.default_rng(0)
    progress("Starting the server")
    with running_server() as (port, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(
            f"http://127.0.0.1:{port}/#model=se&points=&draws={draws}&calls={calls}&seed=0&at=0&show=draws,mean,fan"
        )
        page.wait_for_selector("#posterior[data-state=drawn]", timeout=60_000)
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        page.evaluate(_STOPWATCH)
        box = page.locator("#posterior .surface").bounding_box()
        assert box is not None
        times = []
        for click in range(clicks):
            if click and click % len(_PLACES) == 0:
                _settle(page, lambda: page.evaluate("document.querySelector('#clear').click()"))  # a mouse would scroll
                page.wait_for_timeout(700)
            x, y = _PLACES[click % len(_PLACES)]
            _settle(page, lambda: page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"]))  # noqa: B023
            times.append(float(page.locator("#posterior").get_attribute("data-waited") or "nan"))
            progress(f"Click {click + 1} of {clicks}: {times[-1]:.0f} ms")
            page.wait_for_timeout(int(rng.uniform(300, 1200)))  # people look before they click again
        browser.close()
    median, p95 = np.quantile(times, [0.5, 0.95])
    return Speed(clicks, draws, 120, calls, float(median), float(p95), float(paint))


def _settle(page: Any, act: Callable[[], None]) -> None:
    """Do something, and wait until the new functions stop moving."""
    page.evaluate("delete document.querySelector('#posterior').dataset.waited")
    act()
    try:
        page.wait_for_selector("#posterior[data-waited]", timeout=30_000)
    except Exception as error:
        raise ValueError(f"the page did not answer; it says: {page.inner_text('#status')}") from error


# Of clicks, in shares of the axes.
_PLACES = ((0.1, 0.3), (0.8, 0.7), (0.45, 0.5), (0.3, 0.8), (0.62, 0.25), (0.93, 0.45))
_STOPWATCH = """() => {
  const chart = document.querySelector("#posterior");
  let pressed = 0;
  document.addEventListener("pointerup", () => { pressed = performance.now(); }, true);
  chart.addEventListener("settled", () => {
    requestAnimationFrame(() => { chart.dataset.waited = performance.now() - pressed; });
  });
}"""


def measure_load(*, clients: int, seconds: float, progress: Progress = lambda words: None) -> Load:
    """Clients that each ask for draws again and again, with contexts of all sizes."""
    progress("Starting the server")
    with running_server() as (port, process):
        outcomes: list[list[tuple[float, bool]]] = [[] for _ in range(clients)]
        end = time.monotonic() + seconds
        threads = [
            threading.Thread(target=_keep_asking, args=(port, index, end, outcomes[index])) for index in range(clients)
        ]
        memory = []
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            time.sleep(min(0.5, seconds / 20))
            memory.append(memory_of(process))
            progress(
                f"{sum(map(len, outcomes))} answers, {memory[-1]:.0f} MB, {max(0.0, end - time.monotonic()):.0f} s left"
            )
        for thread in threads:
            thread.join()
    quarter = max(1, len(memory) // 4)
    all_of_them = [one for each in outcomes for one in each]
    good = [taken for taken, fine in all_of_them if fine] or [float("nan")]
    median, p95, p99 = np.quantile(good, [0.5, 0.95, 0.99])
    return Load(
        clients=clients,
        seconds=seconds,
        answers=len(all_of_them),
        errors=sum(not fine for _, fine in all_of_them),
        median_seconds=float(median),
        p95_seconds=float(p95),
        p99_seconds=float(p99),
        memory_early=float(np.median(memory[quarter : 2 * quarter])),
        memory_late=float(np.median(memory[-quarter:])),
    )


def measure_limits(*, steps: int = STEPS, progress: Progress = lambda words: None) -> Limits:
    """The largest requests, of `steps` solver calls: sixteen at once, one of each kind, and at a SIGTERM."""
    progress("Starting the server")
    with running_server() as (port, process):
        progress("One of each kind")
        start, end = memory_around(port, process, steps)
        progress("Sixteen at once")
        answers = ask_at_once(port, largest(steps)[0])
        progress("Stopping at work")
        stopped, _ = statuses_of_a_stop(port, process)
    answered = [answer.seconds for answer in answers if answer.status == 200]
    refused = [answer.seconds for answer in answers if answer.status in (429, 503) and answer.retry_after]
    return Limits(
        answered=len(answered),
        refused=len(refused),
        slowest_answer=max(answered, default=0.0),
        slowest_refusal=max(refused, default=0.0),
        memory_start=start,
        memory_end=end,
        stopped=stopped,
    )


def _keep_asking(port: int, client: int, end: float, outcomes: list[tuple[float, bool]]) -> None:
    rng = np.random.default_rng(client)
    at = np.linspace(-1, 1, 40).tolist()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        while time.monotonic() < end:
            context = [{"x": x, "y": y} for x, y in rng.uniform(-1, 1, (int(rng.integers(0, 8)), 2)).tolist()]
            model = str(rng.choice(["se", "matern52", "step"]))
            body: dict[str, Any] = {"model": model, "context": context, "at": at, "draws": 4, "steps": 5}
            begun = time.monotonic()
            try:
                connection.request("POST", "/api/draws", json.dumps(body), {"content-type": "application/json"})
                response = connection.getresponse()
                fine = len(json.loads(response.read()).get("draws", [])) == 4 and response.status == 200
            except (OSError, ValueError, http.client.HTTPException):
                connection.close()
                fine = False
            outcomes.append((time.monotonic() - begun, fine))
