"""Values without their unit, at any size that float64 has."""

import numpy as np


def standardised(values: np.ndarray) -> np.ndarray:
    """Columns [N] or [N, D] of mean 0 and standard deviation 1; constant ones are 0. Squares do not overflow."""
    size = np.abs(values).max(0, initial=0.0)
    scaled = values / np.where(size > 0, size, 1.0)
    std = scaled.std(0)
    return (scaled - scaled.mean(0)) / np.where(std > 0, std, 1.0)
