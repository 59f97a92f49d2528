"""The package is as the contributors' guide says: layers that import downwards only, and files of one purpose."""

import ast
import io
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "ndp"
LAYERS = [
    "core",
    "facts",
    "diffusion",
    "gp",
    "networks",
    "priors",
    "processes",
    "models",
    "training",
    "optimise",
    "tabular",
    "sklearn",
    "apps",
]
MODULES = sorted(PACKAGE.rglob("*.py"))
FILES = [
    *MODULES,
    *sorted(PACKAGE.rglob("*.js")),
    *sorted((ROOT / "benchmarks").rglob("*.py")),
    *sorted((ROOT / "tests").rglob("*.py")),
]


def layer_of(module: str) -> str | None:
    """`gp` for ndp.gp.exact; none for what is beside the layers."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else None


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[str]:
    """All modules of the package that a file names in an import: at its top, in a function, or for types only."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "ndp")
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            if (node.module or "").split(".")[0] == "ndp":
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules_imported(path: Path, known: set[str]) -> set[str]:
    """As `imports_of`, a name from a module being an import of the module."""
    found = {name if name in known else name.rpartition(".")[0] for name in imports_of(path)}
    return found - {name_of(path)}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_imports_a_layer_above_its_own(path: Path) -> None:
    own = layer_of(name_of(path))
    for name in imports_of(path):
        other = layer_of(name)
        if own is not None:
            assert other is not None, f"{name_of(path)} imports {name}, which is above all layers"
            assert LAYERS.index(other) <= LAYERS.index(own), f"{name_of(path)} imports {name}, which is above it"


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = {name_of(path) for path in MODULES}
    graph = {name_of(path): modules_imported(path, known) - {"ndp"} for path in MODULES}
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, f"a circle: {' -> '.join([*above[above.index(module) :], module])}"
        if module not in done:
            for other in graph.get(module, set()):
                visit(other, (*above, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_the_top_of_the_package_is_seen_at_a_glance() -> None:
    entries = {path.name for path in PACKAGE.iterdir()} - {"__pycache__", "py.typed"}
    assert entries == {*LAYERS, "__init__.py", "sklearn.py"} - {"sklearn"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 350


def test_the_wheel_is_small_and_holds_no_experiments_and_no_pictures_of_faces() -> None:
    """The files of the package, compressed as a wheel is."""
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert not [path for path in files if re.search("celeba|experiments", str(path.relative_to(PACKAGE)))]
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path)
    assert len(wheel.getvalue()) <= 20e6


@pytest.mark.parametrize("module", ["ndp", "ndp.apps.cli", "ndp.training.config", "ndp.networks.registry"])
def test_light_modules_import_nothing_heavy(module: str) -> None:
    heavy = "torch", "numpy", "scipy", "sklearn", "pandas", "matplotlib", "gpytorch"
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
