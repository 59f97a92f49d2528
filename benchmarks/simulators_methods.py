"""What is measured on simulators: methods that are fitted to a table, and then asked for new rows."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor

from benchmarks.regressors import Moments, fit_gaussian_process_regressor, fit_single_task_gp
from ndp.core.arrays import read_context
from ndp.core.units import ContextUnits, Units
from ndp.diffusion.levels import CLEAN
from ndp.networks.adaptive_experts import AdaptiveExperts
from ndp.networks.experts import ExpertPosterior, ExpertPredictions
from ndp.sklearn import NDPRegressor

INTERVAL = (0.05, 0.95)
RESTARTS = 4  # of scikit-learn's GP, beside the default start


class Fitted(Protocol):
    """The distributions of new observations at inputs [N, D], each by itself."""

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...

    def log_prob(self, x: np.ndarray, y: np.ndarray) -> np.ndarray: ...

    def interval(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The quantiles of INTERVAL."""
        ...


Method = Callable[[np.ndarray, np.ndarray], Fitted]


@dataclass(frozen=True)
class Gaussian:
    """A fit that predicts normal distributions."""

    moments: Moments

    def log_prob(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(norm(*self.moments(x)).logpdf(y))

    def interval(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        law = norm(*self.moments(x))
        return law.ppf(INTERVAL[0]), law.ppf(INTERVAL[1])


@dataclass(frozen=True)
class Universal:
    """A pretrained NDP, with the default settings of `NDPRegressor`."""

    regressor: NDPRegressor

    @staticmethod
    def fit(x: np.ndarray, y: np.ndarray, model: str, device: str) -> "Universal":
        return Universal(NDPRegressor(model, device=device).fit(x, y))

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of inputs outside the data
            mean, std = self.regressor.predict(x, return_std=True)
        return mean, std

    def log_prob(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            return self.regressor.log_prob(x, y)

    def interval(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            _, quantiles = self.regressor.predict(x, return_quantiles=INTERVAL)
        return quantiles[:, 0], quantiles[:, 1]


@dataclass(frozen=True)
class Experts:
    """The GP experts of a network as a mixture of normal distributions, without the network."""

    experts: ExpertPosterior | AdaptiveExperts
    units: Units

    @staticmethod
    def fit(x: np.ndarray, y: np.ndarray, *, adaptive: bool) -> "Experts":
        context, _ = read_context(x, y, None, None, num_outputs=1, input_dims=None, device=torch.device("cpu"))
        units = ContextUnits().of(context)
        known = units.to_model_x(context.x), units.to_model_y(context.y)[..., 0]
        kind = AdaptiveExperts if adaptive else ExpertPosterior
        return Experts(kind.given(*known, torch.full_like(known[1], CLEAN), context.mask).kept(), units)

    def _predict(self, x: np.ndarray) -> ExpertPredictions:
        places = self.units.to_model_x(torch.as_tensor(x)[None])
        return self.experts.predict(places, torch.zeros(1, dtype=torch.bool))

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = self._predict(x)
        weight = found.log_weight.exp()[..., None]
        mean = (weight * found.mean).sum(1)
        std = (weight * (found.variance + (found.mean - mean[:, None]).square())).sum(1).sqrt()
        return self._values(mean), std[0].numpy() * self._scale

    def log_prob(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        found = self._predict(x)
        at = self.units.to_model_y(torch.as_tensor(y)[None, :, None])[:, None, :, 0]
        each = torch.distributions.Normal(found.mean, found.variance.sqrt()).log_prob(at)
        return (found.log_weight[..., None] + each).logsumexp(1)[0].numpy() - np.log(self._scale)

    def interval(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = self._predict(x)
        ends = [self._values(mixture_quantile(found, probability)) for probability in INTERVAL]
        return np.minimum(*ends), np.maximum(*ends)

    @property
    def _scale(self) -> float:
        return float(self.units.y_scale.abs())

    def _values(self, model_y: Tensor) -> np.ndarray:
        return self.units.from_model_y(model_y[..., None])[0, :, 0].numpy()


def mixture_quantile(found: ExpertPredictions, probability: float) -> Tensor:
    """The quantile of the mixture at every target, [B M], by bisection."""
    weight, std = found.log_weight.exp()[..., None], found.variance.sqrt()
    low, high = (found.mean - 9 * std).amin(1), (found.mean + 9 * std).amax(1)
    for _ in range(60):
        middle = (low + high) / 2
        below = (weight * torch.special.ndtr((middle[:, None] - found.mean) / std)).sum(1) < probability
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


OURS, SINGLE, SKLEARN, GRID, ADAPTIVE = "NDP", "SingleTaskGP", "scikit-learn", "grid experts", "adaptive experts"
GPS = (SINGLE, SKLEARN)


def all_methods(model: str, device: str) -> dict[str, Method]:
    """Every method by its name."""
    return {
        OURS: lambda x, y: Universal.fit(x, y, model, device),
        SINGLE: lambda x, y: Gaussian(fit_single_task_gp(x, y)),
        SKLEARN: lambda x, y: Gaussian(fit_gaussian_process_regressor(x, y, restarts=RESTARTS)),
        GRID: partial(Experts.fit, adaptive=False),
        ADAPTIVE: partial(Experts.fit, adaptive=True),
    }
