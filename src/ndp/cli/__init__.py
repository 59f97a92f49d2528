"""The command `ndp`."""

from ndp.cli import figures as figures  # registers its commands
from ndp.cli import predict as predict
from ndp.cli.commands import app

__all__ = ["app"]
