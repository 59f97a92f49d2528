"""Names of models to models, in one place.

gp-se, gp-matern52            the exact Gaussian processes of the paper's regression experiments
oracle-se, oracle-matern52    an NDP driven by the perfect denoiser of the same process, in place of a trained network
"""

import gpytorch

from ndp.diffusion.oracle import GPOracle
from ndp.gp import GP, ScaledToDimension
from ndp.process import NDP

OBSERVATION_NOISE = 0.05
LENGTHSCALE = 0.25  # times sqrt(D)

_KERNELS = {
    "se": gpytorch.kernels.RBFKernel,
    "matern52": lambda: gpytorch.kernels.MaternKernel(nu=2.5),
}


def names() -> list[str]:
    """All names that `load` knows."""
    return [f"{family}-{kernel}" for family in ("gp", "oracle") for kernel in _KERNELS]


def load(name: str) -> GP | NDP:
    """The model of that name."""
    if name not in names():
        raise ValueError(f"there is no model named {name!r}; there are: {', '.join(names())}")
    family, kernel = name.split("-")
    gp = regression_gp(kernel)
    return gp if family == "gp" else NDP(GPOracle(gp), noise_floor=gp.noise)


def regression_gp(kernel: str) -> GP:
    """The paper's data: kernel "se" or "matern52" of lengthscale sqrt(D) / 4 and unit variance, noise 0.05."""
    base = _KERNELS[kernel]()
    base.lengthscale = LENGTHSCALE
    return GP(ScaledToDimension(base), noise=OBSERVATION_NOISE)
