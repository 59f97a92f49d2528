"""Modules and names of the first release, which warn and work for one more release."""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# What documents and public classes of the first release named, and where it is now.
_MODULES = {
    "ndp.completing": "ndp.apps.completing",
    "ndp.diffusion.oracle": "ndp.gp.oracle",
    "ndp.inverse": "ndp.gp.inverse",
    "ndp.joint": "ndp.processes.ndp",
    "ndp.optimise.joint": "ndp.optimise.joint_search",
    "ndp.optimise.surrogate": "ndp.optimise.botorch",
    "ndp.priors.table": "ndp.priors.functions",
    "ndp.process": "ndp.processes.ndp",
    "ndp.randomness": "ndp.core.randomness",
    "ndp.scaling": "ndp.core.units",
    "ndp.typing": "ndp.core.typing",
}
_RENAMED = {"JointNDP": "NDP", "Scaling": "FixedUnits", "ScaledByContext": "ContextUnits"}


def support_old_modules() -> None:
    """Let `import` find the modules of the first release."""
    if not any(isinstance(finder, _OldModules) for finder in sys.meta_path):
        sys.meta_path.append(_OldModules())


def old_names(package: str, homes: Mapping[str, str], *, stacklevel: int = 2) -> Callable[[str], object]:
    """A package's `__getattr__` for names that have left it: `homes` says for each of them the module that it is in now."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        now = _RENAMED.get(name, name)
        warnings.warn(
            f"{package}.{name} is deprecated: use {homes[name]}.{now}", DeprecationWarning, stacklevel=stacklevel
        )
        return getattr(import_module(homes[name]), now)

    return find


class _OldModules(MetaPathFinder, Loader):
    """Finds old modules when no other finder does, and makes one that forwards to its successor."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in _MODULES else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        home = _MODULES[module.__name__]
        warnings.warn(f"the module {module.__name__} is deprecated: use {home}", DeprecationWarning, stacklevel=2)
        successor = import_module(home)

        def find(name: str) -> object:
            if not hasattr(successor, _RENAMED.get(name, name)):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            return getattr(successor, _RENAMED.get(name, name))

        module.__getattr__ = find  # type: ignore[method-assign]
