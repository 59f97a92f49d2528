"""`ndp sample`: draws of a model given the observations in a table."""

from pathlib import Path

import numpy as np
import torch

from ndp.core.io.files import atomic_write
from ndp.core.io.tables import Observations, read_inputs, read_observations, write_draws
from ndp.core.plotting import check_ending, new_figure, plot_posterior, save_figure
from ndp.models.registry import load


def draw_to_files(
    name: str,
    *,
    context: Path | None,
    at: Path,
    draws: int,
    out: Path,
    plot: Path | None,
    seed: int,
    observation_noise: bool | None = None,
) -> int:
    """Condition the model on a table, draw functions at the inputs of another, write a third; returns its rows.

    The draws depend on `seed`. Mean and standard deviation do not: they are the posterior's moments, which share its encoding.
    """
    if plot:
        check_ending(plot)
    x = read_inputs(at)
    dim = x.shape[1]
    data = read_observations(context) if context else Observations(np.zeros((0, dim)), np.zeros(0), None)
    if data.x.shape[1] != dim:
        raise ValueError(f"{context} has {data.x.shape[1]} input dimensions and {at} has {dim}")
    if plot and dim != 1:
        raise ValueError(f"a plot needs one input dimension; {at} has {dim}")
    posterior = load(name).condition(data.x, data.y, noise=data.noise)
    generator = torch.Generator().manual_seed(seed)
    functions = np.asarray(posterior.sample(x, draws, observation_noise=observation_noise, generator=generator))
    mean, std = (np.asarray(moment) for moment in posterior.moments(x, observation_noise=observation_noise))
    with atomic_write(out) as table:  # table and picture, or neither
        write_draws(table, x, mean, std, functions)
        if plot:
            figure, axes = new_figure(1)
            plot_posterior(
                axes[0],
                x[:, 0],
                draws=functions,
                mean=mean,
                std=std,
                context=(data.x[:, 0], data.y),
                context_noise=data.noise,
                title=f"{name}, {len(data.y)} observations",
            )
            figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
            save_figure(figure, plot)
    return len(x)
