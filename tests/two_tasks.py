"""Two tasks that tests hand to `gp-se` and `oracle-se`."""

import numpy as np
import torch

NOISE = 0.05  # of the observations of `gp-se` and `oracle-se`

# Two tasks, so that a mistake in the order of axes shows.
X = np.array([[-0.8, -0.1, 0.3, 0.9], [-0.6, 0.0, 0.2, 0.7]])
Y = np.array([[0.4, -1.1, 0.7, 0.2], [-0.3, 0.9, 1.4, -0.5]])
X_NEW = np.array([-0.5, 0.1, 0.35])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
