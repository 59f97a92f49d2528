"""What the documentation shows runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_readmes_python_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert names["draws"].shape == (64, 100)  # type: ignore[attr-defined]
    assert (names["low"] < names["high"]).all()  # type: ignore[operator]


@pytest.mark.filterwarnings("ignore:Optimization failed")
def test_the_tutorial_of_optimisation_runs() -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "optimise.md").read_text(), flags=re.DOTALL))
    names: dict[str, object] = {}
    exec(code, names)
    assert names["y"] < 1.0  # type: ignore[operator]
    assert names["candidate"].shape == (1, 2)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "page", sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md"]), ids=str
)
def test_links_and_named_files_exist(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (page.parent / target).exists(), target
    for named in re.findall(r"`((?:src/|docs/|examples/|tests/)[\w./-]+)`", text):
        assert (ROOT / named).exists(), named
