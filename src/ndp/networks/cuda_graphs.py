"""CUDA graphs of a network's calls: on a GPU, launching the kernels of a short call takes longer than they run."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

MOST_VALUES = 2**17  # of a call that is recorded; larger ones keep a GPU busy by themselves, and would hold much memory
MOST_GRAPHS = 4  # that are kept of a network
MOST_SHAPES = 256  # that are remembered of a network

Shape: TypeAlias = tuple[Any, ...]  # all that a graph depends on and that cannot be changed once it is recorded


class GraphedCall:
    """`call(constants, *inputs)` as a function of the inputs. On a GPU, without gradients, it is recorded and replayed.

    A graph belongs to the `network` that is called and to the shapes of constants and inputs. The first call of a shape is
    ordinary, because libraries set themselves up in it; the second is recorded; later ones replay the graph, with other
    constants too: the posterior of another context of as many points is quick from its first call on. Constants are tensors and
    plain values, in tuples and objects; with anything else among them every call is ordinary.

    The oldest graph of a network makes room for a new one and gives its memory back. A graph for which the memory does not
    suffice is not recorded, and its calls are ordinary.
    """

    def __init__(self, network: Any, call: Callable[..., Tensor], constants: Any) -> None:
        self._network, self._call, self._constants = network, call, constants

    def __call__(self, *inputs: Tensor) -> Tensor:
        first = inputs[0]
        if first.device.type != "cuda" or torch.is_grad_enabled() or first.numel() > MOST_VALUES:
            return self._call(self._constants, *inputs)
        shape = _shape_of((self._constants, inputs))
        if shape is None:
            return self._call(self._constants, *inputs)
        graphs = _GRAPHS.setdefault(self._network, _Graphs())
        with graphs.lock:
            graph = graphs.find((*_weights_of(self._network), shape), self._call, self._constants, inputs)
            if graph is not None:
                return graph.replay(self._constants, inputs)
        try:
            return self._call(self._constants, *inputs)
        except torch.cuda.OutOfMemoryError:
            with graphs.lock:
                graphs.clear()
        return self._call(self._constants, *inputs)


@dataclass
class _Graph:
    graph: torch.cuda.CUDAGraph
    constants: Any  # which the graph reads
    inputs: tuple[Tensor, ...]
    output: Tensor
    done: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    copied: Any = None  # the constants that were copied into its own last

    def replay(self, constants: Any, inputs: tuple[Tensor, ...]) -> Tensor:
        stream = torch.cuda.current_stream(self.output.device)
        stream.wait_event(self.done)  # of the last replay, which another stream may be in
        if self.copied is not constants:
            for target, source in zip(_tensors_in(self.constants), _tensors_in(constants), strict=True):
                target.copy_(source)
            self.copied = constants
        for target, source in zip(self.inputs, inputs, strict=True):
            target.copy_(source)
        self.graph.replay()
        output = self.output.clone()
        self.done.record(stream)
        return output


@dataclass
class _Graphs:
    """The graphs of a network and the shapes of its calls, oldest first. One whose graph does not fit in memory has none."""

    graphs: dict[Shape, _Graph] = field(default_factory=dict)
    shapes: dict[Shape, bool] = field(default_factory=dict)  # whether to record the next call
    lock: Lock = field(default_factory=Lock)

    def find(
        self, shape: Shape, call: Callable[..., Tensor], constants: Any, inputs: tuple[Tensor, ...]
    ) -> _Graph | None:
        """The graph of this shape, recorded if this is its second call; none if the call is to be an ordinary one."""
        if shape in self.graphs:
            return self.graphs[shape]
        if not self.shapes.get(shape, False):
            self.shapes.setdefault(shape, True)
            if len(self.shapes) > MOST_SHAPES:
                del self.shapes[next(iter(self.shapes))]
            return None
        if len(self.graphs) >= MOST_GRAPHS:
            del self.graphs[next(iter(self.graphs))]
            torch.cuda.empty_cache()  # a graph's memory serves no other graph: it is of use only when it is given back
        for _ in range(2):  # the second time with all the memory that can be freed
            with suppress(torch.cuda.OutOfMemoryError):
                self.graphs[shape] = _record(call, constants, inputs)
                return self.graphs[shape]
            self.clear()
        self.shapes[shape] = False
        return None

    def clear(self) -> None:
        self.graphs.clear()
        torch.cuda.empty_cache()


_GRAPHS: WeakKeyDictionary[Any, _Graphs] = WeakKeyDictionary()


def _weights_of(network: Any) -> tuple[int, ...]:
    """Where the weights are: a graph reads them there."""
    return tuple(p.data_ptr() for p in network.parameters()) if isinstance(network, nn.Module) else ()


def _record(call: Callable[..., Tensor], constants: Any, inputs: tuple[Tensor, ...]) -> _Graph:
    own_inputs, own_constants = tuple(t.clone() for t in inputs), _cloned(constants)
    graph = torch.cuda.CUDAGraph()
    stream = _recording_stream(inputs[0].device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call(own_constants, *own_inputs)  # a compiled network compiles for clones, whose strides may differ
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            output = call(own_constants, *own_inputs)
        except BaseException:
            with (
                suppress(RuntimeError),
                warnings.catch_warnings(action="ignore"),
            ):  # the call's error is the one to show
                graph.capture_end()
            raise
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return _Graph(graph, own_constants, own_inputs, output)


@cache
def _recording_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all graphs. Products of matrices keep a workspace for every stream, which must not belong to a graph."""
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)
    return stream


def _shape_of(value: Any) -> Shape | None:
    """A description in which two values differ by no more than the numbers in their tensors; none if there is none."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype, value.device
    if value is None or isinstance(value, bool | int | float | str):
        return (value,)
    parts = [_shape_of(part) for part in _parts_of(value)]
    if not parts or None in parts:
        return None
    return type(value), *parts


def _parts_of(value: Any) -> tuple[Any, ...]:
    """What a tuple or a plain object holds."""
    if isinstance(value, tuple):
        return value
    return () if callable(value) else tuple(getattr(value, "__dict__", {}).values())


def _tensors_in(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [t for part in _parts_of(value) for t in _tensors_in(part)]


def _cloned(value: Any) -> Any:
    """The same with tensors of its own."""
    if isinstance(value, Tensor):
        return value.clone()
    parts = [_cloned(part) for part in _parts_of(value)]
    if isinstance(value, tuple):
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if not parts:
        return value
    twin = copy(value)
    vars(twin).update(zip(vars(value), parts, strict=True))
    return twin
