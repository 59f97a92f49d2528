"""The public edge: what a user hands in is checked and given its full axes, what goes back is put in the user's form.

A user may pass numpy arrays or torch tensors, and leave out the axes that a single task with one output does not need:

    x  [N], [N D] or [B N D]        y  [N], [N P], [B N] or [B N P]

Whatever axis and kind was left out on the way in is left out on the way back. Inside, nothing is ever left out. Inputs stay
in float64 until a network is called: a shift of the origin must not cost digits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.typing import Array

LARGEST = 1e300  # in size, of a number that is handed in: answers are some times as large, and float64 ends at 1.8e308


@dataclass(frozen=True)
class Context:
    """What was observed: values `y` at `x` with noise of standard deviation `noise`; `mask=True` is a real point."""

    x: Float[Tensor, "B C D"]
    y: Float[Tensor, "B C P"]
    noise: Float[Tensor, "B C"]
    mask: Bool[Tensor, "B C"]


@dataclass(frozen=True)
class Form:
    """The form in which a user handed things in, and gets things back."""

    numpy: bool
    batched: bool
    outputs: bool

    def give(self, values: Float[Tensor, "*S B M P"]) -> Array:
        """Function values, without the axes that the user left out."""
        if not self.outputs:
            values = values.squeeze(-1)
        if not self.batched:
            values = values.squeeze(-2 if not self.outputs else -3)
        return self.give_as_is(values)

    def give_per_task(self, values: Float[Tensor, "B"]) -> Array:
        """One number a task."""
        return self.give_as_is(values if self.batched else values.squeeze(-1))

    def give_as_is(self, values: Tensor) -> Array:
        return values.detach().cpu().numpy() if self.numpy else values


def read_context(
    x: Array,
    y: Array,
    noise: Array | float | None = None,
    mask: Array | None = None,
    *,
    num_outputs: int,
    input_dims: tuple[int, ...] | None,
    device: torch.device,
) -> tuple[Context, Form]:
    """Check a context and give it its full axes. No points at all is a context too: that of the prior."""
    inputs = read_inputs(x, "x", input_dims=input_dims, device=device, allow_empty=True, mask=mask)
    values = _tensor(y, "y", device)
    batched = _ndim(x) == 3
    outputs = values.ndim == (3 if batched else 2)
    y_full = read_values(y, "y", inputs, num_outputs=num_outputs, batched=batched, mask=mask)
    mask_full = _read_mask(mask, inputs, batched)
    context = Context(
        x=inputs.masked_fill(~mask_full[..., None], 0.0),
        y=y_full.masked_fill(~mask_full[..., None], 0.0),
        noise=_read_noise(noise, inputs, mask_full, batched),
        mask=mask_full,
    )
    return context, Form(numpy=not isinstance(x, Tensor), batched=batched, outputs=outputs or num_outputs > 1)


def empty_context(x: Float[Tensor, "B M D"], num_outputs: int) -> Context:
    """No observations, for the tasks and input dimensions of `x`."""
    batch, _, dim = x.shape
    return Context(
        x=x.new_zeros(batch, 0, dim),
        y=x.new_zeros(batch, 0, num_outputs),
        noise=x.new_zeros(batch, 0),
        mask=torch.ones(batch, 0, dtype=torch.bool, device=x.device),
    )


def form_of_inputs(x: Array, num_outputs: int) -> Form:
    """The form of an answer where only inputs were handed in: a batch of tasks gets all axes."""
    batched = _ndim(x) == 3
    return Form(numpy=not isinstance(x, Tensor), batched=batched, outputs=batched or num_outputs > 1)


def read_inputs(
    x: Array,
    name: str = "x",
    *,
    input_dims: tuple[int, ...] | None,
    device: torch.device,
    allow_empty: bool = False,
    mask: Array | None = None,
) -> Float[Tensor, "B N D"]:
    """Inputs with all three axes, in float64."""
    inputs = _tensor(x, name, device)
    batched = inputs.ndim == 3
    if inputs.ndim not in (1, 2, 3):
        raise ValueError(f"{name} must have shape [N], [N, D] or [B, N, D]; its shape is {_shape(inputs)}")
    if inputs.ndim == 1:
        inputs = inputs[:, None]
    if inputs.ndim == 2:
        inputs = inputs[None]
    if inputs.shape[0] == 0:
        raise ValueError(f"{name} holds no tasks: its shape is {_shape(inputs)}")
    if inputs.shape[1] == 0 and not allow_empty:
        raise ValueError(f"{name} holds no points; ask for at least one")
    dim = inputs.shape[2]
    if dim == 0:
        raise ValueError(f"{name} has no input dimensions: its shape is {_shape(inputs)}")
    if input_dims is not None and dim not in input_dims:
        supported = ", ".join(map(str, input_dims))
        raise ValueError(f"{name} has {dim} input dimension(s) (its last axis); this model supports {supported}")
    _check_finite(inputs, name, _read_mask(mask, inputs, batched))
    return inputs


def read_inputs_for(context: Context, x: Array) -> Float[Tensor, "B M D"]:
    """Inputs of targets that go with a context: as many dimensions, and as many tasks or one for all."""
    inputs = read_inputs(x, input_dims=None, device=context.x.device)
    tasks, _, dim = context.x.shape
    if inputs.shape[2] != dim:
        raise ValueError(f"x has {inputs.shape[2]} input dimension(s) (its last axis) and the context has {dim}")
    if inputs.shape[0] not in (1, tasks):
        raise ValueError(f"x holds {inputs.shape[0]} task(s) and the context {tasks}; pass as many, or one for all")
    return inputs.expand(tasks, -1, -1)


def read_values(
    y: Array,
    name: str,
    inputs: Float[Tensor, "B N D"],
    *,
    num_outputs: int,
    batched: bool,
    mask: Array | None = None,
) -> Float[Tensor, "B N P"]:
    """Function values at `inputs` with all three axes, in float64."""
    values = _tensor(y, name, inputs.device)
    batch, points, _ = inputs.shape
    allowed: list[tuple[int, ...]] = [(batch, points, num_outputs)] if batched else [(points, num_outputs)]
    if num_outputs == 1:
        allowed.append((batch, points) if batched else (points,))
    if tuple(values.shape) not in allowed:
        forms = " or ".join(str(list(form)) for form in allowed)
        raise ValueError(
            f"{name} must have shape {forms} to go with {points} points of {num_outputs} output(s); "
            f"its shape is {_shape(values)}"
        )
    values = values.reshape(batch, points, num_outputs)
    _check_finite(values, name, _read_mask(mask, inputs, batched))
    return values


def read_target_values(
    context: Context, form: Form, x: Array, y: Array
) -> tuple[Float[Tensor, "B M D"], Float[Tensor, "B M P"]]:
    """Inputs and values of targets that go with a context."""
    inputs = read_inputs_for(context, x)
    values = read_values(y, "y", inputs, num_outputs=context.y.shape[-1], batched=form.batched)
    return inputs, values


def read_base_noise(noise: Array, shape: tuple[int, ...], like: Tensor) -> Float[Tensor, "S B M P"]:
    """The noise of draws: one number for each value that is drawn."""
    values = _tensor(noise, "base_noise", like.device).to(noise.dtype if isinstance(noise, Tensor) else torch.float64)
    if values.numel() != torch.Size(shape).numel():
        raise ValueError(
            f"base_noise must hold one number for each value that is drawn: {list(shape)}, not {list(values.shape)}"
        )
    if not bool(torch.isfinite(values).all()):
        raise ValueError("base_noise holds NaN or infinity")
    return values.reshape(shape)


def check_num_samples(num_samples: int | None) -> int:
    """How many draws to make; None is one."""
    if num_samples is None:
        return 1
    if isinstance(num_samples, bool) or not isinstance(num_samples, (int, np.integer)) or num_samples < 1:
        raise ValueError(f"num_samples must be a whole number of at least 1, not {num_samples!r}")
    return int(num_samples)


def read_probabilities(probabilities: Sequence[float], like: Tensor) -> Float[Tensor, "Q"]:
    """Probabilities of quantiles."""
    values = _tensor(np.asarray(probabilities), "probabilities", torch.device("cpu")).flatten()
    if not len(values) or not bool(((values >= 0) & (values <= 1)).all()):
        raise ValueError(f"probabilities must be numbers from 0 to 1, not {list(probabilities)}")
    return values.to(like)


def read_observation_noise(asked: bool | None, *, separates_noise: bool, carries_noise: bool = True) -> bool:
    """Whether new observations are asked for (True), or values of the function.

    A model that `separates_noise` has both, and the function is its default. Others have one kind of values: where these carry
    noise, the function without it cannot be had.
    """
    if asked is not None and not isinstance(asked, bool | np.bool_):
        raise ValueError(f"observation_noise must be True, False or None, not {asked!r}")
    if separates_noise:
        return bool(asked)
    if carries_noise and asked is not None and not asked:
        raise ValueError(
            "this model has one kind of values: its functions carry the noise that they are observed with. Leave "
            "observation_noise out, or pass True"
        )
    return True


def _read_noise(
    noise: Array | float | None, inputs: Tensor, mask: Bool[Tensor, "B C"], batched: bool
) -> Float[Tensor, "B C"]:
    shape = inputs.shape[:2]
    if noise is None:
        return inputs.new_zeros(shape)
    values = _tensor(noise, "noise", inputs.device)
    if values.ndim and tuple(values.shape) not in ([tuple(shape)] if batched else [(shape[1],), tuple(shape)]):
        wanted = list(shape if batched else shape[1:])
        raise ValueError(f"noise must be one number or have shape {wanted}; its shape is {_shape(values)}")
    values = values.expand(shape).masked_fill(~mask, 0.0)
    if not bool(((values >= 0) & (values <= LARGEST)).all()):
        raise ValueError(
            f"noise is a standard deviation: every value must be finite and not negative, and at most {LARGEST:g}"
        )
    return values


def _read_mask(mask: Array | None, inputs: Tensor, batched: bool) -> Bool[Tensor, "B C"]:
    shape = inputs.shape[:2]
    if mask is None:
        return torch.ones(shape, dtype=torch.bool, device=inputs.device)
    kind = mask.dtype if isinstance(mask, Tensor) else np.asarray(mask).dtype
    if str(kind).removeprefix("torch.") != "bool":
        raise ValueError(f"mask must hold booleans (True is a real point), not {kind}")
    # A copy, so that a posterior owns its context.
    values = mask.clone() if isinstance(mask, Tensor) else torch.from_numpy(np.array(mask, order="C"))
    values = values.to(inputs.device)
    if tuple(values.shape) not in ([tuple(shape)] if batched else [(shape[1],), tuple(shape)]):
        raise ValueError(f"mask must have shape {list(shape if batched else shape[1:])}; its shape is {_shape(values)}")
    return values.expand(shape)


def _tensor(values: Array | float, name: str, device: torch.device) -> Tensor:
    if isinstance(values, Tensor):
        if values.dtype == torch.bool or values.is_complex() or values.is_quantized:
            raise ValueError(f"{name} must be an array of real numbers, not {values.dtype}")
        if values.layout != torch.strided:
            raise ValueError(f"{name} must be a dense tensor, not a {values.layout} one; call its to_dense()")
        return values.to(device, torch.float64)
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array, whose mask would be lost; pass its values, and mask=~{name}.mask")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of numbers ({error})") from error
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be an array of real numbers, not {array.dtype.type.__name__}")
    # A copy in numpy's hands: torch balks at arrays that are read-only, reversed or of another byte order.
    return torch.from_numpy(array.astype(np.float64, order="C")).to(device)


def _check_finite(values: Float[Tensor, "B N _"], name: str, mask: Bool[Tensor, "B N"]) -> None:
    bad = ~(values.abs() <= LARGEST) & mask[..., None]
    if bool(bad.any()):
        task, point, axis = (int(i) for i in bad.nonzero()[0])
        where = f"point {point}" + (f" of task {task}" if values.shape[0] > 1 else "")
        where += f", column {axis}" if values.shape[2] > 1 else ""
        value = values[task, point, axis].item()
        advice = "remove the point or leave it out with mask=False"
        if math.isfinite(value):
            advice = f"numbers above {LARGEST:g} in size are too large: divide them by a constant first"
        raise ValueError(f"{name} holds {value} at {where} (counted from 0); {advice}")


def _ndim(x: Array) -> int:
    return x.ndim if isinstance(x, Tensor) else np.asarray(x).ndim


def _shape(values: Tensor) -> list[int]:
    return list(values.shape)
