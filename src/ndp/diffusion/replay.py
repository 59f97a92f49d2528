"""Calls of a network, recorded once and replayed: on a GPU a short call takes less time than launching its kernels does."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

MOST_VALUES = 2**17  # of a call that is recorded; larger ones keep a GPU busy by themselves, and would hold much memory


class Replayed:
    """The same function of tensors. On a GPU, without gradients, its second call of a shape is recorded; later ones replay it.

    What else `call` depends on must stay where it is. The first call of a shape is an ordinary one, for libraries that set
    themselves up.
    """

    def __init__(self, call: Callable[..., Tensor]) -> None:
        self._call = call
        self._known: set[tuple[torch.Size, ...]] = set()
        self._recorded: dict[tuple[torch.Size, ...], tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...], Tensor]] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        first = inputs[0]
        if first.device.type != "cuda" or torch.is_grad_enabled() or first.numel() > MOST_VALUES:
            return self._call(*inputs)
        shapes = tuple(t.shape for t in inputs)
        if shapes not in self._known:
            self._known.add(shapes)
            return self._call(*inputs)
        if shapes not in self._recorded:
            self._recorded[shapes] = _record(self._call, inputs)
        graph, held, output = self._recorded[shapes]
        for target, source in zip(held, inputs, strict=True):
            target.copy_(source)
        graph.replay()
        return output.clone()


def _record(
    call: Callable[..., Tensor], inputs: tuple[Tensor, ...]
) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...], Tensor]:
    held = tuple(t.clone() for t in inputs)
    graph = torch.cuda.CUDAGraph()
    stream = _recording_stream(inputs[0].device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        output = call(*held)
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph, held, output


@cache
def _recording_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all recordings. Products of matrices keep a workspace for every stream, which must not belong to a recording."""
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)
    return stream
