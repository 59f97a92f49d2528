"""A model conditioned on one target of a table: predictions in pieces, in one process or in several."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed, effective_n_jobs

from ndp.core.input_limits import warn_of_far_inputs
from ndp.processes.local import LocalPosterior, Report
from ndp.tabular.columns import Column
from ndp.tabular.fitted import Answer, FittedTarget, Posterior
from ndp.tabular.models import ModelReference, condition

# Rows in a piece of long work: a multiple of the targets that are asked for in one call, so that no answer depends on it.
ROWS_AT_A_TIME = 512
POSTERIORS_KEPT = 4  # of a target: with all columns, and without some
TABLES_KEPT = 4  # by a worker, that gets one piece after the other

_KEPT: "OrderedDict[str, ConditionedTarget]" = OrderedDict()


@dataclass(frozen=True)
class Rows:
    """Encoded rows that lack the same columns, and that are answered without them."""

    where: np.ndarray
    x: np.ndarray
    left_out: tuple[bool, ...]  # of the used columns


class ConditionedTarget:
    """A fitted target and the posteriors given it: one for all columns, and one for each set of columns that rows lack."""

    def __init__(self, fitted: FittedTarget, reference: ModelReference) -> None:
        self.fitted, self.reference = fitted, reference
        self._posteriors: OrderedDict[tuple[bool, ...], Posterior] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {"fitted": self.fitted, "reference": self.reference, "_posteriors": OrderedDict()}

    def posterior(self, left_out: tuple[bool, ...] = ()) -> Posterior:
        """Given all columns, or those that are not left out. A few are kept: each holds megabytes of its experts."""
        left_out = left_out if any(left_out) else ()
        if left_out not in self._posteriors:
            x = self.fitted.x[:, ~np.array(left_out)] if left_out else self.fitted.x
            x = x if x.shape[1] else np.zeros((len(x), 1))
            self._posteriors[left_out] = condition(self.reference.load(), x, self.fitted.y)
            while len(self._posteriors) > POSTERIORS_KEPT:
                self._posteriors.popitem(last=False)
        self._posteriors.move_to_end(left_out)
        return self._posteriors[left_out]

    def predict(
        self,
        columns: Sequence[Column],
        probabilities: Sequence[float],
        options: dict[str, Any],
        jobs: int | None = None,
        report: Report | None = None,
    ) -> Answer:
        """Moments and quantiles of every row, by itself."""
        total = len(columns[0].values)
        answer = Answer(np.empty(total), np.empty(total), np.empty((total, len(probabilities))))
        groups, workers = self._rows(columns), effective_n_jobs(jobs)
        several = workers != 1 and total > ROWS_AT_A_TIME
        # A large table has an encoding for each of its regions, and few are kept: each worker gets one piece.
        large = isinstance(self.posterior(), LocalPosterior)
        pieces = [piece for rows in groups for piece in _split(rows, -(-total // workers) if large else ROWS_AT_A_TIME)]
        if large and len(pieces) == 1 and report is not None:
            options = options | {"report": report}
        done = 0
        if several:
            key = self._key()
            calls = (delayed(_predict_elsewhere)(key, self, piece, probabilities, options) for piece in pieces)
            found = Parallel(n_jobs=jobs, return_as="list")(calls)
        else:
            found = (self.predict_piece(piece, probabilities, options) for piece in pieces)
        for piece, part in zip(pieces, found, strict=True):
            answer.mean[piece.where], answer.std[piece.where] = part.mean, part.std
            answer.quantiles[piece.where] = part.quantiles
            done += len(piece.where)
            if report is not None:
                report(done, total)
        return answer

    def predict_piece(self, rows: Rows, probabilities: Sequence[float], options: dict[str, Any]) -> Answer:
        return self.fitted.predict(self.posterior(rows.left_out), rows.x, probabilities, options)

    def sample(
        self, columns: Sequence[Column], count: int, generator: torch.Generator, options: dict[str, Any]
    ) -> np.ndarray:
        """Draws [N, S], joint over rows that lack the same columns."""
        groups = self._rows(columns)
        drawn = [self.fitted.sample(self.posterior(one.left_out), one.x, count, generator, options) for one in groups]
        order = np.concatenate([one.where for one in groups]).argsort()
        return np.concatenate(drawn)[order]

    def log_prob(self, columns: Sequence[Column], y: np.ndarray, observation_noise: bool | None) -> np.ndarray:
        """Log-densities [N], each row by itself."""
        found = np.empty(len(y))
        for rows in self._rows(columns):
            posterior = self.posterior(rows.left_out)
            found[rows.where] = self.fitted.log_prob(posterior, rows.x, y[rows.where], observation_noise)
        return found

    def _rows(self, columns: Sequence[Column]) -> list[Rows]:
        """The encoded rows, in groups that lack the same columns. One warning names those far outside the data."""
        x, far = self.fitted.inputs(columns)
        names = [columns[owner].type.name for owner in self.fitted.owners]
        gaps = self.fitted.missing_inputs(columns)
        warn_of_far_inputs(far & ~gaps, names, columns[0].labels)
        if not gaps.any():
            return [Rows(np.arange(len(x)), x, ())]
        patterns, group = np.unique(gaps, axis=0, return_inverse=True)
        return [
            Rows(where, _without(x[where], pattern), tuple(pattern.tolist()))
            for index, pattern in enumerate(patterns)
            for where in [np.flatnonzero(group.ravel() == index)]
        ]

    def _key(self) -> str:
        """What tells this target from others in a worker."""
        digest = hashlib.sha256(repr((self.reference.model, self.reference.device)).encode())
        for values in (self.fitted.x, self.fitted.y):
            digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()


def _without(x: np.ndarray, pattern: np.ndarray) -> np.ndarray:
    return np.zeros((len(x), 1)) if pattern.all() else x[:, ~pattern]


def _split(rows: Rows, size: int) -> Iterator[Rows]:
    for start in range(0, len(rows.where), size):
        part = slice(start, start + size)
        yield Rows(rows.where[part], rows.x[part], rows.left_out)


def _predict_elsewhere(
    key: str, target: ConditionedTarget, rows: Rows, probabilities: Sequence[float], options: dict[str, Any]
) -> Answer:
    """A piece, in a worker that conditions the model for the first piece of a table only."""
    kept = _KEPT.setdefault(key, target)
    _KEPT.move_to_end(key)
    while len(_KEPT) > TABLES_KEPT:
        _KEPT.popitem(last=False)
    return kept.predict_piece(rows, probabilities, options)


@contextmanager
def progress_bar(shown: bool) -> Iterator[Report | None]:
    """A bar of rows on a terminal."""
    if not shown:
        yield None
        return
    from rich.progress import Progress

    with Progress(transient=True) as bar:
        task = bar.add_task("Predicting", total=None)
        yield lambda done, rows: bar.update(task, completed=done, total=rows)
