"""One target of a table, conditioned: the encoded rows, the units of the target, and answers in the user's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from ndp.core.input_limits import clip_to_support, columns_to_keep, rows_to_keep
from ndp.core.units import centre_and_std
from ndp.processes.local import LocalPosterior
from ndp.processes.posterior import NDPPosterior
from ndp.tabular.columns import Column
from ndp.tabular.encoding import Encoding, Number, fit_encoding
from ndp.tabular.models import Limits
from ndp.tabular.targets import MOMENT_NODES, TargetMap, fit_target_map

Posterior: TypeAlias = NDPPosterior | LocalPosterior


@dataclass(frozen=True)
class Answer:
    """Of a new observation or of the function at every row: mean [N], standard deviation [N], and quantiles [N, Q]."""

    mean: np.ndarray
    std: np.ndarray
    quantiles: np.ndarray


@dataclass(frozen=True)
class FittedTarget:
    """The data that a model is conditioned on, [N, D] and [N], in the numbers that it sees."""

    encoding: Encoding
    used: np.ndarray  # columns of the encoded table
    x: np.ndarray
    y: np.ndarray  # as the target map has it
    target_map: TargetMap
    low: np.ndarray
    high: np.ndarray
    std: np.ndarray

    @staticmethod
    def of(
        columns: Sequence[Column], y: np.ndarray, bounds: Any, limits: Limits, rng: np.random.Generator
    ) -> "FittedTarget":
        """From the rows that have a target. Rows and columns beyond the limits of the model are left out."""
        rows = rows_to_keep(y, limits.rows, rng)
        encoding, x = fit_encoding(columns, y)
        used = columns_to_keep(x, y, limits.columns or x.shape[1])
        low, high = x.min(0), x.max(0)
        std = centre_and_std(torch.as_tensor(x)[None], torch.ones(1, len(x), dtype=torch.bool))[1][0, 0].numpy()
        target_map = fit_target_map(x[:, used], y, bounds)
        kept = x[rows][:, used]
        return FittedTarget(
            encoding, used, kept, target_map.to_model(y[rows]), target_map, low[used], high[used], std[used]
        )

    @property
    def owners(self) -> np.ndarray:
        """The column of the table from which each used column comes."""
        return self.encoding.owners[self.used]

    def inputs(self, columns: Sequence[Column]) -> tuple[np.ndarray, np.ndarray]:
        """The rows that are asked for as the model reads them, and which of them are far outside the data, [N, D]."""
        return clip_to_support(self.encoding(columns)[:, self.used], self.low, self.high, self.std)

    def missing_inputs(self, columns: Sequence[Column]) -> np.ndarray:
        """Which of the used columns lack a value, and no indicator tells the model so: [N, D]."""
        unknown = [isinstance(part, Number) and not part.has_indicator for part in self.encoding.parts]
        gaps = np.column_stack([column.missing & one for column, one in zip(columns, unknown, strict=True)])
        return gaps[:, self.owners]

    @property
    def y_train(self) -> np.ndarray:
        """The observed values in the user's units."""
        return self.target_map.from_model(self.y)

    def predict(
        self, posterior: Posterior, x: np.ndarray, probabilities: Sequence[float], options: dict[str, Any]
    ) -> Answer:
        """Moments and quantiles in the user's units; `options` are those of the posterior."""
        target_map = self.target_map
        if target_map.is_identity:
            if probabilities:
                moments, quantiles = posterior.summary(x, probabilities, joint=False, **options)
            else:
                moments, quantiles = posterior.moments(x, joint=False, **options), np.empty((0, len(x)))
            mean, std, found = (np.asarray(part, dtype=np.float64) for part in (*moments, quantiles))
            return Answer(target_map.within(mean), std, target_map.within(found.T))
        nodes = (np.arange(MOMENT_NODES) + 0.5) / MOMENT_NODES
        quantiles = posterior.quantiles(x, [*probabilities, *nodes.tolist()], joint=False, **options)
        values = target_map.within(target_map.from_model(np.asarray(quantiles, dtype=np.float64).T))
        of_moments = values[:, len(probabilities) :]
        return Answer(of_moments.mean(1), of_moments.std(1), values[:, : len(probabilities)])

    def sample(
        self, posterior: Posterior, x: np.ndarray, count: int, generator: torch.Generator, options: dict[str, Any]
    ) -> np.ndarray:
        """Joint draws in the user's units, [N, S]."""
        draws = posterior.sample(x, count, generator=generator, **options)
        return self.target_map.within(self.target_map.from_model(np.asarray(draws, dtype=np.float64).T))

    def log_prob(
        self, posterior: Posterior, x: np.ndarray, y: np.ndarray, observation_noise: bool | None
    ) -> np.ndarray:
        """Log-densities of values in the user's units, [N]."""
        values = self.target_map.to_model(y)
        log_p = posterior.log_prob(x, values, joint=False, observation_noise=observation_noise)
        return np.asarray(log_p, dtype=np.float64) + self.target_map.log_slope(y)
