"""How well a Gaussian process explains a target by each of several encodings of a table: what chooses among them.

It is the evidence p(y | x), not a fit: an encoding with more columns has no advantage by itself. A process has a lengthscale
for every column, and the Laplace approximation integrates over them.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ndp.core.units import centre_and_spread
from ndp.gp.climbing import Ascent, climb
from ndp.gp.evidence import FAMILIES, HyperPrior, Observations, Slope, slope

STEPS = 8
START = (2.0, 0.08)  # a lengthscale, times the root of the number of columns, and a noise
PRIOR = HyperPrior()


def log_evidences(candidates: Sequence[np.ndarray], y: np.ndarray) -> list[float]:
    """The log-evidence of `y` [N] given each of the matrices [N, D_i], up to a constant, in nats."""
    real = [_standardised(matrix) for matrix in candidates]
    return [_log_evidence(matrix, _standardised(y[:, None])[:, 0]) for matrix in real]


def _standardised(values: np.ndarray) -> Tensor:
    """Varying columns in the units that a model gives them."""
    tensor = torch.as_tensor(values, dtype=torch.float64)[None]
    centre, spread = centre_and_spread(tensor, torch.ones(1, len(values), dtype=torch.bool))
    kept = spread[0, 0] > 0
    return ((tensor - centre) / torch.where(spread > 0, spread, 1.0))[0][:, kept | (not bool(kept.any()))]


@torch.no_grad()
def _log_evidence(x: Tensor, y: Tensor) -> float:
    known = Observations(x[None], y[None], torch.zeros_like(y)[None], torch.ones_like(y, dtype=torch.bool)[None])
    dim = x.shape[1]
    lengthscale, noise = math.log(START[0]) + 0.5 * math.log(dim), math.log(START[1])
    theta = x.new_tensor([*(lengthscale for _ in range(dim)), noise]).expand(1, len(FAMILIES), 1, -1)

    def density(at: Tensor) -> Slope:
        return slope(known, PRIOR, at)

    top = climb(density, Ascent.at(theta, density(theta)), STEPS)
    root, _ = torch.linalg.cholesky_ex(top.curvature)
    log_det = 2 * root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    laplace = top.value - 0.5 * log_det + 0.5 * (dim + 1) * math.log(2 * math.pi)
    return float(laplace.nan_to_num(-math.inf).logsumexp((0, 1, 2)))
