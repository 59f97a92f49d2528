"""The edge of models of inputs and values: values to find inputs for, numbers of points, and inputs as answers."""

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.arrays import Context, Form, read_values
from ndp.core.typing import Array


def read_wanted_values(y: Array | float, context: Context, form: Form, num_outputs: int) -> Float[Tensor, "B M P"]:
    """Values to find inputs for: one number for every task, or as many as there are points."""
    tasks = len(context.x)
    values = torch.as_tensor(y, dtype=torch.float64, device=context.x.device)
    if not values.ndim:
        values = values.expand((tasks, 1) if form.batched else (1,))
        if num_outputs > 1:
            raise ValueError(f"a point has {num_outputs} values: y_star must have shape [M, {num_outputs}]")
    points = values.shape[1 if form.batched else 0] if values.ndim > form.batched else 0
    if not points:
        raise ValueError(
            f"y_star must be a number, or hold at least one value a task; its shape is {list(values.shape)}"
        )
    like = context.x.new_zeros(tasks, points, 1)
    return read_values(values, "y_star", like, num_outputs=num_outputs, batched=form.batched)


def read_num_points(num_points: int) -> int:
    """How many points of a function to draw."""
    if num_points < 1:
        raise ValueError(f"num_points must be at least 1, not {num_points}")
    return num_points


def give_inputs(draws: Float[Tensor, "S B M D"], form: Form, wanted: object, num_samples: int | None) -> Array:
    """Inputs in the user's form: without the axes S, B and M that were left out."""
    if not torch.as_tensor(wanted).ndim:
        draws = draws[:, :, 0]
    if not form.batched:
        draws = draws[:, 0]
    return form.give_as_is(draws if num_samples is not None else draws[0])
