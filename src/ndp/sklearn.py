"""`NDPRegressor`: a pretrained NDP as a scikit-learn regressor. It needs the extra `sklearn`.

regressor = NDPRegressor().fit(X, y)                    # stores the data: there is nothing to train
mean, std = regressor.predict(X_new, return_std=True)
draws     = regressor.sample_y(X_new, 64)               # functions, or observations, joint over all rows
"""

from collections.abc import Sequence
from copy import copy, deepcopy
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ndp.core.devices import read_device
from ndp.core.input_limits import MOST_OBSERVATIONS, columns_to_keep, rows_to_keep, within_reach
from ndp.processes.ndp import NDP, NDPPosterior

# For joint draws. Seven are enough for Gaussian posteriors, which those of a model that does not know what it sees are not; two
# more leave two thirds of the error.
FEWEST_CALLS = 9


class NDPRegressor(RegressorMixin, BaseEstimator):
    """Predictions of a pretrained NDP, with no fitting: calibrated, not Gaussian, and with coherent draws.

    `model` is a name, a folder, or an NDP whose context sets its units. Predictions are marginal, each row by itself given the
    data, and free of random numbers; `steps` network calls make each. Joint draws never take fewer than 9 calls. Rows beyond
    the 256 that the model was trained for are subsampled (by `random_state`), inputs beyond 10 chosen; a warning says so.
    """

    # Arguments are checked by `fit`, as scikit-learn wants it, and so they are not annotated.
    def __init__(
        self, model: Any = "universal", *, steps: Any = 5, device: Any = "auto", random_state: Any = 0
    ) -> None:
        self.model = model
        self.steps = steps
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "NDPRegressor":
        """Store the data; what it cannot take in is said here."""
        if not isinstance(self.steps, (int, np.integer)) or self.steps < 1:
            raise ValueError(f"steps must be a whole number of at least 1, not {self.steps!r}")
        _refuse_categories(X)
        x, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        dims = self._ndp().input_dims
        rows = rows_to_keep(y, MOST_OBSERVATIONS, np.random.default_rng(self.random_state))
        self.columns_ = columns_to_keep(x, y, max(dims) if dims else x.shape[1])
        self.X_train_, self.y_train_ = x[rows][:, self.columns_], y[rows].astype(np.float64)
        self.low_, self.high_, self.spread_ = x.min(0), x.max(0), x.std(0)
        return self

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_quantiles: Sequence[float] | None = None,
        *,
        noisy: bool = True,
    ) -> Any:
        """The mean at every row, and if asked for its standard deviation [N] or quantiles of these probabilities [N, Q].

        They are of a new observation, or with `noisy=False` of the function without its noise.
        """
        x = self._inputs(X)
        laws = self._posterior(noisy).marginals
        if return_quantiles is None:
            answer = list(laws.moments(x, steps=self.steps)[: 1 + return_std])
        else:
            moments, quantiles = laws.moments_and_quantiles(x, return_quantiles, steps=self.steps)
            answer = [*moments[: 1 + return_std], quantiles.T]
        arrays = tuple(np.asarray(part, dtype=np.float64) for part in answer)
        return arrays[0] if len(arrays) == 1 else arrays

    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = 0,
        *,
        noisy: bool = True,
    ) -> np.ndarray:
        """Joint draws over all rows, [N, n_samples]: of new observations, or with `noisy=False` of whole functions."""
        x = self._inputs(X)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        draws = self._posterior(noisy).sample(
            x, n_samples, steps=max(self.steps, FEWEST_CALLS), generator=torch.Generator().manual_seed(seed)
        )
        return np.asarray(draws, dtype=np.float64).T

    def log_prob(self, X: Any, y: Any) -> np.ndarray:
        """Log-density of an observation `y` at every row by itself, in nats: [N]."""
        x = self._inputs(X)
        values = np.asarray(y, dtype=np.float64).reshape(len(x))
        return np.asarray(self._posterior(True).marginals.log_prob(x, values), dtype=np.float64)

    def _inputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=np.float64)
        return within_reach(x, self.low_, self.high_, self.spread_)[:, self.columns_]

    def _posterior(self, noisy: bool) -> NDPPosterior:
        ndp = self._ndp()
        posterior = ndp.condition(self.X_train_, self.y_train_)
        return posterior.observations if noisy and getattr(ndp.network, "tells_noise", False) else posterior

    def _ndp(self) -> NDP:
        if isinstance(self.model, NDP):
            return _on_device(self.model, self.device)
        if not isinstance(self.model, str):
            raise ValueError(f"model must be a name, a folder or an NDP, not {self.model!r}")
        return _loaded(self.model, self.device)


@lru_cache(maxsize=4)
def _loaded(name: str, device: str) -> NDP:
    from ndp.models.registry import load_ndp

    return load_ndp(name, device)


def _on_device(model: NDP, device: str) -> NDP:
    """The model itself, or a copy of it where it is elsewhere."""
    if not isinstance(model.network, torch.nn.Module) or model.device.type == read_device(device).type:
        return model
    twin = copy(model)
    twin.network = deepcopy(model.network).to(read_device(device))
    return twin


def _refuse_categories(X: Any) -> None:
    """Text and categories, in a table with named columns or in an array."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        wrong = [
            str(name) for name in X.columns if str(X[name].dtype) in ("category", "str", "string") or _is_text(X[name])
        ]
    else:
        array = np.asarray(X) if isinstance(X, (list, tuple, np.ndarray)) else np.empty(0)
        wrong = [str(i) for i in range(array.shape[1]) if _is_text(array[:, i])] if array.ndim == 2 else []
    if wrong:
        raise ValueError(
            f"columns hold categories or text, not numbers: {', '.join(wrong)}. Encode them first, such as with "
            "sklearn.preprocessing.OneHotEncoder (few kinds) or OrdinalEncoder (kinds with an order) in a "
            "sklearn.compose.make_column_transformer, or leave them out"
        )


def _is_text(column: Any) -> bool:
    values = np.asarray(column)
    return values.dtype.kind in "US" or (values.dtype == object and any(isinstance(value, str) for value in values))
