"""Packages that only some uses need: the extras of `pip install 'neural-diffusion-processes[EXTRA]'`."""

from importlib.util import find_spec


class MissingExtraError(ImportError):
    """A package that is not installed; the message names the extra that brings it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what}: pip install 'neural-diffusion-processes[{extra}]'")


def require(*packages: str, extra: str) -> None:
    """Raise an error that names the extra to install, if one of these packages is missing."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise MissingExtraError(f"this needs {' and '.join(missing)}", extra)
