"""Modules and names of the first release, which warn and work for one more release."""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# What documents and public classes of the first release named, and where it is now.
_MODULES = {
    "ndp.baselines": "ndp.processes",
    "ndp.baselines.neural_process": "ndp.processes.neural_process",
    "ndp.baselines.refitted_gp": "ndp.processes.refitted_gp",
    "ndp.checkpoint": "ndp.core.io.checkpoint",
    "ndp.completing": "ndp.apps.completing",
    "ndp.demo": "ndp.apps.demo",
    "ndp.diffusion.oracle": "ndp.gp.oracle",
    "ndp.evaluation": "ndp.models.evaluation",
    "ndp.gp_fitting": "ndp.gp.fitting",
    "ndp.gp_mixture": "ndp.gp.mixture",
    "ndp.inverse": "ndp.gp.inverse",
    "ndp.joint": "ndp.processes.ndp",
    "ndp.making": "ndp.training.build",
    "ndp.metrics": "ndp.models.metrics",
    "ndp.named_priors": "ndp.priors.registry",
    "ndp.optimise.joint": "ndp.optimise.joint_search",
    "ndp.optimise.surrogate": "ndp.optimise.botorch",
    "ndp.plotting": "ndp.core.plotting",
    "ndp.predicting": "ndp.apps.predicting",
    "ndp.priors.source": "ndp.priors.tasks",
    "ndp.priors.table": "ndp.priors.functions",
    "ndp.process": "ndp.processes.ndp",
    "ndp.randomness": "ndp.core.randomness",
    "ndp.recipes": "ndp.training.config",
    "ndp.run_folder": "ndp.training.run_folder",
    "ndp.scaling": "ndp.core.units",
    "ndp.serve": "ndp.apps.playground",
    "ndp.serve.app": "ndp.apps.playground.app",
    "ndp.serve.server": "ndp.apps.playground.server",
    "ndp.tables": "ndp.core.io.tables",
    "ndp.typing": "ndp.core.typing",
    "ndp.validation": "ndp.processes.validation",
}
_MAIN = "ndp.__main__"
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


class _OldModules(MetaPathFinder, InspectLoader):
    """Finds old modules when no other finder does, and makes one that forwards to its successor.

    It also finds `ndp.__main__`, so that `python -m ndp` is the command `ndp`.
    """

    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in (*_MODULES, _MAIN):
            return None
        has_modules = any(name.startswith(f"{fullname}.") for name in _MODULES)
        return ModuleSpec(fullname, self, is_package=has_modules)

    def get_source(self, fullname: str) -> str | None:
        return "from ndp.apps.cli import app\n\napp(prog_name='ndp')\n" if fullname == _MAIN else None

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
