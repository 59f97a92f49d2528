"""The command `ndp`."""

from ndp.apps.cli import playground as playground  # importing these registers their commands
from ndp.apps.cli import predict as predict
from ndp.apps.cli import train as train
from ndp.apps.cli.commands import app

__all__ = ["app"]
