"""The command `ndp`."""

from ndp.cli.commands import app

__all__ = ["app"]
