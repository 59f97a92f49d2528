"""`python -m benchmarks`: the paper's figures and tables, and what else is measured, one command each."""

from benchmarks import figures, playground_commands  # noqa: F401  # these register their commands
from benchmarks.commands import app

if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
