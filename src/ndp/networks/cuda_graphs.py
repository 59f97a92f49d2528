"""Calls of a network, recorded once and replayed: on a GPU a short call takes less time than launching its kernels does."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

MOST_VALUES = 2**17  # of a call that is recorded; larger ones keep a GPU busy by themselves, and would hold much memory
MOST_RECORDINGS = 4  # that are kept of a network

Shape: TypeAlias = tuple[Any, ...]  # all that a recording depends on and cannot be told anew


class GraphedCall:
    """`call(setting, *inputs)` as a function of the inputs. On a GPU, without gradients, it is recorded and replayed.

    A recording belongs to the `network` that is called and to the shapes of setting and inputs. The first call of its kind is
    an ordinary one, for libraries that set themselves up; the second is recorded; all later ones replay it, with other settings
    too, so that the posterior of another context, of as many points, is quick from its first call on. A setting holds tensors
    and plain values; with anything else in it every call is an ordinary one.
    """

    def __init__(self, network: Any, call: Callable[..., Tensor], setting: Any) -> None:
        self._network, self._call, self._setting = network, call, setting

    def __call__(self, *inputs: Tensor) -> Tensor:
        first = inputs[0]
        if first.device.type != "cuda" or torch.is_grad_enabled() or first.numel() > MOST_VALUES:
            return self._call(self._setting, *inputs)
        shape = _shape_of((self._setting, inputs))
        if shape is None:
            return self._call(self._setting, *inputs)
        shelf = _shelf_of(self._network)
        with shelf.lock:
            shape = (*_weights_of(self._network), shape)
            if shape not in shelf.recordings:
                if shape not in shelf.known:
                    shelf.known.add(shape)
                    return self._call(self._setting, *inputs)
                while len(shelf.recordings) >= MOST_RECORDINGS:
                    shelf.recordings.pop(next(iter(shelf.recordings)))
                shelf.recordings[shape] = _record(self._call, self._setting, inputs)
            return shelf.recordings[shape].replay(self._setting, inputs)


@dataclass
class _Recording:
    graph: torch.cuda.CUDAGraph
    setting: Any  # that the recording reads
    inputs: tuple[Tensor, ...]
    output: Tensor
    told: Any = None  # the setting that it holds a copy of

    def replay(self, setting: Any, inputs: tuple[Tensor, ...]) -> Tensor:
        if self.told is not setting:
            for target, source in zip(_tensors_in(self.setting), _tensors_in(setting), strict=True):
                target.copy_(source)
            self.told = setting
        for target, source in zip(self.inputs, inputs, strict=True):
            target.copy_(source)
        self.graph.replay()
        return self.output.clone()


@dataclass
class _Shelf:
    """The recordings of a network, oldest first, and the shapes that were called before."""

    recordings: dict[Shape, _Recording] = field(default_factory=dict)
    known: set[Shape] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)


_SHELVES: WeakKeyDictionary[Any, _Shelf] = WeakKeyDictionary()


def _shelf_of(network: Any) -> _Shelf:
    return _SHELVES.setdefault(network, _Shelf())


def _weights_of(network: Any) -> tuple[int, ...]:
    """Where the weights are: a recording reads them there."""
    return tuple(p.data_ptr() for p in network.parameters()) if isinstance(network, nn.Module) else ()


def _record(call: Callable[..., Tensor], setting: Any, inputs: tuple[Tensor, ...]) -> _Recording:
    held, own = tuple(t.clone() for t in inputs), _cloned(setting)
    graph = torch.cuda.CUDAGraph()
    stream = _recording_stream(inputs[0].device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        output = call(own, *held)
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return _Recording(graph, own, held, output)


@cache
def _recording_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all recordings. Products of matrices keep a workspace for every stream, which must not belong to a recording."""
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
