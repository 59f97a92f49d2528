"""Files for the tests of the command line."""

from pathlib import Path

import pytest

AT = "x1\n-0.5\n0.9\n0.1\n"
CONTEXT = "x1,y,noise\n-0.6,1.2,0.1\n0.0,-0.4,0\n0.3,0.2,0.3\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the files that the commands below name."""
    monkeypatch.chdir(tmp_path)
    files = {
        "at.csv": AT,
        "context.csv": CONTEXT,
        "nothing.csv": "x1,y\n",
        "at2.csv": "x1,x2\n0,1\n1,0\n",
        "context2.csv": "x1,x2,y\n0,1,0.5\n",
        "text.csv": "x1,y\n0,1\n1,many\n",
        "no-y.csv": "x1\n0\n",
        "picture.csv": "\x89PNG\x00",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="latin-1")
    return tmp_path
