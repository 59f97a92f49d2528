"""What is compared on tables with text and gaps: the regressor as it is, on one-hot columns, as it was, and its rivals."""

import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from benchmarks.regressors import PROBABILITIES, Prediction, single_task_gp
from ndp.core.input_limits import columns_to_keep, rows_to_keep
from ndp.models.registry import load_ndp
from ndp.sklearn import NDPRegressor

OURS, BEFORE, ONE_HOT = "NDP", "NDP before", "NDP on one-hot columns"
CATBOOST, FOREST, GP = "CatBoost", "quantile forest", "SingleTaskGP"
ROWS_OF_GP = 2000
ROWS_BEFORE, COLUMNS_BEFORE, CLIP_BEFORE = 256, 10, 2.0
PATIENCE = 50  # rounds of CatBoost without a better score
LEAVES_AT_ONCE = 20_000_000  # pairs of rows of the forest that are held at a time

Method = Callable[[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray], Prediction]


def methods(model: str, device: str) -> dict[str, Method]:
    """All of them by name."""
    return {
        OURS: lambda *parts: ours(*parts, model=model, device=device),
        BEFORE: lambda *parts: before(*parts, model=model, device=device),
        ONE_HOT: lambda *parts: on_one_hot(*parts, model=model, device=device),
        CATBOOST: catboost,
        FOREST: forest,
        GP: gp,
    }


def ours(
    x: pd.DataFrame, y: np.ndarray, x_new: pd.DataFrame, y_new: np.ndarray, *, model: str, device: str
) -> Prediction:
    """The regressor on the table as it comes."""
    began = time.perf_counter()
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        regressor = NDPRegressor(model, device=device).fit(x, y)
        _, quantiles = regressor.predict(x_new, return_quantiles=PROBABILITIES.tolist())
        seconds = time.perf_counter() - began
        return Prediction(regressor.log_prob(x_new, y_new), quantiles.T, seconds)


def on_one_hot(
    x: pd.DataFrame, y: np.ndarray, x_new: pd.DataFrame, y_new: np.ndarray, *, model: str, device: str
) -> Prediction:
    """The regressor on a column of 0 and 1 for each level, medians for gaps, and marks of gaps."""
    encode = one_hot(x)
    known, asked = pd.DataFrame(encode.fit_transform(x)), pd.DataFrame(encode.transform(x_new))
    return ours(known, y, asked, y_new, model=model, device=device)


def before(
    x: pd.DataFrame, y: np.ndarray, x_new: pd.DataFrame, y_new: np.ndarray, *, model: str, device: str
) -> Prediction:
    """The regressor before it took tables as they come: a random 256 rows, ten columns, clipped inputs, and no maps."""
    began = time.perf_counter()
    known, asked = x.to_numpy(dtype=np.float64), x_new.to_numpy(dtype=np.float64)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        rows = rows_to_keep(y, ROWS_BEFORE, np.random.default_rng(0))
        columns = columns_to_keep(known, y, COLUMNS_BEFORE)
    margin = CLIP_BEFORE * np.where(known.std(0) > 0, known.std(0), 1.0)
    asked = np.clip(asked, known.min(0) - margin, known.max(0) + margin)[:, columns]
    posterior = load_ndp(model, device).condition(known[rows][:, columns], y[rows])
    quantiles = posterior.quantiles(asked, PROBABILITIES.tolist(), joint=False, observation_noise=True, steps=5)
    seconds = time.perf_counter() - began
    log_p = posterior.log_prob(asked, y_new, joint=False, observation_noise=True)
    return Prediction(np.asarray(log_p, dtype=np.float64), np.asarray(quantiles, dtype=np.float64), seconds)


def catboost(x: pd.DataFrame, y: np.ndarray, x_new: pd.DataFrame, y_new: np.ndarray) -> Prediction:
    """CatBoost with its own treatment of categories and gaps, and a normal distribution (RMSEWithUncertainty).

    A fifth of the rows stops it early: after all of its 1,000 rounds its intervals hold less than half of new values.
    """
    from catboost import CatBoostRegressor

    began = time.perf_counter()
    text = _text(x)

    def prepared(frame: pd.DataFrame) -> pd.DataFrame:
        levels = {name: frame[name].astype(object).where(frame[name].notna(), "(missing)").astype(str) for name in text}
        return frame.assign(**levels)

    scale = y.std() or 1.0
    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty", cat_features=text, verbose=False, random_seed=0, allow_writing_files=False
    )
    order = np.random.default_rng(0).permutation(len(y))
    stop, learn = order[: len(y) // 5], order[len(y) // 5 :]
    table, target = prepared(x), (y - y.mean()) / scale
    model.fit(
        table.iloc[learn], target[learn], eval_set=(table.iloc[stop], target[stop]), early_stopping_rounds=PATIENCE
    )
    mean, variance = model.predict(prepared(x_new)).T
    law = norm(y.mean() + scale * mean, scale * np.sqrt(np.maximum(variance, 1e-12)))
    quantiles = law.ppf(PROBABILITIES[:, None])
    return Prediction(law.logpdf(y_new), quantiles, time.perf_counter() - began)


def forest(x: pd.DataFrame, y: np.ndarray, x_new: pd.DataFrame, y_new: np.ndarray) -> Prediction:
    """The quantile regression forest of `python -m benchmarks universal` on codes of levels and medians for gaps."""
    from benchmarks.regressors import random_forest

    began = time.perf_counter()
    encode = codes(x)
    known, asked = encode.fit_transform(x), encode.transform(x_new)
    at_once = max(1, LEAVES_AT_ONCE // (200 * len(known)))
    pieces = []
    for start in range(0, len(asked), at_once):
        part = slice(start, start + at_once)
        pieces.append(random_forest(known, y, asked[part], y_new[part]))
    log_p = np.concatenate([piece.log_prob for piece in pieces])
    quantiles = np.concatenate([piece.quantiles for piece in pieces], axis=1)
    return Prediction(log_p, quantiles, time.perf_counter() - began)


def gp(x: pd.DataFrame, y: np.ndarray, x_new: pd.DataFrame, y_new: np.ndarray) -> Prediction:
    """BoTorch's SingleTaskGP on one-hot columns, of at most 2,000 rows."""
    rows = np.sort(np.random.default_rng(0).permutation(len(y))[:ROWS_OF_GP])
    encode = one_hot(x)
    known, asked = encode.fit_transform(x.iloc[rows]), encode.transform(x_new)
    varies = np.ptp(known, axis=0) > 0
    return single_task_gp(known[:, varies], y[rows], asked[:, varies], y_new)


def one_hot(x: pd.DataFrame) -> ColumnTransformer:
    """A column for each level, medians, and a mark for gaps."""
    return _encoder(x, OneHotEncoder(handle_unknown="ignore", sparse_output=False))


def codes(x: pd.DataFrame) -> ColumnTransformer:
    """A number for each level, medians, and a mark for gaps."""
    return _encoder(x, OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1))


def _encoder(x: pd.DataFrame, of_text: OneHotEncoder | OrdinalEncoder) -> ColumnTransformer:
    text = _text(x)
    numbers = [name for name in x if name not in text]
    levels = make_pipeline(SimpleImputer(strategy="constant", fill_value="(missing)"), of_text)
    median = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    return ColumnTransformer([("numbers", median, numbers), ("text", levels, text)], sparse_threshold=0.0)


def _text(x: pd.DataFrame) -> list[str]:
    return [name for name in x if not pd.api.types.is_numeric_dtype(x[name])]
