"""The weights that training changes: the optimiser that moves them, their running average, and how both are saved."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ndp.core.messages import short
from ndp.training.config import Recipe
from ndp.training.muon import Muon
from ndp.training.run_folder import TrainingState

T = TypeVar("T")
_OPTIMISERS: dict[str, Any] = {"muon": Muon, "adamw": torch.optim.AdamW}


@dataclass
class Weights:
    """A network, the optimiser of its trained parameters, and the running average of these."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    parameters: dict[str, nn.Parameter]
    average: list[Tensor]

    @staticmethod
    def of(network: nn.Module, recipe: Recipe, device: torch.device, *, on_graph: bool) -> "Weights":
        """All weights of a network or, with `gate_only`, those of its gate. `on_graph` is for steps in a CUDA graph."""
        trained: Any = network.to(device).requires_grad_(not recipe.gate_only)
        if recipe.gate_only:
            trained.gate.requires_grad_(True)
        parameters = {name: p for name, p in network.named_parameters() if p.requires_grad}
        optimizer = _OPTIMISERS[recipe.optimiser](
            parameters.values(),
            lr=torch.tensor(recipe.learning_rate, device=device) if on_graph else recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            betas=(0.9, 0.99),
            capturable=on_graph,
            fused=on_graph,
        )
        return Weights(network, optimizer, parameters, [p.detach().clone() for p in parameters.values()])

    def score(self, validate: Callable[[Any], T]) -> T:
        """The score of the averaged weights."""
        with self._averaged():
            return validate(self.network)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """The averaged weights take the place of the trained ones."""
        parameters = [p.detach() for p in self.parameters.values()]
        kept = [p.clone() for p in parameters]
        try:
            torch._foreach_copy_(parameters, self.average)
            yield
        finally:
            torch._foreach_copy_(parameters, kept)

    def finish(self) -> None:
        """Give the network its averaged weights, and end their training."""
        torch._foreach_copy_([p.detach() for p in self.parameters.values()], self.average)
        self.network.requires_grad_(False)

    def state(self, step: int, seconds: float) -> TrainingState:
        """Everything that a resumed run needs.

        A parameter without a gradient in a step is left alone by it, and counts it not. One that never had a gradient has the
        moments that the optimiser would begin with.
        """
        tensors = {f"weight/{name}": parameter.detach() for name, parameter in self.network.named_parameters()}
        for (name, parameter), mean in zip(self.parameters.items(), self.average, strict=True):
            moments = self.optimizer.state[parameter]
            tensors[f"average/{name}"] = mean
            tensors[f"first/{name}"] = moments.get("exp_avg", torch.zeros_like(mean))
            if self._has_second(parameter):
                tensors[f"second/{name}"] = moments.get("exp_avg_sq", torch.zeros_like(mean))
                tensors[f"steps/{name}"] = moments.get("step", torch.zeros(()))
        return TrainingState(step, seconds, tensors)

    def _has_second(self, parameter: nn.Parameter) -> bool:
        """Whether a parameter is AdamW's, which keeps its second moment too, and counts its steps."""
        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)  # within Fabric's
        return not isinstance(optimizer, Muon) or not optimizer.moves_matrix(parameter)

    def _check(self, state: TrainingState) -> None:
        """That a state is of this network."""
        needed: dict[str, Tensor] = {f"weight/{name}": parameter for name, parameter in self.network.named_parameters()}
        for name, parameter in self.parameters.items():
            needed |= {f"average/{name}": parameter, f"first/{name}": parameter}
            if self._has_second(parameter):
                needed |= {f"second/{name}": parameter, f"steps/{name}": torch.zeros(())}
        of_another = "the state is of another network or optimiser"
        advice = "resume with the recipe it was saved by"
        for name in (*needed, *state.tensors):
            if name not in needed or name not in state.tensors:
                word = "lacks" if name in needed else "has an unknown"
                raise ValueError(f"{of_another}: it {word} {short(name)}; {advice}")
        for name, like in needed.items():
            found = state.tensors[name]
            if (found.shape, found.dtype) != (like.shape, like.dtype):
                raise ValueError(
                    f"{of_another}: {name} is {found.dtype} of shape {short(list(found.shape))}, and not {like.dtype} "
                    f"of shape {list(like.shape)}; {advice}"
                )

    @torch.no_grad()
    def restore(self, state: TrainingState) -> int:
        """The inverse of `state`; returns the step."""
        self._check(state)
        for name, parameter in self.network.named_parameters():
            parameter.copy_(state.tensors[f"weight/{name}"])
        for (name, parameter), mean in zip(self.parameters.items(), self.average, strict=True):
            mean.copy_(state.tensors[f"average/{name}"])
            moments = {"exp_avg": state.tensors[f"first/{name}"].clone()}
            if (second := state.tensors.get(f"second/{name}")) is not None:
                on_graph = self.optimizer.param_groups[0]["capturable"]
                steps = state.tensors[f"steps/{name}"].clone()
                moments["step"] = steps if on_graph else steps.cpu()
                moments["exp_avg_sq"] = second.clone()
            self.optimizer.state[parameter] = moments
        return state.step
