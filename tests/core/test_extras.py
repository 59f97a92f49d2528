"""A use that needs an extra names it, wherever it begins: each in a process in which the package is not there."""

import subprocess
import sys

import pytest

SERVE = r"pip install 'neural-diffusion-processes[serve]'"


def last_line(hidden: str, program: str) -> str:
    """Of what a process without a package prints."""
    lines = f"import sys\nsys.modules[{hidden!r}] = None\n{program}"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("hidden", "module"), [("fastapi", "ndp.apps.playground.app"), ("uvicorn", "ndp.serve.server")]
)
def test_the_page_names_its_extra(hidden: str, module: str) -> None:
    assert last_line(hidden, f"import {module}") == f"ndp.core.extras.MissingExtraError: this needs {hidden}: {SERVE}"


@pytest.mark.parametrize("hidden", ["fastapi", "uvicorn"])
def test_the_command_that_serves_it_is_one_line(hidden: str) -> None:
    command = "sys.argv = ['ndp', 'serve', '--no-open']\nfrom ndp.apps.cli import app\napp()"
    assert last_line(hidden, command) == f"Error: this needs {hidden}: {SERVE}"
