"""How long a training step takes, and its two parts."""

import math
import time
from dataclasses import dataclass

import torch

from ndp.training.batches import TrainingInputs
from ndp.training.update import Update


@dataclass(frozen=True)
class Speed:
    """Milliseconds of one step, and of its two parts: drawing functions, and the network with its update."""

    step: float = 0.0
    drawing: float = 0.0
    network: float = 0.0
    functions_per_second: float = 0.0


def measure_speed(draw: TrainingInputs, update: Update, batch: int, step: int) -> Speed:
    """Time some steps of a few sources with a learning rate of zero, which changes nothing but the optimiser's moments."""

    def synchronised() -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()

    drawing, total, count = 0.0, 0.0, 0
    few = 6 if torch.cuda.is_available() else 1
    for source in range(0, len(draw.sources), math.ceil(len(draw.sources) / few)):
        begin = synchronised()
        inputs = draw.chunk(source, 10**9)
        drawn = synchronised()
        for one in inputs:
            update(one, 0.0, step)
        total += synchronised() - begin
        drawing += drawn - begin
        count += len(inputs)
    milliseconds = 1000 * total / count
    return Speed(milliseconds, 1000 * drawing / count, 1000 * (total - drawing) / count, batch * count / total)
