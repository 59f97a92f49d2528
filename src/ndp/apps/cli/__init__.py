"""The command `ndp`."""

from ndp.apps.cli import playground as playground  # these register their commands
from ndp.apps.cli import predict as predict
from ndp.apps.cli.commands import app

__all__ = ["app"]
