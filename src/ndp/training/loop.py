"""fit(): one visible loop from functions to weights.

All random numbers are determined by seed, rank and step. So an interrupted run resumes exactly, and every rank of a distributed
run sees functions of its own.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor, nn

from ndp.models.registry import TrainedModel
from ndp.networks.attention import attention_in_half
from ndp.priors.tasks import Source
from ndp.training.batches import TrainingInputs
from ndp.training.build import objective_of
from ndp.training.config import Recipe
from ndp.training.run_folder import RunFolder
from ndp.training.speed import Speed, measure_speed
from ndp.training.update import Update
from ndp.training.weights import Weights


class Half(StrEnum):
    """What is computed in float16: attention over points, or all layers but those where values come in and go out."""

    ATTENTION = "16-attention"
    NETWORK = "16-mixed"

    def __call__(self, device: torch.device) -> AbstractContextManager[Any]:
        """Compute in it."""
        match self:
            case Half.ATTENTION:
                return attention_in_half()
            case Half.NETWORK:  # weights change at every step, so that none may be kept in float16
                return torch.autocast(device.type, torch.float16, cache_enabled=False)


@dataclass(frozen=True)
class Progress:
    """What a progress bar or a log wants to know after some steps."""

    step: int
    loss: float
    learning_rate: float
    seconds: float
    validation: float | None = None  # the score of the averaged weights, where it was measured after this step


def fit(
    model: TrainedModel,
    sources: list[Source],
    recipe: Recipe,
    *,
    folder: RunFolder | None = None,
    fabric: Fabric | None = None,
    save_every: int = 2000,
    report: Callable[[Progress], None] = lambda progress: None,
    report_every: int = 50,
    validate: Callable[[Any], float] | None = None,
    validate_every: int = 2000,
    time_limit: float = math.inf,
    half: Half | None = None,
) -> Speed:
    """Train `model` in place; afterwards it holds the averaged weights, which `validate` scores on the way.

    Resumes from `folder` where it holds a state. Ctrl-C saves a state and stops. `time_limit` in seconds ends the run early,
    with the learning rate brought to zero by then. `half` says what is computed in float16.
    """
    fabric = fabric or Fabric(accelerator="auto", devices=1)
    on_graph = _steps_on_graph(model, fabric)
    assert isinstance(model.network, nn.Module)
    weights = Weights.of(model.network, recipe, fabric.device, on_graph=on_graph)
    state = None if folder is None else folder.load_state(fabric.device)
    step = start = 0 if state is None else weights.restore(state)
    if folder is not None and fabric.is_global_zero:
        folder.forget_after(start)
    loss = _loss(model, weights, recipe, fabric, shapes=len(sources) if on_graph else 0)
    update = Update(
        loss,
        weights.optimizer,
        weights.average,
        fabric,
        ema=recipe.ema,
        clip=recipe.clip,
        on_graph=on_graph,
        through_half=half is not None,
    )
    draw = TrainingInputs(sources, recipe, fabric.device, fabric.global_rank)
    clock = _Clock(recipe.steps, time_limit, 0.0 if state is None else state.seconds)
    losses: list[Tensor] = []
    whole, diverged = True, False  # whether no step is under way, and whether the loss is no number

    def save() -> None:
        state = weights.state(step, clock.seconds)
        if folder is None:
            state.check_finite()
        elif fabric.is_global_zero:
            folder.save_state(state)

    with _advice_where_it_diverges(folder, recipe):
        try:
            with _interrupts_between_steps() as interrupted, half(fabric.device) if half else nullcontext():
                for inputs in draw.after(start):
                    if clock.is_over(step):
                        break
                    learning_rate = schedule(recipe, step, clock.share(step))
                    whole = False
                    losses.append(update(inputs, learning_rate, step).clone())
                    step += 1
                    whole = True
                    last = step == recipe.steps
                    score = weights.score(validate) if validate and (step % validate_every == 0 or last) else None
                    if step % report_every == 0 or last or score is not None:
                        mean = _mean_loss(losses, step, through_half=half is not None)
                        report(Progress(step, mean, learning_rate, clock.seconds, score))
                    if step % save_every == 0:
                        save()
                    if interrupted():
                        raise KeyboardInterrupt
        except FloatingPointError:
            diverged = True
            raise
        finally:
            if step > start and whole and not diverged:
                save()
    speed = measure_speed(draw, update, recipe.batch, step) if clock.is_over(step) else Speed()
    weights.finish()
    return speed


def _steps_on_graph(model: TrainedModel, fabric: Fabric) -> bool:
    """Whether a step is a CUDA graph."""
    support = model.training_support
    if fabric.world_size > 1 and not support.distributed:
        raise ValueError(f"a {type(model).__name__} is trained on one device")
    return fabric.device.type == "cuda" and fabric.world_size == 1 and support.cuda_graph


def _loss(
    model: TrainedModel, weights: Weights, recipe: Recipe, fabric: Fabric, *, shapes: int
) -> Callable[..., Tensor]:
    """The model's loss as a function of the inputs of a step; its network is compiled for so many shapes of inputs."""
    network: Any = weights.network
    if model.training_support.distributed:
        if shapes and model.training_support.compiled:
            limit = torch._dynamo.config.recompile_limit
            torch._dynamo.config.recompile_limit = max(limit, shapes + 1)
            network = torch.compile(network, dynamic=False)
        network, weights.optimizer = fabric.setup(network, weights.optimizer)
    else:
        weights.optimizer = fabric.setup_optimizers(weights.optimizer)  # type: ignore[assignment]
    return partial(model.loss, network, objective=objective_of(recipe))


