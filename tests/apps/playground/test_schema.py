"""Requests that fit the OpenAPI schema, or nearly do, are answered without a 5xx and as the schema says."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.python import asgi

from ndp.apps.playground.app import create_app
from ndp.apps.playground.catalogue import Catalogue

SLOW = ("POST", "/api/given")  # takes seconds a request
ENDPOINTS = (
    ("GET", "/api/health"),
    ("GET", "/api/models"),
    ("POST", "/api/draws"),
    ("POST", "/api/summary"),
    ("POST", "/api/exact"),
    ("POST", "/api/log-density"),
    ("GET", "/api/images/models"),
    ("POST", "/api/images/complete"),
    ("GET", "/api/optimise/methods"),
    ("GET", "/api/optimise/function/{number}"),
    ("POST", "/api/optimise/step"),
)
# Requests that cost little, and rows of densities that fit their inputs, which a schema cannot ask for.
BOUNDS = {
    "draws": {"maximum": 2},
    "num_samples": {"maximum": 4},
    "steps": {"maximum": 3},
    "at": {"maxItems": 1},
    "evaluated": {"maxItems": 3},
    "pixels": {"maxItems": 1},
    "values": {"items": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 1}, "minItems": 1},
}
models = Catalogue()


def affordable(described: dict[str, Any]) -> dict[str, Any]:
    """The schema with the bounds above, and no costly default."""
    for one in described["components"]["schemas"].values():
        for name, bounds in BOUNDS.items():
            if name in one.get("properties", {}):
                one["properties"][name] |= bounds
                one["required"] = [*one.get("required", []), name]
    return described


schema = schemathesis.openapi.from_dict(affordable(create_app(models).openapi()))


@pytest.fixture
def session() -> Iterator[asgi.ASGIClient]:
    """A client of an app of its own: schemathesis stops an app for good after each test."""
    with asgi.get_client(create_app(models)) as session:
        yield session


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # a server's threads may, at the same time
@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_requests_of_all_kinds(session: asgi.ASGIClient, method: str, path: str) -> None:
    """Some of them reach the work: they are answered with numbers."""
    statuses: Counter[int] = Counter()

    @given(case=schema[path][method].as_strategy())
    @settings(
        max_examples=16,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    def ask(case: Any) -> None:
        response = case.call(session=session, base_url="http://testserver")
        statuses[response.status_code] += 1
        assert response.status_code < 500
        case.validate_response(response, checks=[schemathesis.checks.not_a_server_error])

    ask()
    assert statuses[200] > 0, statuses


@pytest.fixture
def described(client: TestClient) -> dict[str, Any]:
    return json.loads(client.get("/openapi.json").text)


def test_every_endpoint_is_described(described: dict[str, Any]) -> None:
    paths = described["paths"]
    assert {(method.upper(), path) for path, methods in paths.items() for method in methods} == {*ENDPOINTS, SLOW}
    for path, methods in paths.items():
        for method in methods.values():
            assert method["description"], path


def test_the_schema_names_what_the_page_serves(described: dict[str, Any], catalogue: Catalogue) -> None:
    names = {
        name: one["properties"]["model"]["enum"]
        for name, one in described["components"]["schemas"].items()
        if "enum" in one.get("properties", {}).get("model", {})
    }
    functions = [model.name for model in catalogue]
    assert names.pop("CompletionRequest") == list(catalogue.images)
    assert names.pop("OptimiseRequest") == [*functions, "joint"]
    assert names == dict.fromkeys(
        ("DrawRequest", "SummaryRequest", "ExactRequest", "DensityRequest", "GivenRequest"), functions
    )
