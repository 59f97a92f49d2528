"""What a captured step on a GPU needs of a loss, checked without one: it stays on its device and never looks at values."""

from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ndp.diffusion.objective import StepInputs
from ndp.gp.named import regression_gp
from ndp.priors.tasks import EqualContext, Synthetic
from ndp.processes.architectures import Kind
from ndp.processes.neural_process import NeuralProcess

SMALL: dict[str, Any] = {"width": 16, "dim_embedding": 16, "num_dec_layers": 2}
CAPTURABLE = [kind for kind in Kind if not kind.convolutional]
FACTORIES = (torch.zeros, torch.ones, torch.eye, torch.full, torch.randn, torch.rand, torch.arange, torch.linspace)
LOOKS = (torch.Tensor.numpy, torch.Tensor.cpu, torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.__bool__)


class Watch(TorchFunctionMode):
    """Functions that look at values, and tensors that are made without saying where."""

    def __init__(self) -> None:
        self.looks: list[str] = []
        self.placeless: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if function in LOOKS or function is torch.tensor:  # which copies what it is given to the device
            self.looks.append(function.__name__)
        if function in FACTORIES and options.get("device") is None:
            self.placeless.append(function.__name__)
        return function(*args, **options)


class WatchKernels(TorchDispatchMode):
    """Kernels that wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(word in str(function) for word in ("_local_scalar_dense", "_linalg_check_errors", "nonzero")):
            self.waits.append(str(function))
        return function(*args, **(kwargs or {}))


def inputs() -> StepInputs:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(2, 12, 1, generator=generator) for _ in range(2))
    return StepInputs(x, y, y[..., 0], y, torch.ones(2, 12, dtype=torch.bool), 4)


INPUTS = inputs()


def loss(process: NeuralProcess) -> torch.Tensor:
    return process.loss(process.network, INPUTS, torch.Generator().manual_seed(3)).mean()


@pytest.mark.parametrize("kind", CAPTURABLE)
def test_after_the_first_time_no_value_is_looked_at(kind: Kind) -> None:
    process = NeuralProcess(kind, 1, options=SMALL)
    first = loss(process)
    with Watch() as watch, WatchKernels() as kernels:
        again = loss(process)
        again.backward()
    assert again.item() == first.item()
    assert not watch.looks
    assert not kernels.waits


@pytest.mark.parametrize("kind", CAPTURABLE)
def test_all_that_it_makes_is_made_on_the_device_of_its_inputs(kind: Kind) -> None:
    process = NeuralProcess(kind, 1, options=SMALL)
    with Watch() as watch:
        loss(process)
    assert not watch.placeless


def test_the_watch_sees_what_it_is_meant_to_see() -> None:
    with Watch() as watch, WatchKernels() as kernels:
        torch.zeros(2).sum().item()
        torch.linalg.cholesky(torch.eye(2, device="cpu"))
    assert watch.looks == ["item"]
    assert watch.placeless == ["zeros"]
    assert any("_linalg_check_errors" in wait for wait in kernels.waits)


def test_at_most_sixteen_sizes_of_context_from_one_to_all() -> None:
    source = EqualContext(Synthetic(regression_gp("se"), dim=3, targets=1, most_context=30))
    generator = torch.Generator().manual_seed(0)
    sizes = {source.draw(1, generator=generator).num_context for _ in range(300)}
    assert len(sizes) == 16
    assert {1, 30} <= sizes
