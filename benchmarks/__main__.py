"""`python -m benchmarks`: the paper's figures and tables, and other measurements, one command each."""

from benchmarks import commands, number_commands  # noqa: F401  # these register their commands
from benchmarks.options import app

if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
