"""The universal model and its baselines, fitted Gaussian processes and a random forest: predictions of new observations."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp
from scipy.stats import norm

from ndp.sklearn import NDPRegressor

PROBABILITIES = np.concatenate([[0.05, 0.95], (np.arange(20) + 0.5) / 20])  # an interval, then evenly spread ones


@dataclass(frozen=True)
class Prediction:
    """Log-densities of the true values [N], quantiles at PROBABILITIES [Q, N], and seconds for fit and predict."""

    log_prob: np.ndarray
    quantiles: np.ndarray
    seconds: float


Regressor = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Prediction]

# Of new observations at inputs [N, D]: means [N] and standard deviations [N].
Moments = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def universal(model: str, device: str) -> Regressor:
    """The pretrained NDP. Its time is that of quantiles, without the density, which only a score needs."""

    def run(x: np.ndarray, y: np.ndarray, x_new: np.ndarray, y_new: np.ndarray) -> Prediction:
        began = time.perf_counter()
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            regressor = NDPRegressor(model, device=device).fit(x, y)
            _, quantiles = regressor.predict(x_new, return_quantiles=PROBABILITIES.tolist())
            seconds = time.perf_counter() - began
            return Prediction(regressor.log_prob(x_new, y_new), quantiles.T, seconds)

    return run


def single_task_gp(
    x: np.ndarray, y: np.ndarray, x_new: np.ndarray, y_new: np.ndarray, *, device: str = "cpu"
) -> Prediction:
    """The prediction of `fit_single_task_gp`."""
    began = time.perf_counter()
    mean, std = fit_single_task_gp(x, y, device=device)(x_new)
    return _gaussian(mean, std, y_new, time.perf_counter() - began)


def single_task_gp_draws(x: np.ndarray, y: np.ndarray, x_new: np.ndarray, draws: int) -> np.ndarray:
    """Joint draws of the fitted GP: [draws, N]."""
    model = _fitted(x, y, "cpu")
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        posterior = model.posterior(torch.as_tensor(x_new), observation_noise=True)
        drawn: np.ndarray = posterior.rsample(torch.Size((draws,)))[..., 0].numpy()
        return drawn


def fit_single_task_gp(x: np.ndarray, y: np.ndarray, *, device: str = "cpu") -> Moments:
    """BoTorch's SingleTaskGP as it is, by maximum likelihood, on inputs in the unit box and standardised targets."""
    model = _fitted(x, y, device)

    def moments(x_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            posterior = model.posterior(torch.as_tensor(x_new, device=device), observation_noise=True)
            mean, variance = (t[:, 0].cpu().numpy() for t in (posterior.mean, posterior.variance))
        return mean, np.sqrt(np.maximum(variance, 1e-20))

    return moments


def _fitted(x: np.ndarray, y: np.ndarray, device: str) -> Any:
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    with warnings.catch_warnings(action="ignore"):
        inputs, targets = (torch.as_tensor(t, device=device) for t in (x, y[:, None]))
        model = SingleTaskGP(inputs, targets, input_transform=Normalize(x.shape[1]), outcome_transform=Standardize(1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def gaussian_process_regressor(x: np.ndarray, y: np.ndarray, x_new: np.ndarray, y_new: np.ndarray) -> Prediction:
    """The prediction of `fit_gaussian_process_regressor`."""
    began = time.perf_counter()
    mean, std = fit_gaussian_process_regressor(x, y)(x_new)
    return _gaussian(mean, std, y_new, time.perf_counter() - began)


def fit_gaussian_process_regressor(x: np.ndarray, y: np.ndarray, *, restarts: int = 0) -> Moments:
    """scikit-learn's, with an ARD squared exponential kernel and noise, on standardised inputs."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    kernel = ConstantKernel() * RBF(np.ones(x.shape[1]), (1e-2, 1e3)) + WhiteKernel(0.1, (1e-6, 1e1))
    gp = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=restarts, random_state=0)
    fitted = make_pipeline(StandardScaler(), gp)
    with warnings.catch_warnings(action="ignore"):
        fitted.fit(x, y)

    def moments(x_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with warnings.catch_warnings(action="ignore"):
            mean, std = fitted.predict(x_new, return_std=True)
        return mean, np.maximum(std, 1e-10)

    return moments


def random_forest(x: np.ndarray, y: np.ndarray, x_new: np.ndarray, y_new: np.ndarray) -> Prediction:
    """A quantile regression forest (Meinshausen, 2006): training targets, weighed by how often they share a leaf.

    Its density is a Gaussian kernel estimate with those weights, of Silverman's width.
    """
    from sklearn.ensemble import RandomForestRegressor

    began = time.perf_counter()
    forest = RandomForestRegressor(200, min_samples_leaf=5 if len(y) > 20 else 2, random_state=0).fit(x, y)
    known, asked = forest.apply(x), forest.apply(x_new)
    shared = asked[:, None, :] == known[None]
    weights = (shared / shared.sum(1, keepdims=True)).mean(2)
    order = np.argsort(y)
    ends = weights[:, order].cumsum(1)
    place = (ends[None] < PROBABILITIES[:, None, None]).sum(2).clip(max=len(y) - 1)
    seconds = time.perf_counter() - began
    mean = weights @ y
    spread = np.sqrt(np.maximum(weights @ y**2 - mean**2, 1e-12 * y.var() + 1e-300))
    width = 1.06 * spread * (weights**2).sum(1) ** 0.2
    each = norm.logpdf(y_new[:, None], y[None], width[:, None])
    log_prob = logsumexp(each + np.log(np.maximum(weights, 1e-300)), axis=1)
    return Prediction(log_prob, y[order][place], seconds)


def _gaussian(mean: np.ndarray, std: np.ndarray, y_new: np.ndarray, seconds: float) -> Prediction:
    predicted = norm(mean, std)
    return Prediction(predicted.logpdf(y_new), predicted.ppf(PROBABILITIES[:, None]), seconds)
