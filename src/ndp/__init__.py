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

if TYPE_CHECKING:
    from ndp.diffusion.oracle import GPOracle as GPOracle
    from ndp.diffusion.prediction import Prediction as Prediction
    from ndp.diffusion.solvers import ddim as ddim
    from ndp.diffusion.solvers import dpm_solver as dpm_solver
    from ndp.diffusion.solvers import heun as heun
    from ndp.gp import GP as GP
    from ndp.joint import JointNDP as JointNDP
    from ndp.models import load as load
    from ndp.networks.bidimensional import BiDimensionalAttention as BiDimensionalAttention
    from ndp.process import NDP as NDP
    from ndp.typing import Moments as Moments
    from ndp.typing import Posterior as Posterior
    from ndp.typing import Prior as Prior
    from ndp.typing import Process as Process

__version__ = "0.1.0"

_HOME = {
    "GPOracle": "ndp.diffusion.oracle",
    "Prediction": "ndp.diffusion.prediction",
    "ddim": "ndp.diffusion.solvers",
    "dpm_solver": "ndp.diffusion.solvers",
    "heun": "ndp.diffusion.solvers",
    "GP": "ndp.gp",
    "JointNDP": "ndp.joint",
    "load": "ndp.models",
    "BiDimensionalAttention": "ndp.networks.bidimensional",
    "NDP": "ndp.process",
    "Moments": "ndp.typing",
    "Posterior": "ndp.typing",
    "Prior": "ndp.typing",
    "Process": "ndp.typing",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'ndp' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