@contextmanager
def _advice_where_it_diverges(folder: RunFolder | None, recipe: Recipe) -> Iterator[None]:
    """What to do, behind the error of a run that diverged."""
    try:
        yield
    except FloatingPointError as error:
        rate = f"{recipe.learning_rate / 2:g}"
        kept = 0 if folder is None else folder.saved()[0]
        advice = f"Nothing was saved; start again with a lower learning rate, such as {rate}"
        if folder is not None and kept:
            advice = (
                f"The state of step {kept} is kept; go on from there with a lower learning rate: "
                f"ndp train --resume {folder.path} --learning-rate {rate}"
            )
        raise FloatingPointError(f"{error}. {advice}") from error


class _Clock:
    """How much of a run has passed, by its steps or by its time limit."""

    def __init__(self, steps: int, limit: float, before: float) -> None:
        self._steps, self._limit, self._before, self._began = steps, limit, before, time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._began

    def share(self, step: int) -> float:
        return max(step / self._steps, self.seconds / self._limit)

    def is_over(self, step: int) -> bool:
        return step >= self._steps or self.seconds > self._limit


def _mean_loss(losses: list[Tensor], step: int, *, through_half: bool) -> float:
    """The mean of the losses since the last report, which are then forgotten.

    In 16 bits a step whose loss overflowed is left out of training (`Update`), and out of the mean.
    """
    every: Float[Tensor, "K"] = torch.stack(losses)
    losses.clear()
    counted = every[every.isfinite()] if through_half else every
    mean = (counted if len(counted) else every).mean().item()
    if not math.isfinite(mean):
        raise FloatingPointError(f"the loss became {mean} before step {step}")
    return mean


@contextmanager
def _interrupts_between_steps() -> Iterator[Callable[[], bool]]:
    """Ctrl-C waits for the end of a step, so that no half-finished step is saved. Gives whether it was pressed."""
    if threading.current_thread() is not threading.main_thread():  # where Python delivers no signals
        yield lambda: False
        return
    pressed = threading.Event()
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.set())
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def schedule(recipe: Recipe, step: int, done: float) -> float:
    """Linear warm-up, then a cosine from the peak to zero at the end; `done` is the share of the run that has passed."""
    warmed = min(1.0, (step + 1) / max(recipe.warmup, 1))
    return recipe.learning_rate * warmed * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
