"""Neural Diffusion Processes: what you reach for when a Gaussian process is the wrong prior or too much work.

    model     = ndp.load("universal")
    posterior = model.condition(x, y)                     # [C, D], [C]
    draws     = posterior.sample(x_new, 64)               # [64, M]
    mean, std = posterior.moments(x_new)
    log_p     = posterior.log_prob(x_new, y_new)

    regressor = ndp.NDPRegressor().fit(x, y)              # the same for scikit-learn
    best      = ndp.minimise(f, bounds=[(-1, 1)]).best    # Bayesian optimisation

Names are imported when they are first used, so that `ndp --help` does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ndp.core.old_names import old_names, support_old_modules
from ndp.core.version import __version__ as __version__

if TYPE_CHECKING:
    from ndp.core.typing import Moments as Moments
    from ndp.core.typing import Posterior as Posterior
    from ndp.core.typing import Prior as Prior
    from ndp.core.typing import Process as Process
    from ndp.core.units import ContextUnits as ContextUnits
    from ndp.core.units import FixedUnits as FixedUnits
    from ndp.diffusion.prediction import Prediction as Prediction
    from ndp.diffusion.solvers import ddim as ddim
    from ndp.diffusion.solvers import dpm_solver as dpm_solver
    from ndp.diffusion.solvers import heun as heun
    from ndp.gp.exact import GP as GP
    from ndp.gp.exact import GPPosterior as GPPosterior
    from ndp.gp.mixture import GPMixture as GPMixture
    from ndp.gp.mixture import GPMixturePosterior as GPMixturePosterior
    from ndp.gp.oracle import GPOracle as GPOracle
    from ndp.models.registry import load as load
    from ndp.networks.bidimensional import BiDimensionalAttention as BiDimensionalAttention
    from ndp.optimise.thompson import minimise as minimise
    from ndp.processes.ndp import NDP as NDP
    from ndp.processes.neural_process import NeuralProcess as NeuralProcess
    from ndp.processes.posterior import NDPPosterior as NDPPosterior
    from ndp.processes.repaint import RePaintPosterior as RePaintPosterior
    from ndp.sklearn import NDPRegressor as NDPRegressor

_HOME = {
    "BiDimensionalAttention": "ndp.networks.bidimensional",
    "ContextUnits": "ndp.core.units",
    "FixedUnits": "ndp.core.units",
    "GP": "ndp.gp.exact",
    "GPMixture": "ndp.gp.mixture",
    "GPMixturePosterior": "ndp.gp.mixture",
    "GPOracle": "ndp.gp.oracle",
    "GPPosterior": "ndp.gp.exact",
    "Moments": "ndp.core.typing",
    "NDP": "ndp.processes.ndp",
    "NDPPosterior": "ndp.processes.posterior",
    "NDPRegressor": "ndp.sklearn",
    "NeuralProcess": "ndp.processes.neural_process",
    "Posterior": "ndp.core.typing",
    "Prediction": "ndp.diffusion.prediction",
    "Prior": "ndp.core.typing",
    "Process": "ndp.core.typing",
    "RePaintPosterior": "ndp.processes.repaint",
    "ddim": "ndp.diffusion.solvers",
    "dpm_solver": "ndp.diffusion.solvers",
    "heun": "ndp.diffusion.solvers",
    "load": "ndp.models.registry",
    "minimise": "ndp.optimise.thompson",
}
__all__ = sorted(_HOME)
_old = old_names("ndp", {"JointNDP": "ndp"}, stacklevel=3)
support_old_modules()


def __getattr__(name: str) -> object:
    if name == "facts":
        return import_module("ndp.facts")
    return getattr(import_module(_HOME[name]), name) if name in _HOME else _old(name)


def __dir__() -> list[str]:
    return __all__
