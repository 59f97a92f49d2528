"""What to do with data outside of what a model was trained for: say so, and answer sensibly all the same."""

import warnings

import numpy as np

MOST_OBSERVATIONS = 256  # that the universal model was trained with
REACH = 2.0  # how far beyond the observations an answer still depends on where it is asked for, in standard deviations


def rows_to_keep(y: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """All rows, or an even choice of `most` of them."""
    if len(y) <= most:
        return np.arange(len(y))
    warnings.warn(
        f"{len(y)} observations are more than the {most} that the model was trained for; a random {most} of them are used",
        UserWarning,
        stacklevel=3,
    )
    return np.sort(rng.choice(len(y), most, replace=False))


def columns_to_keep(x: np.ndarray, y: np.ndarray, most: int) -> np.ndarray:
    """All inputs, or the `most` whose ranks go best with those of the target."""
    if x.shape[1] <= most:
        return np.arange(x.shape[1])
    warnings.warn(
        f"{x.shape[1]} inputs are more than the {most} that the model was trained for; the {most} that go best with the "
        "target are used",
        UserWarning,
        stacklevel=3,
    )
    ranks = _ranks(x)
    together = np.abs(ranks.T @ _ranks(y[:, None]))[:, 0]
    return np.sort(np.argsort(-together, kind="stable")[:most])


def within_reach(x: np.ndarray, low: np.ndarray, high: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Inputs no farther from the observations, in [low, high], than `REACH`; there the prior's spread has come back.

    Where observations have no spread, the user's units stand in for it, as they do in the model (`ContextUnits`).
    """
    reach = REACH * np.where(spread > 0, spread, 1.0)
    near = np.clip(x, low - reach, high + reach)
    if not np.array_equal(near, x):
        warnings.warn(
            "some inputs are far from every observation; there the answer is that of the edge of what the data can tell, "
            f"{REACH:g} standard deviations beyond them",
            UserWarning,
            stacklevel=3,
        )
    return near


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks of every column, centred and of unit length; a constant column has none."""
    order = np.argsort(np.argsort(values, axis=0, kind="stable"), axis=0).astype(float)
    centred = np.where(np.ptp(values, axis=0) > 0, order - order.mean(0), 0.0)
    return centred / np.maximum(np.linalg.norm(centred, axis=0), 1e-12)
