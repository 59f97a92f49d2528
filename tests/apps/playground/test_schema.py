"""Requests that fit the OpenAPI schema, or nearly do, are answered without a 5xx and as the schema says."""

import json
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, settings

from ndp.apps.playground.app import create_app
from ndp.apps.playground.catalogue import Catalogue

schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(Catalogue()))


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # a server's threads may, at the same time
@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
def test_requests_of_all_kinds(case: Any) -> None:
    response = case.call()
    assert response.status_code < 500
    case.validate_response(response, checks=[schemathesis.checks.not_a_server_error])


@pytest.fixture
def described(client: TestClient) -> dict[str, Any]:
    return json.loads(client.get("/openapi.json").text)


def test_every_endpoint_is_described(described: dict[str, Any]) -> None:
    paths = described["paths"]
    assert set(paths) == {
        "/api/health",
        "/api/models",
        "/api/draws",
        "/api/summary",
        "/api/exact",
        "/api/log-density",
        "/api/images/models",
        "/api/images/complete",
        "/api/optimise/methods",
        "/api/optimise/function/{number}",
        "/api/optimise/step",
    }
    for path, methods in paths.items():
        for method in methods.values():
            assert method["description"], path
