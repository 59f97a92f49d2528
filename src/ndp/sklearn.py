"""`NDPRegressor`: a pretrained NDP as a scikit-learn regressor."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ndp.diffusion.levels import check_steps
from ndp.tabular.columns import Column, column_types, has_no_arrays_of_numbers, raw_columns, read_columns
from ndp.tabular.conditioned import ROWS_AT_A_TIME, ConditionedTarget, progress_bar
from ndp.tabular.describing import describe_columns
from ndp.tabular.fitted import FittedTarget
from ndp.tabular.models import Limits, ModelReference, weights_digest
from ndp.tabular.targets import read_bounds, read_targets, read_values


class NDPRegressor(RegressorMixin, BaseEstimator):
    """A pretrained NDP as a regressor: predictive distributions and joint draws, without training.

    `fit` conditions the model on the data. Predictions are independent for each row given the data, use no random numbers, and
    need not be Gaussian.

    Columns may be numbers, booleans, text and pandas categories, with gaps. The evidence chooses what each becomes, and
    `describe` tells it. With more than 256 rows, a value is conditioned on the rows around it that say most about it; with
    more than ten encoded columns, on those that matter most under the GP experts. Data outside the limits of the model give a
    warning. Of more than 10,000 rows, a random 10,000 are used; of more than 100 encoded columns, those with the largest rank
    correlation with the target. Inputs more than two standard deviations outside the data are clipped.

    Parameters
    ----------
    model : str or NDP, default="universal"
        Name or folder of a model, or the model itself. Its units come from the data (`ContextUnits`); others are refused.
    categories : sequence of str or int, default=()
        Columns whose numbers are codes of categories, by name, or by number in an array.
    bounds : "auto", None or (low, high), default="auto"
        Where predictions end. "auto" takes what at least 20 observations share: zero where none is negative (or none is
        positive), a value at an end that many have in common, and the least and the greatest of at most twelve values.
    steps : int, default=5
        Network calls for each prediction. Joint draws take at least 9.
    device : str, default="auto"
        "auto", "cpu" or "cuda".
    random_state : int, default=0
        Seed with which rows are subsampled.
    n_jobs : int, default=None
        Processes for the predictions of more than 512 rows. None is one, or as many as the backend of joblib has.
    verbose : bool, default=False
        Whether to show a progress bar for more than 512 rows.

    Attributes
    ----------
    X_train_, y_train_ : ndarray, or list of one for each target
        The data that are conditioned on: encoded inputs, and observed values.
    columns_ : ndarray of int
        The columns of X that are used.
    weights_digest_ : str
        SHA-256 of the weights of the model. A fitted regressor that is loaded beside other weights gives a warning.

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
        self,
        model: Any = "universal",
        *,
        categories: Any = (),
        bounds: Any = "auto",
        steps: Any = 5,
        device: Any = "auto",
        random_state: Any = 0,
        n_jobs: Any = None,
        verbose: Any = False,
    ) -> None:
        self.model = model
        self.categories = categories
        self.bounds = bounds
        self.steps = steps
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> "NDPRegressor":
        """Condition the model on the data.

        Nothing is trained. The first prediction lets the GP experts of the model adapt to the data, which takes about as long
        as fitting a Gaussian process; later ones share what was found.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs: numbers, booleans, text or categories. None, NaN and pandas' NA are cells without a value.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Observed values. Rows without a value are not learned from. Several targets are predicted each by itself.

        Returns
        -------
        NDPRegressor
            The regressor itself.
        """
        before = dict(vars(self))
        try:
            self._fit(X, y)
        except BaseException:  # nothing half done
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: Any, y: Any) -> None:
        check_steps(self.steps)
        bounds = read_bounds(self.bounds)
        columns = self._read(X, reset=True)
        values, self._target_names = read_targets(y, len(columns[0].values))
        model = self._reference().load()
        rng = np.random.default_rng(self.random_state)
        self._fitted = []
        for target in np.atleast_2d(values.T):
            seen = np.flatnonzero(~np.isnan(target))
            known = [column.take(seen) for column in columns]
            self._fitted.append(FittedTarget.of(known, target[seen], bounds, Limits.of(model), rng))
        left_out = int(np.isnan(values.reshape(len(values), -1)).any(1).sum())
        if left_out:
            rows = f"{left_out} of {len(values)} rows lack a target, and are not learned from; predict them instead"
            warnings.warn(rows, UserWarning, stacklevel=3)
        self._several = values.ndim == 2
        self._types = tuple(column.type for column in columns)
        self._missing = {column.type.name: int(column.missing.sum()) for column in columns if column.missing.any()}
        self.columns_ = np.unique(np.concatenate([one.owners for one in self._fitted]))
        x_train, y_train = [one.x for one in self._fitted], [one.y_train for one in self._fitted]
        self.X_train_: Any = x_train if self._several else x_train[0]
        self.y_train_: Any = y_train if self._several else y_train[0]
        self.weights_digest_, self._fitted_with = weights_digest(model), self._reference().named
        self._conditioned = self._condition()

    def describe(self) -> list[str]:
        """What each column was taken for and became, and what was missing: a line each.

        Returns
        -------
        list of str
            The lines.
        """
        check_is_fitted(self)
        names = self._target_names or [f"target {index}" for index in range(len(self._fitted))]
        return describe_columns(self._types, self._missing, self._fitted, names)

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_quantiles: Sequence[float] | None = None,
        *,
        observation_noise: bool | None = True,
        noisy: bool | None = None,
        progress: Callable[[int, int], None] | None = None,
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
        progress : callable, optional
            Called with the number of rows that are predicted, and of all rows.

        Returns
        -------
        ndarray or tuple of ndarray
            The mean (n_samples,); then, if asked for, the standard deviation (n_samples,) and the quantiles
            (n_samples, n_quantiles). With several targets their axis comes second.
        """
        columns = self._read(X)
        options = {"observation_noise": _read_noisy(observation_noise, noisy), "steps": self.steps}
        probabilities = () if return_quantiles is None else tuple(return_quantiles)
        with progress_bar(bool(self.verbose) and len(columns[0].values) > ROWS_AT_A_TIME) as bar:
            report = progress or bar
            answers = [one.predict(columns, probabilities, options, self.n_jobs, report) for one in self._targets()]
        parts = [[answer.mean for answer in answers]]
        if return_std:
            parts.append([answer.std for answer in answers])
        if return_quantiles is not None:
            parts.append([answer.quantiles for answer in answers])
        arrays = tuple(self._together(each) for each in parts)
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
        """Draws that are joint over all rows. Several targets are drawn independently of each other.

        Rows that lack numbers are joint with those that lack the same ones.

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
            One function, or its observations, in every column. With several targets their axis comes second.
        """
        columns = self._read(X)
        generator = torch.Generator().manual_seed(int(check_random_state(random_state).randint(2**31 - 1)))
        options = {"observation_noise": _read_noisy(observation_noise, noisy), "steps": self.steps}
        return self._together([one.sample(columns, n_samples, generator, options) for one in self._targets()])

    def log_prob(self, X: Any, y: Any, *, observation_noise: bool | None = True) -> np.ndarray:
        """The log-density of the value at every row, independent of the other rows given the data, in nats.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Values.
        observation_noise : bool or None, default=True
            As for `predict`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            Log-densities. Where predictions end at bounds, they are those without the bounds.
        """
        columns = self._read(X)
        values = read_values(y, len(columns[0].values), len(self._fitted) if self._several else None)
        parts = zip(self._targets(), np.atleast_2d(values.T), strict=True)
        return self._together([one.log_prob(columns, each, observation_noise) for one, each in parts])

    def __getstate__(self) -> dict[str, Any]:
        """Without the posteriors, which are made again when they are needed."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_conditioned"}

    def _together(self, parts: list[np.ndarray]) -> np.ndarray:
        """Arrays of one target each, with the axis of targets second where there is one."""
        return np.stack(parts, axis=1) if self._several else parts[0]

    def _read(self, X: Any, *, reset: bool = False) -> tuple[Column, ...]:
        """The columns of a table, with scikit-learn's checks of their number and names."""
        if not reset:
            check_is_fitted(self)
        raw = raw_columns(X)
        types = column_types(raw, self.categories) if reset else self._types
        if raw and has_no_arrays_of_numbers(raw):
            validate_data(self, X, reset=reset, skip_check_array=True)
            check_array(np.empty((len(next(iter(raw.values()))), len(raw))), ensure_all_finite=False, estimator=self)
        else:
            x = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
            if not raw:
                raw = {str(index): column for index, column in enumerate(x.T)}
                types = column_types(raw, self.categories) if reset else types
        return read_columns(raw, types)

    def _reference(self) -> ModelReference:
        return ModelReference(self.model, self.device)

    def _targets(self) -> list[ConditionedTarget]:
        """Conditioned on the fitted data: again after unpickling, and after a change of the model or its device."""
        made_for, targets = getattr(self, "_conditioned", (None, []))
        if made_for != self._reference().moved:
            self._conditioned = self._condition()
            _, targets = self._conditioned
        return targets

    def _condition(self) -> tuple[tuple[Any, ...], list[ConditionedTarget]]:
        reference = self._reference()
        targets = [ConditionedTarget(one, reference) for one in self._fitted]
        for one in targets:
            one.posterior()
        named = reference.named
        if (
            named is not None
            and named == self._fitted_with
            and weights_digest(reference.load()) != self.weights_digest_
        ):
            warnings.warn(
                f"the regressor was fitted with other weights of {named}, and predictions may differ: fit it again, or "
                "install the version of ndp that it was saved with",
                UserWarning,
                stacklevel=4,
            )
        return reference.moved, targets


def _read_noisy(observation_noise: bool | None, noisy: bool | None) -> bool | None:
    """`observation_noise`, unless the old name is used: `noisy=False` was ignored by models with one kind of values."""
    if noisy is None:
        return observation_noise
    warnings.warn("noisy is deprecated: use observation_noise", DeprecationWarning, stacklevel=3)
    return True if noisy else None
