"""`NDPRegressor`: a pretrained NDP as a scikit-learn regressor."""

import warnings
from collections import Counter
from collections.abc import Sequence
from copy import copy, deepcopy
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from ndp.core.arrays import read_inputs, read_values
from ndp.core.devices import read_device
from ndp.core.input_limits import MAX_OBSERVATIONS, clip_to_support, columns_to_keep, rows_to_keep
from ndp.core.units import FixedUnits, centre_and_std
from ndp.diffusion.levels import check_steps
from ndp.processes.ndp import NDP
from ndp.processes.posterior import NDPPosterior

# The fewest network calls for joint draws. Seven suffice for Gaussian posteriors. Those of models with unknown hyperparameters
# are not Gaussian, and two more calls leave two thirds of the error.


class NDPRegressor(RegressorMixin, BaseEstimator):
    """A pretrained NDP as a regressor: predictive distributions and joint draws, without training.

    `fit` conditions the model on the data. Predictions are independent for each row given the data, use no random numbers, and
    need not be Gaussian.

    Data outside the limits of the model give a warning. Of more than 256 rows, a random 256 are used. Of more inputs than the
    model was trained for, those with the largest rank correlation with the target are used. In predictions, inputs more than
    two standard deviations outside the data are clipped.

    Parameters
    ----------
    model : str or NDP, default="universal"
        Name or folder of a model, or the model itself. Its units come from the data (`ContextUnits`); others are refused.
    steps : int, default=5
        Network calls for each prediction. Joint draws take at least 9.
    device : str, default="auto"
        "auto", "cpu" or "cuda".
    random_state : int, default=0
        Seed with which rows are subsampled.

    Attributes
    ----------
    X_train_, y_train_ : ndarray
        The data that are conditioned on.
    columns_ : ndarray of int
        The inputs that are used.

    Examples
    --------
    >>> import numpy as np
    >>> from ndp import NDPRegressor
    >>> X = np.linspace(0, 10, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 3
    >>> regressor = NDPRegressor().fit(X, y)
    >>> mean, std = regressor.predict([[2.5], [7.5]], return_std=True)
    >>> mean.round(1)
    array([3.6, 3.9])
    >>> regressor.sample_y([[2.5], [7.5]], n_samples=64).shape
    (2, 64)
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
        """Condition the model on the data.

        Nothing is trained. The first prediction lets the GP experts of the model adapt to the data, which takes about as long
        as fitting a Gaussian process; later ones share what was found.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs: numbers, without missing values.
        y : array-like of shape (n_samples,)
            Observed values.

        Returns
        -------
        NDPRegressor
            The regressor itself.
        """
        check_steps(self.steps)
        _check_columns(X)
        try:
            x, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        except OverflowError as error:
            raise ValueError(f"X and y must hold numbers that float64 can hold ({error})") from error
        dims = self._ndp().input_dims
        inputs = read_inputs(x, "X", input_dims=None, device=torch.device("cpu"))
        read_values(y.astype(np.float64) if y.dtype == bool else y, "y", inputs, num_outputs=1, batched=False)
        rows = rows_to_keep(y, MAX_OBSERVATIONS, np.random.default_rng(self.random_state))
        self.columns_ = columns_to_keep(x, y, max(dims) if dims else x.shape[1])
        self.X_train_, self.y_train_ = x[rows][:, self.columns_], y[rows].astype(np.float64)
        self.low_, self.high_ = x.min(0), x.max(0)
        self.spread_ = centre_and_std(inputs, torch.ones(1, len(x), dtype=torch.bool))[1][0, 0].numpy()
        self._conditioned = self._condition()
        return self

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_quantiles: Sequence[float] | None = None,
        *,
        observation_noise: bool | None = True,
        noisy: bool | None = None,
    ) -> Any:
        """The mean at every row, and if asked for its standard deviation and quantiles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        return_std : bool, default=False
            Whether to return the standard deviation as well.
        return_quantiles : sequence of float, optional
            Probabilities of quantiles to return as well.
        observation_noise : bool or None, default=True
            True for new observations, False for values of the function. None is the function if the model can separate it
            from its noise, and otherwise the one kind of values that it has.
        noisy : bool, optional
            Deprecated: the first name of `observation_noise`.

        Returns
        -------
        ndarray or tuple of ndarray
            The mean (n_samples,); then, if asked for, the standard deviation (n_samples,) and the quantiles
            (n_samples, n_quantiles).
        """
        x = self._inputs(X)
        observation_noise = _read_noisy(observation_noise, noisy)
        options: dict[str, Any] = {"joint": False, "observation_noise": observation_noise, "steps": self.steps}
        posterior = self._posterior()
        if return_quantiles is None:
            found = list(posterior.moments(x, **options)[: 1 + return_std])
        else:
            moments, quantiles = posterior.summary(x, return_quantiles, **options)
            found = [*moments[: 1 + return_std], np.asarray(quantiles).T]
        arrays = tuple(np.asarray(part, dtype=np.float64) for part in found)
        return arrays[0] if len(arrays) == 1 else arrays

    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = 0,
        *,
        observation_noise: bool | None = True,
        noisy: bool | None = None,
    ) -> np.ndarray:
        """Draws that are joint over all rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState or None, default=0
            Seed of the draws.
        observation_noise : bool or None, default=True
            As for `predict`.
        noisy : bool, optional
            Deprecated: the first name of `observation_noise`.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
            One function, or its observations, in every column.
        """
        x = self._inputs(X)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        draws = self._posterior().sample(
            x,
            n_samples,
            observation_noise=_read_noisy(observation_noise, noisy),
            steps=self.steps,
            generator=torch.Generator().manual_seed(seed),
        )
        return np.asarray(draws, dtype=np.float64).T

    def log_prob(self, X: Any, y: Any, *, observation_noise: bool | None = True) -> np.ndarray:
        """The log-density of the value at every row, independent of the other rows given the data, in nats.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            Values.
        observation_noise : bool or None, default=True
            As for `predict`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-densities.
        """
        x = self._inputs(X)
        log_p = self._posterior().log_prob(x, column_or_1d(y), joint=False, observation_noise=observation_noise)
        return np.asarray(log_p, dtype=np.float64)

    def __getstate__(self) -> dict[str, Any]:
        """Without the posterior, which is made again when it is needed."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_conditioned"}

    def _inputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=np.float64)
        return clip_to_support(x, self.low_, self.high_, self.spread_)[:, self.columns_]

    def _posterior(self) -> NDPPosterior:
        """Given the fitted data. It is made again after unpickling, and after a change of the model or its device."""
        made_for, posterior = getattr(self, "_conditioned", (None, None))
        if posterior is None or made_for != self._made_for():
            self._conditioned = self._condition()
            _, posterior = self._conditioned
        return posterior

    def _condition(self) -> tuple[tuple[Any, ...], NDPPosterior]:
        return self._made_for(), self._ndp().condition(self.X_train_, self.y_train_)

    def _made_for(self) -> tuple[Any, ...]:
        """What a posterior belongs to, besides the data. A model can be moved to another device in place."""
        return self.model, self.device, self.model.device if isinstance(self.model, NDP) else None

    def _ndp(self) -> NDP:
        if isinstance(self.model, NDP):
            return _for_any_table(_on_device(self.model, self.device), "the model")
        if not isinstance(self.model, str):
            raise ValueError(f"model must be a name, a folder or an NDP, not {self.model!r}")
        return _for_any_table(_loaded(self.model, self.device), self.model)


