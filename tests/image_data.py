"""Pictures that tests make themselves: one bright bar in each, upright or lying, somewhere."""

from pathlib import Path

import numpy as np


def bars(count: int, size: int = 28, channels: int = 1, seed: int = 0) -> np.ndarray:
    """Pictures [T, size, size, P] of 8 bits."""
    random = np.random.default_rng(seed)
    pictures = np.zeros((count, size, size, channels), dtype=np.uint8)
    for picture in pictures:
        start = random.integers(size - 4)
        colour = random.integers(100, 256, channels)
        if random.random() < 0.5:
            picture[start : start + 4] = colour
        else:
            picture[:, start : start + 4] = colour
    return pictures


def write_npz(folder: Path, *, size: int = 28, channels: int = 1, train: int = 30, test: int = 12) -> Path:
    """A folder with one NPZ file of pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "bars.npz", train=bars(train, size, channels), test=bars(test, size, channels, seed=1))
    return folder
