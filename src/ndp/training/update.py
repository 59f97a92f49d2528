"""One training step: the update of weights, moments and average."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor

from ndp.diffusion.objective import StepInputs

GRADIENT_SCALE = 2.0**14  # where gradients pass through 16 bits; a power of two, so that it rounds nothing


class Update:
    """One optimiser step: loss, gradient, clipping, Muon or AdamW, and the running average of the weights.

    On one GPU the whole step is a CUDA graph for each shape of its inputs: the networks are small, and launching their kernels
    one by one takes several times as long as running them. A loss that draws noise takes it from the given generator, which is
    seeded by the number of the step.
    """

    def __init__(
        self,
        loss: Callable[[StepInputs, torch.Generator], Float[Tensor, "B"]],
        optimizer: torch.optim.Optimizer,
        average: list[Tensor],
        fabric: Fabric,
        *,
        ema: float,
        clip: float,
        on_graph: bool,
        through_half: bool = False,
    ) -> None:
        self._loss, self._optimizer, self._average = loss, optimizer, average
        self._ema, self._clip, self._fabric, self._on_graph = ema, clip, fabric, on_graph
        self._scale = GRADIENT_SCALE if through_half else 1.0
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._new_share = torch.zeros((), device=fabric.device)
        self._generator = torch.Generator(fabric.device)
        # One pool for all shapes: steps do not overlap, and only the loss of a step is kept.
        self._memory = torch.cuda.graph_pool_handle() if on_graph else None
        self._graphs: dict[tuple[torch.Size, int, bool], tuple[torch.cuda.CUDAGraph, StepInputs, Tensor]] = {}

    def __call__(self, inputs: StepInputs, learning_rate: float, step: int) -> Tensor:
        self._new_share.fill_(1 - min(self._ema, (1 + step) / (10 + step)))
        for group in self._optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(learning_rate)
            else:
                group["lr"] = learning_rate
        self._generator.manual_seed(step)
        if not self._on_graph:
            return self._run(inputs)
        key = inputs.x.shape, inputs.num_context, inputs.independent
        if key not in self._graphs:
            self._graphs[key] = self._capture(inputs)
            self._generator.manual_seed(step)
        graph, held, loss = self._graphs[key]
        for target, source in zip(held.tensors(), inputs.tensors(), strict=True):
            target.copy_(source)
        graph.replay()
        return loss

    def _run(self, inputs: StepInputs) -> Tensor:
        for parameter in self._parameters:
            parameter.grad = None
        loss = self._loss(inputs, self._generator).mean()
        self._fabric.backward(loss * self._scale)
        if self._scale != 1:
            gradients = [p.grad for p in self._parameters if p.grad is not None]
            torch._foreach_div_(gradients, self._scale)
            for gradient in gradients:  # one that was too large for 16 bits is left out of this step
                gradient.nan_to_num_(0.0, 0.0, 0.0)
        torch.nn.utils.clip_grad_norm_(self._parameters, self._clip)
        self._optimizer.step()
        with torch.no_grad():
            ahead = torch._foreach_sub([p.detach() for p in self._parameters], self._average)
            torch._foreach_mul_(ahead, self._new_share)
            torch._foreach_add_(self._average, ahead)
        return loss.detach()

    def _capture(self, inputs: StepInputs) -> tuple[torch.cuda.CUDAGraph, StepInputs, Tensor]:
        """Warm up (which compiles) and capture, leaving weights, optimiser and average as they were."""
        held = inputs.map(torch.clone)
        kept = self._snapshot()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._run(held)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        with torch.cuda.graph(graph, pool=self._memory):
            loss = self._run(held)
        self._restore(kept)
        return graph, held, loss

    def _tensors(self) -> list[Tensor]:
        """The tensors that a step changes; the optimiser's tensors exist after its first step."""
        moments = [
            value for p in self._parameters for value in self._optimizer.state[p].values() if isinstance(value, Tensor)
        ]
        return [*(p.detach() for p in self._parameters), *self._average, *moments]

    def _snapshot(self) -> list[Tensor]:
        if not self._optimizer.state:
            for parameter in self._parameters:
                parameter.grad = torch.zeros_like(parameter)
            saved = [p.detach().clone() for p in self._parameters]
            self._optimizer.step()
            for parameter, value in zip(self._parameters, saved, strict=True):
                parameter.detach().copy_(value)
                for moment in self._optimizer.state[parameter].values():
                    moment.zero_()
        return [t.clone() for t in self._tensors()]

    def _restore(self, kept: list[Tensor]) -> None:
        for tensor, value in zip(self._tensors(), kept, strict=True):
            tensor.copy_(value)
