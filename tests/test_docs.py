"""What the documentation shows runs, and what it names exists."""

import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from benchmarks.__main__ import app as benchmarks_app
from ndp.apps.cli import app as ndp_app
from ndp.core.old_names import _MODULES
from ndp.training.config import Recipe

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("benchmarks/results/*.md"),
    ]
)
APPS = {"ndp": typer.main.get_command(ndp_app), "python -m benchmarks": typer.main.get_command(benchmarks_app)}
BLOCK = re.compile(r"(?:^ *<!-- (not run|after): ([^\n]*?) -->\n)?^( *)```(\w+)\n(.*?)^\3```", re.DOTALL | re.MULTILINE)
# What the numbers on a page are to be, beside the shapes that its comments give.
PROMISES = {
    "README.md": "(low < high).all() and abs(mean).max() < 3 and -50 < float(log_p) < 5",
    "optimise.md": "y < 1.0 and candidate.shape == (1, 2) and history.best[1] < 0.5",
    # 0.9: five standard errors of the difference of two means of 64 draws.
    "solvers.md": "abs(draws.mean(0) - by_heun.mean(0)).max() < 0.9 and by_repaint.shape == by_ddpm.shape",
    "joint.md": "places.min() >= -1 and places.max() <= 1",
    "values-and-noise.md": "functions.shape == noisy.shape and abs(float(log_p)) < 50",
    "images.md": "0.0 <= float(known.float().mean()) <= 0.6",
    "facts.md": "np.diff(curves).min() >= 0 and curves.max() <= 1 and densities.min() >= 0 and rates.min() > 0",
    "universal.md": "(np.diff(quantiles, axis=1) > 0).all() and (std > 0).all()",
    "tables.md": "len(told) == 3 and means.shape == (10, 2) and (np.diff(quantiles, axis=1) > 0).all()",
    "your-own-functions.md": "(low < high).all() and sum(name.startswith('1950') for name in rows['task']) in (0, 600)",
}
TINY_RUN = "batch = 2\nsteps = 1\nwarmup = 1\n[network]\nwidth = 8\nblocks = 1\nheads = 1\n"


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> Iterator[tuple[str, str, str]]:
    """The code of a page in a language, each block with the mark before it (`not run` or `after`) and what that says."""
    for mark, words, _, found, code in BLOCK.findall(page.read_text()):
        if found == language:
            yield textwrap.dedent(code), mark, words


@pytest.mark.filterwarnings("ignore:Optimization failed")
@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page, "python"))], ids=page_name)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "tiny.toml").write_text(TINY_RUN)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code, mark, words in blocks(page, "python"):
        if mark == "not run":
            assert words, "say why a block is not run"
            continue
        if mark == "after":
            options = [*shlex.split(words)[1:], "--config", "tiny.toml", "--device", "cpu"]
            result = CliRunner().invoke(ndp_app, options)
            assert result.exit_code == 0, result.output
        exec(compile(code, page.name, "exec"), names)
        for name, shape in re.findall(r"^(\w+) = [^#\n]*#[^\n]*?\[([\d, ]+)\]", code, flags=re.MULTILINE):
            assert np.shape(names[name]) == tuple(int(size) for size in shape.split(",")), name  # type: ignore[arg-type]
    assert eval(PROMISES[page.name], names), PROMISES[page.name]


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page, "toml"))], ids=page_name)
def test_the_recipes_of_a_page_are_recipes(page: Path) -> None:
    for code, _, _ in blocks(page, "toml"):
        settings = tomllib.loads(code)
        recipe = Recipe.from_dict(settings).as_dict()
        assert {name: recipe[name] for name in settings if name != "network"} == {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in settings.items()
            if name != "network"
        }


def commands(page: Path) -> Iterator[list[str]]:
    """The words of all commands that a page quotes, in code of its own lines and within sentences."""
    for line in re.sub(r"\\\n\s*", "", page.read_text()).splitlines():
        if page.name == "migrating.md":
            line = re.sub(r"^\|[^|]*\|", "|", line)  # the column of old names
        quoted = [line.strip()] if line.startswith("    ") else re.findall(r"`([^`]+)`", line)
        for text in quoted:
            command = re.split(r"\s{2,}|\s#\s", text.removeprefix(".venv/bin/"))[0]
            command = re.sub(r"^torchrun .*? (?=ndp )", "", command)
            if re.match(r"(ndp|make|python -m benchmarks) \S", command) and "=" not in command.split()[1]:
                yield shlex.split(re.sub(r"[\[\]]", " ", command))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_commands_of_a_page_exist(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for words in commands(page):
        if words[0] == "make":
            assert words[1] in targets, words
            continue
        program, rest = ("ndp", words[1:]) if words[0] == "ndp" else ("python -m benchmarks", words[3:])
        if rest in (["--help"], ["NAME"], ["reproduce", "NAME"]):  # the last is what 0.1 had
            continue
        known = APPS[program].commands  # type: ignore[attr-defined]
        assert rest[0] in known, words
        options = {
            option for parameter in known[rest[0]].params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        wrong = [word for word in rest[1:] if word.startswith("--") and word not in {*options, "--help"}]
        assert not wrong, f"{' '.join(words)} has no {wrong}"


def anchors(page: Path) -> set[str]:
    """The names that a page's headings can be linked by."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_and_named_files_exist(page: Path) -> None:
    text = page.read_text()
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"
    for named in re.findall(r"`((?:src|docs|examples|tests|benchmarks)/[\w./-]+)`", text):
        assert (ROOT / named).exists(), named


def test_each_page_and_picture_is_linked() -> None:
    everything = "".join(page.read_text() for page in PAGES)
    for file in [*ROOT.glob("docs/images/*"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/results/*.md")]:
        assert file.name == "index.md" or f"{file.name})" in everything or f"{file.name}#" in everything, file


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "migrating.md"], ids=page_name)
def test_old_names_are_gone(page: Path) -> None:
    old = "tells_noise|counts_neighbours|counts_dims|trust_only|--expected|scouts?\\b|JointNDP|ScaledByContext|told plainly"
    assert not re.findall(rf"{old}|of_function|\.marginals\b|\.observations\b|noisy=", page.read_text())


def test_the_table_of_old_modules_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "migrating.md").read_text()
    assert dict(re.findall(r"^\| `(ndp[\w.]*)` \| `(ndp\.[\w.]*)` \|$", text, flags=re.MULTILINE)) == _MODULES
