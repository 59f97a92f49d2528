"""The JSON behind the tab Images: the library's own completions, and messages for user errors."""

import json
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from ndp.apps.completing import complete
from ndp.apps.playground.catalogue import Catalogue

SIZES = {"mnist": (28, 1), "colour": (32, 3)}


def ask(client: TestClient, **body: Any) -> np.ndarray:
    response = client.post("/api/images/complete", json={"steps": 2} | body)
    assert response.status_code == 200, response.text[:300]
    return np.array(response.json()["completions"])


def halved(name: str) -> tuple[np.ndarray, np.ndarray, list[list[float] | None]]:
    """A picture, its known lower half, and both as the page sends them."""
    size, channels = SIZES[name]
    picture = np.random.default_rng(0).uniform(size=(size, size, channels)).round(3)
    known = np.arange(size)[:, None].repeat(size, 1) >= size // 2
    rows = zip(known.ravel(), picture.reshape(-1, channels), strict=True)
    pixels = [values.tolist() if seen else None for seen, values in rows]
    return picture, known, pixels


def test_the_models_of_pictures_are_a_list_of_their_own(client: TestClient) -> None:
    listed = {model["name"]: (model["size"], model["channels"]) for model in client.get("/api/images/models").json()}
    assert listed == SIZES
    functions = {model["name"] for model in client.get("/api/models").json()}
    assert not functions & {"mnist", "colour", "joint"}
    assert "universal" in functions


@pytest.mark.parametrize("name", SIZES)
def test_completions_are_those_of_the_library(client: TestClient, catalogue: Catalogue, name: str) -> None:
    picture, known, pixels = halved(name)
    got = ask(client, model=name, pixels=pixels, draws=3, seed=5)
    wanted = complete(catalogue.images[name].process, picture, known, 3, steps=2, seed=5)
    np.testing.assert_allclose(got, wanted.reshape(3, -1, SIZES[name][1]), atol=2e-4)
    np.testing.assert_allclose(got[:, known.ravel()], picture[known][None].repeat(3, 0), atol=1e-6)
    assert np.abs(got[0] - got[1]).max() > 0.01, "draws differ where pixels are hidden"


def test_without_pixels_pictures_are_of_the_prior(client: TestClient) -> None:
    nothing = ask(client, model="mnist", draws=1, seed=3)
    assert nothing.shape == (1, 784, 1)
    assert 0 <= nothing.min() < nothing.max() <= 1
    np.testing.assert_array_equal(nothing, ask(client, model="mnist", pixels=[None] * 784, draws=1, seed=3))
    assert np.abs(nothing - ask(client, model="mnist", draws=1, seed=4)).max() > 0.01


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pixels": [[0.5]] * 3}, "pixels: mnist takes 28 x 28 = 784 pixels (or none), not 3"),
        ({"pixels": [[0.5]] * 2000}, "pixels: List should have at most 1024 items"),
        ({"pixels": [[0.5, 0.5, 0.5]] + [None] * 783}, "pixels: a pixel of mnist has 1 values, not 3"),
        ({"pixels": [[]] + [None] * 783}, "at least 1 item"),
        ({"pixels": [[0.0]] * 784}, "every pixel is known: there is nothing to complete"),
        ({"pixels": [[float("nan")]] + [None] * 783}, "finite number"),
        ({"pixels": [[1.5]] + [None] * 783}, "less than or equal to 1"),
        ({"pixels": ["white"] + [None] * 783}, "valid list"),
        ({"draws": 9}, "draws: Input should be less than or equal to 8"),
        ({"draws": 0}, "draws: Input should be greater than or equal to 1"),
        ({"draws": 8, "steps": 30}, "draws x solver calls is 240, and may be at most 120"),
        ({"model": "se"}, "there is no such model of pictures; they are: mnist, colour"),
        ({"model": "../mnist"}, "there is no such model of pictures"),
        ({"colour": "red"}, "Extra inputs are not permitted"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_user_errors(client: TestClient, change: dict[str, Any], words: str) -> None:
    body = json.dumps({"model": "mnist", "draws": 1, "steps": 1} | change)
    response = client.post("/api/images/complete", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 422, response.text[:300]
    assert words in response.json()["detail"]


def test_pictures_are_no_models_of_functions(client: TestClient) -> None:
    response = client.post("/api/draws", json={"model": "mnist", "at": [0]})
    assert response.status_code == 422
    assert "there is no such model" in response.json()["detail"]
