"""What the levels of categories add to the target, in a linear model with one random effect for each level.

    y = m + sum_d z_d b_d + sum_c u_c[level] + e,    b_d ~ N(0, t_0),  u_c ~ N(0, t_c),  e ~ N(0, s)

The variances climb the likelihood by expectation and maximisation. A level of few rows is shrunk to zero. The rows that the
model learns from get effects of which their own target is not a part (`cross_fitted`): else a level of one row would tell it.
"""

from dataclasses import dataclass

import numpy as np

from ndp.tabular.scaling import standardised

FOLDS = 10
STEPS = 25
LEAST_VARIANCE = 1e-6
FIRST_EFFECT, FIRST_NOISE = 0.3, 0.5  # variances, in units of the target's


@dataclass(frozen=True)
class Design:
    """Standardised numbers [N, D] beside one indicator for each level of every category."""

    matrix: np.ndarray
    edges: np.ndarray  # where the block of each variance begins, and the end

    @staticmethod
    def of(numbers: np.ndarray, categories: list[np.ndarray]) -> "Design":
        """`categories` hold the index of each row's level, or -1 for another level."""
        blocks = [standardised(numbers)]
        blocks += [(codes[:, None] == np.arange(codes.max() + 1)).astype(float) for codes in categories]
        return Design(np.hstack(blocks), np.cumsum([0, *(block.shape[1] for block in blocks)]))

    def spread(self, variances: np.ndarray) -> np.ndarray:
        return np.repeat(variances, np.diff(self.edges))


@dataclass(frozen=True)
class Effects:
    """The effects of all levels of each category, and at every row those that were found without it."""

    levels: tuple[np.ndarray, ...]
    cross_fitted: tuple[np.ndarray, ...]


def level_effects(numbers: np.ndarray, categories: list[np.ndarray], y: np.ndarray) -> Effects:
    """The effects of the levels of each category; numbers are without gaps."""
    design = Design.of(numbers, categories)
    target = standardised(y)
    variances, noise = _variances(design, target)
    found = _solve(design.matrix, target, design.spread(variances), noise)
    fold = np.random.default_rng(0).permutation(len(y)) % min(FOLDS, len(y))
    without = np.zeros((len(y), design.matrix.shape[1]))
    for index in range(fold.max() + 1):
        out = fold == index
        if not out.all():
            without[out] = _solve(design.matrix[~out], target[~out], design.spread(variances), noise)
    blocks = [slice(*edges) for edges in zip(design.edges[1:-1], design.edges[2:], strict=True)]
    return Effects(
        tuple(found[block] for block in blocks),
        tuple((design.matrix[:, block] * without[:, block]).sum(1) for block in blocks),
    )


def _solve(matrix: np.ndarray, target: np.ndarray, spread: np.ndarray, noise: float) -> np.ndarray:
    """The posterior mean of all effects."""
    return np.linalg.solve(matrix.T @ matrix / noise + np.diag(1 / spread), matrix.T @ target / noise)


def _variances(design: Design, target: np.ndarray) -> tuple[np.ndarray, float]:
    """The variance of each block of effects, and of the noise."""
    gram, along = design.matrix.T @ design.matrix, design.matrix.T @ target
    blocks = [slice(*edges) for edges in zip(design.edges[:-1], design.edges[1:], strict=True)]
    numbers = max(1, design.edges[1])
    variances, noise = np.array([1 / numbers, *(FIRST_EFFECT for _ in blocks[1:])]), FIRST_NOISE
    for _ in range(STEPS):
        covariance = np.linalg.inv(gram / noise + np.diag(1 / design.spread(variances)))
        mean = covariance @ along / noise
        second = mean**2 + covariance.diagonal()
        variances = np.array(
            [max(second[block].mean(), LEAST_VARIANCE) if second[block].size else 1.0 for block in blocks]
        )
        left = ((target - design.matrix @ mean) ** 2).sum() + (covariance * gram).sum()
        noise = max(left / len(target), 1e-4)
    return variances, noise
