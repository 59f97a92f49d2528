"""The JSON behind the page: the library's own numbers, and messages for user errors."""

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

import ndp
from ndp.apps.playground import functions, optimise
from ndp.apps.playground.catalogue import Catalogue
from ndp.apps.playground.engine import Engine, UnwantedError
from ndp.apps.playground.schemas import ExactRequest
from ndp.apps.playground.tasks import (
    VALUES_A_PIECE,
    DrawTask,
    Observations,
    condition_batch,
    drawing,
    log_densities,
    noise_of_seed,
)
from ndp.gp.named import marginalised_gp, regression_gp
from ndp.optimise.joint_search import JointSearch
from ndp.optimise.thompson import Thompson
from ndp.priors.registry import PRIORS

AT = np.linspace(-1, 1, 15)
POINTS = [{"x": -0.5, "y": 0.9}, {"x": 0.3, "y": -0.4, "noise": 0.2}]
MODELS = ("se", "matern52", "matern32-marginal", "step")


def condition(name: str) -> Any:
    x, y, noise = np.array([-0.5, 0.3]), np.array([0.9, -0.4]), np.array([0.0, 0.2])
    return ndp.load(name).condition(x, y, noise=noise)


def post(client: TestClient, path: str, **body: Any) -> Any:
    response = client.post(f"/api/{path}", json={"at": AT.tolist()} | body)
    assert response.status_code == 200, response.text
    return response.json()


def test_the_models_of_the_page(client: TestClient) -> None:
    models = {model["name"]: model for model in client.get("/api/models").json()}
    assert set(MODELS) <= set(models)
    assert (models["step"]["low"], models["step"]["high"]) == (PRIORS["step"].low, PRIORS["step"].high)
    assert models["se"]["exact"] == "Exact Gaussian process"
    assert not models["step"]["optimises"]
    health = client.get("/api/health").json()
    assert health == {"status": "ok", "version": ndp.__version__, "models": len(models), "waiting": 0}


def test_functions_agree_with_the_facts_that_they_are_told(client: TestClient) -> None:
    points = [{"x": -0.5, "y": 0.3}, {"x": 0.3, "y": 0.8}]
    told = post(client, "given", model="universal", context=points, draws=2, facts=["not-negative", "increasing"])
    draws = np.array(told["draws"])
    assert draws.shape == (2, len(AT))
    assert min(draws.min(), np.diff(draws).min()) >= -1e-6


def test_unknown_facts_are_an_error(client: TestClient) -> None:
    body = {"model": "universal", "at": AT.tolist(), "facts": ["increasing", "sometimes"]}
    assert client.post("/api/given", json=body).status_code == 422
    assert client.post("/api/given", json=body | {"facts": []}).status_code == 422


@pytest.mark.parametrize("model", MODELS)
def test_draws_are_those_of_the_library(client: TestClient, model: str) -> None:
    drawn = post(client, "draws", model=model, context=POINTS, draws=3, steps=4, seed=7)
    wanted = condition(model).sample(AT, 3, steps=4, generator=torch.Generator().manual_seed(7))
    np.testing.assert_allclose(drawn["draws"], wanted, atol=2e-5)
    assert drawn["trajectory"] is None


