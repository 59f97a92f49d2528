"""A request encodes its points once, however many threads, draws and numbers it needs."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ndp.apps.playground.catalogue import Catalogue
from ndp.apps.playground.engine import CORES

POINTS = [{"x": -0.5, "y": 0.9}, {"x": 0.3, "y": -0.4}]
ASKED = {"context": POINTS, "at": [-1, 0, 1]}
STEPS = 3


@pytest.fixture
def counted(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Counter[str]]:
    """Counts the calls of a model's network by their names."""

    def count(name: str) -> Counter[str]:
        network: Any = catalogue.joint[name].network if name in catalogue.joint else catalogue[name].process.network
        calls: Counter[str] = Counter()
        for method in ("encode_context", "denoise"):
            original = getattr(network, method)

            def counting(*args: Any, method: str = method, original: Any = original, **options: Any) -> Any:
                calls[method] += 1
                return original(*args, **options)

            monkeypatch.setattr(network, method, counting)
        return calls

    return count


@pytest.mark.parametrize("model", ["se", "step", "universal"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("draws", {"draws": 8, "steps": STEPS}),
        ("draws", {"draws": 8, "steps": STEPS, "trajectory": True}),
        ("summary", {"num_samples": 8, "steps": STEPS}),
        ("log-density", {"at": [0.1, 0.6], "values": [[0.0, 0.1], [0.2, 0.3], [1, 1]], "noise": 0.1, "steps": STEPS}),
    ],
    ids=["draws", "trajectory", "summary", "log-density"],
)
def test_a_request_encodes_once(
    client: TestClient, counted: Callable[[str], Counter[str]], model: str, path: str, body: dict[str, Any]
) -> None:
    calls = counted(model)
    response = client.post(f"/api/{path}", json={"model": model} | ASKED | body)
    assert response.status_code == 200, response.text
    assert calls["encode_context"] == 1


def test_a_summary_draws_once(client: TestClient, counted: Callable[[str], Counter[str]]) -> None:
    """Moments and quantiles are of the same draws: each core makes one call a step, and those of the first and the last one."""
    calls = counted("se")
    asked = ASKED | {"model": "se", "num_samples": 8}
    per_step = []
    for steps in (3, 7):
        calls.clear()
        assert client.post("/api/summary", json=asked | {"steps": steps}).status_code == 200
        per_step.append(calls["denoise"])
    assert per_step[1] - per_step[0] == 4 * min(CORES, 8)


@pytest.mark.parametrize(("method", "model"), [("thompson", "se"), ("thompson", "universal"), ("joint", "joint")])
def test_a_step_of_the_search_encodes_once(
    client: TestClient, counted: Callable[[str], Counter[str]], method: str, model: str
) -> None:
    calls = counted(model)
    asked = {"method": method, "model": model, "evaluated": [-1.0, 0.2, 1.4], "draws": 8}
    response = client.post("/api/optimise/step", json=asked)
    assert response.status_code == 200, response.text
    assert calls["encode_context"] == 1
