"""The programs that the page copies compute the numbers of the page. Node runs the page's own module; no browser is needed."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from ndp.apps.playground.app import static_folder

STATE = {
    "points": [{"x": -0.5, "y": 0.9, "noise": 0}, {"x": 0.3, "y": -0.4, "noise": 0.2}],
    "at": np.linspace(-2, 2, 9).tolist(),
    "draws": 3,
    "calls": 4,
    "seed": 7,
    "more": 1,
    "moreDraws": 2,
}


def copied(function: str, state: dict[str, Any]) -> str:
    """What a function of python.js returns for a state of the page."""
    playwright = pytest.importorskip("playwright")
    node = shutil.which("node") or str(Path(playwright.__file__).parent / "driver" / "node")
    script = f"import {{ {function} }} from {json.dumps((static_folder() / 'python.js').as_uri())};"
    script += f"process.stdout.write({function}({json.dumps(state)}));"
    command = [node, "--no-warnings", "--input-type=module", "-e", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("model", ["se", "matern52", "step", "universal"])
def test_functions(client: TestClient, model: str) -> None:
    names: dict[str, Any] = {}
    exec(copied("pythonFor", STATE | {"model": {"name": model}, "exact": True}), names)
    context = {"model": model, "context": STATE["points"], "at": STATE["at"]}
    drawn = client.post("/api/draws", json=context | {"draws": 3, "steps": 4, "seed": 7}).json()["draws"]
    np.testing.assert_allclose(names["draws"], drawn, atol=2e-5)
    assert len(names["functions"]) == 5
    if model in ("se", "matern52"):
        exact = client.post("/api/exact", json=context).json()["summary"]
        np.testing.assert_allclose(names["exact_mean"], exact["mean"], atol=1e-5)
        np.testing.assert_allclose(names["exact_std"], exact["std"], atol=1e-5)
    else:
        assert "exact_mean" not in names


def test_functions_that_agree_with_facts(client: TestClient) -> None:
    names: dict[str, Any] = {}
    points = [{"x": -0.5, "y": 0.2, "noise": 0}, {"x": 0.3, "y": 0.6, "noise": 0}]
    state = STATE | {
        "points": points,
        "model": {"name": "universal"},
        "exact": False,
        "facts": ["increasing"],
        "more": 0,
    }
    exec(copied("pythonFor", state), names)
    context = {"model": "universal", "context": points, "at": np.linspace(-2, 2, 40).tolist()}
    told = {"draws": 3, "seed": 7, "facts": ["increasing"]}
    drawn = client.post("/api/given", json=context | told).json()["draws"]
    np.testing.assert_allclose(names["draws"], drawn, atol=2e-5)


@pytest.mark.parametrize("source", ["seed", "ink", "file"])
def test_pictures(client: TestClient, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("L", (28, 28), 255).save("picture.png")
    picture = {"seed": {"seed": 3, "calls": 2}, "ink": {"ink": "f" * 784}, "file": {}}[source]
    known = "f" * 98 + "0" * 98  # the upper half
    asked = {"known": known, "draws": 2, "perRequest": 2, "calls": 2, "seed": 5}
    names: dict[str, Any] = {}
    exec(
        copied("pythonForPicture", asked | {"model": {"name": "mnist", "size": 28, "channels": 1}, "picture": picture}),
        names,
    )
    values = names["picture"].reshape(-1, 1)
    assert source == "seed" or (values[:392] == 1).all()
    pixels = [values[k].tolist() if k < 392 else None for k in range(784)]
    response = client.post(
        "/api/images/complete", json={"model": "mnist", "pixels": pixels, "draws": 2, "steps": 2, "seed": 5}
    )
    expected = np.array(response.json()["completions"]).reshape(2, 28, 28, 1)
    np.testing.assert_allclose(names["completions"], expected, atol=1e-4)