def test_without_points_draws_are_of_the_prior(client: TestClient) -> None:
    drawn = post(client, "draws", model="se", draws=2, steps=3)
    wanted = ndp.load("se").sample(AT, 2, steps=3, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(drawn["draws"], wanted, atol=2e-5)


def test_a_trajectory_goes_from_noise_to_the_same_draws(client: TestClient) -> None:
    asked = {"model": "step", "context": [{"x": 0, "y": 1}], "draws": 4, "steps": 12}
    film = post(client, "draws", trajectory=True, **asked)
    assert film["draws"] == post(client, "draws", **asked)["draws"]
    ratios = [state["ratio"] for state in film["trajectory"]]
    assert ratios == sorted(ratios, reverse=True)
    assert len(ratios) == 12
    first, last = (np.array(film["trajectory"][k]["values"]) for k in (0, -1))
    noise = noise_of_seed(4, len(AT), 0).numpy()
    assert np.abs(first - (0.5 + 0.5 * noise)).max() < 0.1, "it begins with noise, in the units of the values"
    assert np.abs(last - film["draws"]).max() < 0.05


@pytest.mark.parametrize("sizes", [(0, 2, 5), (3, 3)])
def test_a_batch_is_as_one_by_one(catalogue: Catalogue, sizes: tuple[int, ...]) -> None:
    model, rng = catalogue["matern52"].process, np.random.default_rng(0)
    tasks = [
        DrawTask(
            Observations(rng.uniform(-1, 1, size), rng.normal(size=size), np.zeros(size)),
            AT,
            noise_of_seed(3, 15, size),
        )
        for size in sizes
    ]
    compute = drawing(model, 3)
    engine = Engine()
    batch = drawing(model, 3, engine.pool)(tasks, lambda: True)
    for task, drawn in zip(tasks, batch, strict=True):
        (by_itself,) = compute([task], lambda: True)
        np.testing.assert_allclose(drawn.draws, by_itself.draws, atol=1e-4)
    engine.close()


def test_summaries_are_those_of_the_library(client: TestClient) -> None:
    options = {"num_samples": 16, "steps": 3}
    got = post(client, "summary", model="matern52", context=POINTS, probabilities=[0.1, 0.9], **options)
    mean, std = condition("matern52").moments(AT, **options)
    np.testing.assert_allclose(got["mean"], mean, atol=2e-5)
    np.testing.assert_allclose(got["std"], std, atol=2e-5)
    quantiles = condition("matern52").quantiles(AT, [0.1, 0.9], **options)
    np.testing.assert_allclose(got["quantiles"], quantiles, atol=2e-5)


def test_exact_posteriors(client: TestClient) -> None:
    got = post(client, "exact", model="se", context=POINTS)
    mean, std = (
        regression_gp("se")
        .condition(np.array([-0.5, 0.3]), np.array([0.9, -0.4]), noise=np.array([0, 0.2]))
        .moments(AT, observation_noise=True)
    )
    np.testing.assert_allclose(got["summary"]["mean"], mean, atol=1e-6)
    np.testing.assert_allclose(got["summary"]["std"], std, atol=1e-6)
    step = post(client, "exact", model="step", context=[{"x": -0.5, "y": 0}, {"x": 0.5, "y": 1}], at=[-0.7, 0, 0.7])
    np.testing.assert_allclose(step["summary"]["mean"], [0, 0.5, 1], atol=1e-6)
    none = post(client, "exact", model="step", context=[{"x": 0, "y": 1}, {"x": 0.5, "y": 0}])
    assert none["summary"] is None
    assert "no step" in none["reason"]
    marginal = post(client, "exact", model="matern32-marginal", context=POINTS)["summary"]
    exact = marginalised_gp(nodes=24)[0].condition(
        np.array([-0.5, 0.3]), np.array([0.9, -0.4]), noise=np.array([0, 0.2])
    )
    np.testing.assert_allclose(marginal["std"], exact.std(AT, observation_noise=True), atol=1e-6)


def test_exact_posteriors_have_the_noise_of_the_model(client: TestClient, catalogue: Catalogue) -> None:
    """At an observation the function is known to a part of the noise, but a new observation is not."""
    at = {"context": [{"x": 0, "y": 1}], "at": [0], "model": "se"}
    noise = regression_gp("se").noise
    std = post(client, "exact", **at)["summary"]["std"][0]
    assert noise < std == pytest.approx(noise * 2**0.5, rel=0.01)
    separating = replace(catalogue["se"], process=catalogue["universal"].process)
    asked = ExactRequest.model_validate(at)
    (std,) = functions._exact(separating, asked).summary.std  # type: ignore[union-attr]
    assert std < noise


def test_log_densities_are_those_of_the_library(client: TestClient) -> None:
    values = [[0.2, 0.1], [1.0, -1.0]]
    got = post(client, "log-density", model="se", context=POINTS, at=[-0.2, 0.6], values=values, steps=5)
    posterior = condition("se")
    wanted = [posterior.log_prob(np.array([-0.2, 0.6]), np.array(row), steps=5) for row in values]
    np.testing.assert_allclose(got["log_density"], wanted, atol=1e-3)


def test_many_densities_are_those_of_few(client: TestClient) -> None:
    """Many values are computed in pieces, the last of which is filled up."""
    values = np.linspace(-1, 1, 2 * VALUES_A_PIECE + 3)[:, None].tolist()
    asked = {"model": "se", "context": POINTS, "at": [0.1], "steps": 3}
    together = post(client, "log-density", values=values, **asked)["log_density"]
    few = [post(client, "log-density", values=values[row : row + 9], **asked)["log_density"] for row in (0, 29, 58)]
    np.testing.assert_allclose([together[row : row + 9] for row in (0, 29, 58)], few, atol=1e-4)


def test_the_marginal_of_a_step_has_two_peaks(client: TestClient) -> None:
    context = [{"x": -0.5, "y": 0}, {"x": 0.5, "y": 1}]
    values = [[0.0], [0.5], [1.0]]
    low, middle, high = post(
        client, "log-density", model="step", context=context, at=[0], values=values, noise=0.05, steps=10
    )["log_density"]
    assert min(low, high) > middle + 3


def test_a_step_of_the_search_is_the_librarys(client: TestClient, catalogue: Catalogue) -> None:
    evaluated: list[float] = []
    model = catalogue["se"]
    hidden = optimise.hidden_function(5)
    optimiser = Thompson([[-2, 2]], model.process, rule=optimise.RULE, initial=2, domain=(-2.0, 2.0), seed=3)
    for _ in range(4):
        asked = {"model": "se", "function": 5, "seed": 3, "evaluated": evaluated, "draws": 2}
        response = client.post("/api/optimise/step", json=asked)
        assert response.status_code == 200, response.text
        got = response.json()
        ((point,),) = optimiser.ask()
        assert got["chosen"] == pytest.approx(point, abs=1e-6)
        optimiser.tell([got["chosen"]], hidden(got["chosen"]))
        evaluated.append(got["chosen"])
    assert np.shape(got["draws"]) == (2, len(got["at"]))
    assert got["at"] == sorted(got["at"])
    lowest = int(np.argmin(got["draws"][0]))
    assert got["at"][lowest] == got["chosen"]
    assert got["regret"][-1] == pytest.approx(optimiser.best[1] - hidden.y.min(), abs=1e-5)
    shown = client.get("/api/optimise/function/5").json()
    assert shown["best_y"] == min(shown["y"])
    assert client.get("/api/optimise/methods").json() == ["thompson", "joint"]


def test_a_joint_step_is_the_librarys(client: TestClient, catalogue: Catalogue) -> None:
    evaluated: list[float] = []
    hidden = optimise.hidden_function(5)
    search = JointSearch([[-2, 2]], catalogue.joint["joint"], initial=2, seed=3)
    for step in range(4):
        asked = {"method": "joint", "model": "joint", "function": 5, "seed": 3, "evaluated": evaluated}
        response = client.post("/api/optimise/step", json=asked)
        assert response.status_code == 200, response.text
        got = response.json()
        ((point,),) = search.ask()
        assert got["chosen"] == pytest.approx(point, abs=1e-4)
        assert got["draws"] == []
        assert (got["target"] is None) == (len(got["places"]) == 0) == (step < 2), "the first points are random"
        evaluated.append(got["chosen"])
        search.tell([got["chosen"]], hidden(got["chosen"]))
    assert got["target"] < min(hidden(x) for x in evaluated[:-1])
    assert len(got["places"]) == optimise.PLACES
    assert -2 <= min(got["places"]) < max(got["places"]) <= 2


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b'{"model": "se", "at": [NaN]}', 422, "at.0: Input should be a finite number"),
        (b'{"model": "se", "at": [0], "context": [{"x": 0, "y": -Infinity}]}', 422, "context.0.y: Input should be"),
        (b'{"model": "se", "at": [1e999]}', 422, "finite"),
        (b'{"model": "se", "at": []}', 422, "at least 1 item"),
        (b'{"model": "se", "at": [0], "draws": 0}', 422, "draws: Input should be greater than or equal to 1"),
        (b'{"model": "se", "at": [0], "colour": "red"}', 422, "colour: Extra inputs are not permitted"),
        (b'{"model": "se", "at": [0], "' + b"c" * 200_000 + b'": 1}', 422, "c" * 40 + "...: Extra inputs are not"),
        (b'{"model": "../se", "at": [0]}', 422, "there is no such model; the models are: se, matern52"),
        (b'{"model": "/etc", "at": [0]}', 422, "there is no such model"),
        (b'{"model": "hub/name", "at": [0]}', 422, "there is no such model"),
        (b'{"model": "\\ud800", "at": [0]}', 422, "model"),
        (
            b'{"model": "se", "at": ' + str([0.5] * 400).encode() + b', "draws": 128}',
            422,
            "may be at most 200,000; reduce one of them",
        ),
        (b'{"model": "se", "at": ' + b"[" * 20000 + b"}", 400, ""),
        (b'{"model": "se", "at": [' + b"9" * 5000 + b"]}", 400, ""),
        (b"{", 400, "the body is not JSON"),
        (b"\xff\xfe", 400, ""),
        (b"", 422, "Field required"),
        (b'{"model": "se", "at": [' + b"0.1," * 10**6 + b"0]}", 413, "larger than 256 kB"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_user_errors(client: TestClient, body: bytes, status: int, words: str) -> None:
    response = client.post("/api/draws", content=body, headers={"content-type": "application/json"})
    assert response.status_code == status, response.text[:300]
    assert words in response.json()["detail"]
    assert len(response.content) < 400


def test_user_errors_of_the_other_endpoints(client: TestClient) -> None:
    for path, body, words in (
        ("log-density", {"model": "se", "at": [0, 1], "values": [[1]]}, "every function needs 2 values"),
        ("log-density", {"model": "se", "at": [0], "values": [[1]], "noise": 1e-9}, "below the least"),
        (
            "exact",
            {"model": "se", "at": [0], "probabilities": [0.5, 1]},
            "probabilities.1: Input should be less than 1",
        ),
        (
            "summary",
            {"model": "se", "at": [0], "probabilities": [0]},
            "probabilities.0: Input should be greater than 0",
        ),
        ("optimise/step", {"model": "se", "method": "magic"}, "the methods are: thompson, joint"),
        ("optimise/step", {"model": "se", "method": "joint"}, "there is no such joint model; they are: joint"),
        ("optimise/step", {"model": "joint"}, "there is no such model; the models are: se"),
        ("optimise/step", {"model": "se", "evaluated": [3]}, "less than or equal to 2"),
    ):
        response = client.post(f"/api/{path}", json=body)
        assert response.status_code == 422, response.text
        assert words in response.json()["detail"]


@pytest.mark.parametrize("path", ["/../app.py", "/..%2fapp.py", "/%2e%2e/app.py", "//etc/passwd", "/static/index.html"])
def test_no_file_outside_the_static_folder_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_the_page_keeps_to_itself(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert client.get("/api/models").headers["x-content-type-options"] == "nosniff"
    assert "http" not in page.text.replace("http-equiv", "")


def test_many_requests_at_once(catalogue: Catalogue) -> None:
    """Concurrent tasks are computed in batches, and every one gets its own answer."""
    model = catalogue["se"].process
    given = [Observations(np.array([0.1 * k]), np.array([1.0]), np.zeros(1)) for k in range(12)]
    compute = drawing(model, 2)

    async def ask() -> list[Any]:
        tasks = (DrawTask(one, AT, noise_of_seed(2, 15, 0)) for one in given)
        return await asyncio.gather(*(engine.run(compute, task, cost=0.01, batch_key="draws") for task in tasks))

    engine = Engine()
    answers = asyncio.run(ask())
    engine.close()
    assert engine.largest_batch > 1
    posterior = condition_batch(model, given)
    at = torch.as_tensor(AT)[None, :, None].expand(12, -1, -1)
    noise = noise_of_seed(2, 15, 0)[:, None, :, None].expand(-1, 12, -1, -1)
    wanted = np.asarray(posterior.sample(at, 2, steps=2, base_noise=noise))
    np.testing.assert_allclose(np.stack([answer.draws for answer in answers], axis=1), wanted, atol=1e-4)


def test_work_of_a_client_that_leaves_stops_at_its_next_piece(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws, and so summaries, stop between solver calls, and densities between pieces."""
    model, engine = catalogue["se"].process, Engine()
    network: Any = model.network
    calls: list[int] = []
    original = network.denoise
    monkeypatch.setattr(network, "denoise", lambda *given: calls.append(1) or original(*given))
    observed = Observations(np.zeros(1), np.ones(1), np.zeros(1))

    def left() -> bool:
        return not calls

    task = DrawTask(observed, AT, noise_of_seed(2, len(AT), 0))
    with pytest.raises(UnwantedError):
        drawing(model, 50)([task], left)
    assert len(calls) <= 3, "the call that finds the noise, and one or two of the solver"
    calls.clear()
    values = np.zeros((4 * VALUES_A_PIECE, 1))
    with pytest.raises(UnwantedError):
        log_densities(model, observed, np.zeros(1), values, noise=0.1, steps=2, pool=engine.pool, wanted=left)
    some = len(calls)
    log_densities(model, observed, np.zeros(1), values, noise=0.1, steps=2, pool=engine.pool, wanted=lambda: True)
    assert len(calls) - some > 1.5 * some, "of four pieces at most those of two threads are computed"
    engine.close()