@lru_cache(maxsize=4)
def _loaded(name: str, device: str) -> NDP:
    from ndp.models.registry import load_ndp

    return load_ndp(name, device)


def _for_any_table(model: NDP, name: str) -> NDP:
    """The model, if it takes its units from the data. Any other answers in units of its own, far from those of a table."""
    if model.units is None or isinstance(model.units, FixedUnits) or model.num_outputs != 1:
        raise ValueError(
            f"{name} does not take its units from the data, so its predictions for a table would be wrong; use universal, or "
            "ndp.load(...).condition(x, y) in the units that it was trained in"
        )
    return model


def _on_device(model: NDP, device: str) -> NDP:
    """The model itself, or a copy of it if it is on another device."""
    if not isinstance(model.network, torch.nn.Module) or model.device.type == read_device(device).type:
        return model
    twin = copy(model)
    twin.network = deepcopy(model.network).to(read_device(device))
    return twin


def _read_noisy(observation_noise: bool | None, noisy: bool | None) -> bool | None:
    """`observation_noise`, unless the old name is used: `noisy=False` was ignored by models with one kind of values."""
    if noisy is None:
        return observation_noise
    warnings.warn("noisy is deprecated: use observation_noise", DeprecationWarning, stacklevel=3)
    return True if noisy else None


def _check_columns(X: Any) -> None:
    """Raise an error that names the columns that are no numbers, or share a name, in a table or in an array."""
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError("X is a masked array, whose mask would be lost; leave out the rows with masked values first")
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        twice = [str(name) for name, count in Counter(X.columns).items() if count > 1]
        if twice:
            raise ValueError(f"more than one column is named {', '.join(twice)}; give each column a name of its own")
        columns = {str(name): X[name] for name in X.columns}
    else:
        array = np.asarray(X) if isinstance(X, (list, tuple, np.ndarray)) else np.empty(0)
        columns = {str(i): array[:, i] for i in range(array.shape[1])} if array.ndim == 2 else {}
    text = [name for name, column in columns.items() if _is_text(column)]
    if text:
        raise ValueError(
            f"columns hold categories or text, not numbers: {', '.join(text)}. Encode them first, such as with "
            "sklearn.preprocessing.OneHotEncoder (few categories) or OrdinalEncoder (categories with an order) in a "
            "sklearn.compose.make_column_transformer, or leave them out"
        )
    times = [name for name, column in columns.items() if np.asarray(column[:1]).dtype.kind in "Mm"]
    if times:
        raise ValueError(
            f"columns hold dates or times, not numbers: {', '.join(times)}. Write them as days or seconds first"
        )
    if any(np.asarray(column[:1]).dtype.kind == "c" for column in columns.values()):
        raise ValueError("Complex data not supported: split it into real and imaginary parts")


def _is_text(column: Any) -> bool:
    if str(column.dtype) in ("category", "str", "string"):
        return True
    values = np.asarray(column)
    return values.dtype.kind in "US" or (values.dtype == object and any(isinstance(value, str) for value in values))
