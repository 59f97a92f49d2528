"""All families of attempts, in the order in which they run; a family is imported when it does."""

from importlib import import_module

from benchmarks.reliability.attempts import Family

FAMILIES = {
    "arrays": "odd arrays for processes and the regressor",
    "tables": "damaged and foreign files for tables and pictures",
    "commands": "command lines that ask for too much, full disks, missing extras",
    "checkpoints": "damaged and hostile model folders, and a writer beside a reader",
    "runs": "training that is killed, diverges, or finds its folder damaged",
    "server": "requests to the page's server: fuzzed, too large, abandoned, at its end",
}


def family(name: str) -> Family:
    """The attempts of a family, by its name."""
    if name not in FAMILIES:
        raise ValueError(f"there is no family named {name!r}; the families are: {', '.join(FAMILIES)}")
    found: Family = import_module(f"benchmarks.reliability.{name}").attempts
    return found
