"""The command `ndp`."""

from ndp.cli import figures as figures  # these register their commands
from ndp.cli import playground as playground
from ndp.cli import predict as predict
from ndp.cli.commands import app

__all__ = ["app"]
