"""fit(): one visible loop from functions to weights.

Everything that is drawn is a function of seed, rank and number of the step, so that a run that was cut at any moment
resumes exactly, and every rank of a distributed run sees functions of its own.
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

from ndp.diffusion.joint_objective import joint_denoising_loss
from ndp.diffusion.objective import denoising_loss
from ndp.networks.attention import attention_in_half
from ndp.priors.tasks import Source
from ndp.processes.joint import JointNDP
from ndp.processes.ndp import NDP
from ndp.processes.neural_process import NeuralProcess
from ndp.training.batches import TrainingInputs
from ndp.training.config import Optimiser, Recipe
from ndp.training.muon import Muon
from ndp.training.run_folder import RunFolder, TrainingState
from ndp.training.update import StepInputs, Update


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


@dataclass(frozen=True)
class Speed:
    """Milliseconds of one step, and of its two parts: drawing functions, and the network with its update."""

    step: float
    drawing: float
    network: float
    functions_per_second: float


def fit(
    model: NDP | JointNDP | NeuralProcess,
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
    """Train `model` in place; afterwards it holds the averaged weights, which is what `validate` scores on the way.

    A neural process is trained on one device, and is not compiled. `half` says what is computed in float16.

    Resumes from `folder` where it holds a state. Ctrl-C saves a state and stops. `time_limit` in seconds ends the run early,
    with the learning rate brought to zero by then.
    """
    fabric = fabric or Fabric(accelerator="auto", devices=1)
    device = fabric.device
    raw: Any = model.network
    assert isinstance(raw, nn.Module)
    raw.to(device).requires_grad_(not recipe.trust_only)
    if recipe.trust_only:
        raw.trust.requires_grad_(True)
    if isinstance(model, NeuralProcess) and fabric.world_size > 1:
        raise ValueError(f"a {type(model).__name__} is trained on one device")
    capturable = not isinstance(model, NeuralProcess) or not model.kind.convolutional
    on_graph = device.type == "cuda" and fabric.world_size == 1 and capturable
    optimizer: torch.optim.Optimizer = (Muon if recipe.optimiser is Optimiser.MUON else torch.optim.AdamW)(
        _trained_parameters(raw).values(),
        lr=torch.tensor(recipe.learning_rate, device=device) if on_graph else recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        betas=(0.9, 0.99),
        capturable=on_graph,
        fused=on_graph,
    )
    average = [p.detach().clone() for p in _trained_parameters(raw).values()]
    start = 0
    if folder is not None and (state := folder.load_state(device)) is not None:
        start = _restore(state, raw, optimizer, average)
    loss_of: Callable[[StepInputs, torch.Generator], Tensor]
    if not isinstance(model, NeuralProcess):
        compiled: Any = raw
        if on_graph:  # every source has a shape of its own, and is compiled for it
            limit = torch._dynamo.config.recompile_limit
            torch._dynamo.config.recompile_limit = max(limit, len(sources) + 1)
            compiled = torch.compile(raw, dynamic=False)
        network, optimizer = fabric.setup(compiled, optimizer)
        loss_of = partial(_joint_loss if isinstance(model, JointNDP) else _denoising_loss, network, recipe)
    else:
        loss_of, optimizer = partial(model.loss, raw), fabric.setup_optimizers(optimizer)  # type: ignore[assignment]
    update = Update(
        loss_of,
        optimizer,
        average,
        fabric,
        ema=recipe.ema,
        clip=recipe.clip,
        on_graph=on_graph,
        through_half=half is not None,
    )
    draw = TrainingInputs(sources, recipe, device, fabric.global_rank)

    began = time.monotonic()
    seconds_before = folder.seconds() if folder is not None else 0.0

    def spent() -> float:
        return seconds_before + time.monotonic() - began

    step = start
    losses: list[Tensor] = []
    whole = True  # whether no step is half taken
    try:
        with _interrupts_between_steps() as interrupted, half(device) if half else nullcontext():
            for inputs in draw.after(start):
                if step >= recipe.steps or spent() > time_limit:
                    break
                done = max(step / recipe.steps, spent() / time_limit)
                learning_rate = schedule(recipe, step, done)
                whole = False
                losses.append(update(inputs, learning_rate, step).clone())
                step += 1
                whole = True
                score = None
                if validate is not None and (step % validate_every == 0 or step == recipe.steps):
                    score = _score(validate, raw, average)
                if step % report_every == 0 or step == recipe.steps or score is not None:
                    loss = _mean_loss(torch.stack(losses), through_half=half is not None)
                    losses.clear()
                    if not math.isfinite(loss):
                        raise FloatingPointError(
                            f"the loss became {loss} before step {step}; a lower learning rate may help"
                        )
                    report(Progress(step, loss, learning_rate, spent(), score))
                if folder is not None and fabric.is_global_zero and step % save_every == 0:
                    folder.save_state(_state(step, spent(), raw, optimizer, average))
                if interrupted():
                    raise KeyboardInterrupt
    finally:
        if folder is not None and fabric.is_global_zero and step > start and whole:
            folder.save_state(_state(step, spent(), raw, optimizer, average))
    speed = _measure(draw, update, recipe, step) if step >= recipe.steps or spent() > time_limit else Speed(0, 0, 0, 0)
    with torch.no_grad():
        for parameter, mean in zip(_trained_parameters(raw).values(), average, strict=True):
            parameter.copy_(mean)
    raw.requires_grad_(False)
    return speed


def _trained_parameters(network: nn.Module) -> dict[str, nn.Parameter]:
    """Those that training changes, by their names."""
    return {name: p for name, p in network.named_parameters() if p.requires_grad}


def _mean_loss(losses: Float[Tensor, "K"], *, through_half: bool) -> float:
    """Their mean. In 16 bits a step whose loss overflowed is left out of training (`Update`), and out of this."""
    counted = losses[losses.isfinite()] if through_half else losses
    return (counted if len(counted) else losses).mean().item()


@contextmanager
def _interrupts_between_steps() -> Iterator[Callable[[], bool]]:
    """Ctrl-C waits for the end of a step, so that no state is saved in the middle of one. Gives whether it was pressed."""
    if threading.current_thread() is not threading.main_thread():  # where Python delivers no signals
        yield lambda: False
        return
    pressed = threading.Event()
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.set())
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _denoising_loss(network: Any, recipe: Recipe, inputs: StepInputs, generator: torch.Generator) -> Float[Tensor, "B"]:
    return denoising_loss(
        network,
        inputs.x,
        inputs.y0,
        inputs.level,
        inputs.eps,
        mask=inputs.mask,
        of_function=inputs.of_function,
        independent=inputs.independent,
        answer=inputs.answer,
        num_context=inputs.num_context,
        prediction=recipe.prediction,
        error=recipe.error,
    )


def _joint_loss(network: Any, recipe: Recipe, inputs: StepInputs, generator: torch.Generator) -> Float[Tensor, "B"]:
    return joint_denoising_loss(
        network,
        *inputs.tensors()[:4],
        mask=inputs.mask,
        num_context=inputs.num_context,
        independent=inputs.independent,
        prediction=recipe.prediction,
        error=recipe.error,
    )


def schedule(recipe: Recipe, step: int, done: float) -> float:
    """Linear warm-up, then a cosine from the peak to nothing at the end; `done` is the share of the run that has passed."""
    warmed = min(1.0, (step + 1) / max(recipe.warmup, 1))
    return recipe.learning_rate * warmed * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def _score(validate: Callable[[Any], float], network: nn.Module, average: list[Tensor]) -> float:
    """The score of the averaged weights, which take the place of the trained ones for that moment."""
    parameters = [p.detach() for p in _trained_parameters(network).values()]
    kept = [p.clone() for p in parameters]
    try:
        torch._foreach_copy_(parameters, average)
        return validate(network)
    finally:
        torch._foreach_copy_(parameters, kept)


def _measure(draw: TrainingInputs, update: Update, recipe: Recipe, step: int) -> Speed:
    """Time some steps of a few sources with a learning rate of zero; only speed is learned from them."""

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
    return Speed(milliseconds, 1000 * drawing / count, 1000 * (total - drawing) / count, recipe.batch * count / total)


def _state(
    step: int, seconds: float, network: nn.Module, optimizer: torch.optim.Optimizer, average: list[Tensor]
) -> TrainingState:
    tensors = {f"weight/{name}": parameter.detach() for name, parameter in network.named_parameters()}
    for (name, parameter), mean in zip(_trained_parameters(network).items(), average, strict=True):
        state = optimizer.state[parameter]
        tensors[f"average/{name}"] = mean
        tensors[f"first/{name}"] = state["exp_avg"]
        if "exp_avg_sq" in state:
            tensors[f"second/{name}"] = state["exp_avg_sq"]
    return TrainingState(step, seconds, tensors)


def _restore(state: TrainingState, network: nn.Module, optimizer: torch.optim.Optimizer, average: list[Tensor]) -> int:
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(state.tensors[f"weight/{name}"])
        for (name, parameter), mean in zip(_trained_parameters(network).items(), average, strict=True):
            mean.copy_(state.tensors[f"average/{name}"])
            moments = {"exp_avg": state.tensors[f"first/{name}"].clone()}
            if (second := state.tensors.get(f"second/{name}")) is not None:
                on_graph = optimizer.param_groups[0]["capturable"]
                moments["step"] = torch.tensor(float(state.step), device=parameter.device if on_graph else "cpu")
                moments["exp_avg_sq"] = second.clone()
            optimizer.state[parameter] = moments
    return state.step
