"""How good a posterior is. Functions of draws, densities and truth; nothing here samples."""

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.gp import gaussian_log_prob


def expected_log_prob_gap(
    mean: Float[Tensor, "B M 1"],
    covariance: Float[Tensor, "B M M"],
    true_mean: Float[Tensor, "B M 1"],
    true_covariance: Float[Tensor, "B M M"],
) -> Float[Tensor, "B"]:
    """Expected log-likelihood that a Gaussian loses to the true one, in nats a point: their KL divergence over M."""
    root = torch.linalg.cholesky(covariance)
    true_root = torch.linalg.cholesky(true_covariance)
    spread = torch.linalg.solve_triangular(root, true_root, upper=False).square().sum((-2, -1))
    shift = torch.linalg.solve_triangular(root, true_mean - mean, upper=False).square().sum((-2, -1))
    volume = 2 * (_log_diagonal(root) - _log_diagonal(true_root))
    points = mean.shape[-2]
    return (spread + shift - points + volume) / (2 * points)


def fitted_gaussian_log_prob(
    draws: Float[Tensor, "S B M 1"], y: Float[Tensor, "B M 1"], *, jitter: float = 0.0
) -> Float[Tensor, "B"]:
    """The paper's estimator: the log-density of `y` under a Gaussian fitted to draws, in nats.

    It is not the model's log-density. Fitted to 128 draws of the *exact* posterior over 50 targets it loses 0.22 nats a point,
    0.013 at 1,024: print the exact posterior through the same estimator beside it.
    """
    members, _, points, _ = draws.shape
    if members <= points:
        raise ValueError(f"a Gaussian over {points} points needs more than {points} draws, not {members}")
    mean = draws.mean(dim=0)
    centred = (draws - mean)[..., 0].permute(1, 2, 0)
    covariance = centred @ centred.mT / (members - 1)
    covariance = covariance + jitter * torch.eye(points, dtype=draws.dtype, device=draws.device)
    return gaussian_log_prob(y, mean, covariance)


def _log_diagonal(root: Tensor) -> Tensor:
    return root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
