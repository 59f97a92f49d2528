"""Neural Diffusion Processes: what you reach for when a Gaussian process is the wrong prior or too much work.

    model     = ndp.load("oracle-matern52")
    posterior = model.condition(x, y)           # [C, D], [C]
    draws     = posterior.sample(x_new, 64)     # [64, M]
    mean, std = posterior.moments(x_new)
    log_p     = posterior.log_prob(x_new, y_new)

Names are imported when they are first used, so that `ndp --help` does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ndp.core.version import __version__ as __version__

if TYPE_CHECKING:
    from ndp.core.typing import Moments as Moments
    from ndp.core.typing import Posterior as Posterior
    from ndp.core.typing import Prior as Prior
    from ndp.core.typing import Process as Process
    from ndp.diffusion.prediction import Prediction as Prediction
    from ndp.diffusion.solvers import ddim as ddim
    from ndp.diffusion.solvers import dpm_solver as dpm_solver
    from ndp.diffusion.solvers import heun as heun
    from ndp.gp.exact import GP as GP
    from ndp.gp.oracle import GPOracle as GPOracle
    from ndp.models.registry import load as load
    from ndp.networks.bidimensional import BiDimensionalAttention as BiDimensionalAttention
    from ndp.processes.joint import JointNDP as JointNDP
    from ndp.processes.ndp import NDP as NDP


_HOME = {
    "GPOracle": "ndp.gp.oracle",
    "Prediction": "ndp.diffusion.prediction",
    "ddim": "ndp.diffusion.solvers",
    "dpm_solver": "ndp.diffusion.solvers",
    "heun": "ndp.diffusion.solvers",
    "GP": "ndp.gp.exact",
    "JointNDP": "ndp.processes.joint",
    "load": "ndp.models.registry",
    "BiDimensionalAttention": "ndp.networks.bidimensional",
    "NDP": "ndp.processes.ndp",
    "Moments": "ndp.core.typing",
    "Posterior": "ndp.core.typing",
    "Prior": "ndp.core.typing",
    "Process": "ndp.core.typing",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'ndp' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
