"""How time and memory of the image network grow with the number of points, and how fast it trains."""

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from lightning_fabric import Fabric
from torch import Tensor

from benchmarks.report import Progress, Report, Table
from ndp.core.devices import read_device
from ndp.networks.image import ImageAttention
from ndp.priors.image import ImageSource, units_of_images
from ndp.processes.ndp import NDP
from ndp.training.config import Recipe
from ndp.training.loop import fit

POINTS = (256, 1024, 4096, 16_384)
# The network that the bar is about: the paper's size, with heads wide enough for the fused kernels.
NETWORK = {"width": 64, "heads": 2, "blocks": 4}
IMAGES_A_SECOND = 2500
GROWTH = 1.2  # memory may grow with at most this power of the number of points; 2 would be quadratic


@dataclass(frozen=True)
class Cost:
    """One forward and backward pass over one function: seconds, and megabytes.

    On a GPU memory is the peak of what was allocated, on a CPU what the forward pass keeps for the backward one.
    """

    points: int
    seconds: float
    megabytes: float


def reproduce(*, quick: bool, device: str, progress: Progress) -> Report:
    """Cost at each number of points as a table, and whether the bars are met."""
    costs = []
    for cost in measure(device, POINTS[:3] if quick else POINTS):
        costs.append(cost)
        progress(f"{cost.points:,} points: {cost.seconds:.2f} s")
    progress("Training steps")
    on_gpu = read_device(device).type == "cuda"
    speed = images_a_second(device, batch=256 if on_gpu else 2)
    rows = [(f"{cost.points:,}", f"{cost.seconds:.4f}", f"{cost.megabytes:.1f}") for cost in costs]
    power = growth(costs)
    return Report(
        "image-scaling",
        [Table("", ("points", "seconds, forward and backward", "megabytes"), rows)],
        describe(power, speed, on_gpu=on_gpu),
        {"costs": [asdict(cost) for cost in costs], "growth": power, "images_a_second": speed},
    )


def describe(power: float, speed: float, *, on_gpu: bool) -> str:
    """The findings, from the numbers."""
    linear = "met" if power <= GROWTH else "NOT met"
    fast = ("met" if speed >= IMAGES_A_SECOND else "NOT met") if on_gpu else "a bar for GPUs"
    return (
        f"Memory grows with power {power:.2f} of the points (at most {GROWTH}): {linear}\n"
        f"{speed:,.0f} images of 784 points a second in training (at least {IMAGES_A_SECOND:,}): {fast}"
    )


def measure(device: str, points: tuple[int, ...] = POINTS) -> Iterator[Cost]:
    """The cost at each number of points; on a GPU in bfloat16."""
    on = read_device(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = ImageAttention(**NETWORK).to(on)
    for count in points:
        generator = torch.Generator().manual_seed(0)
        x = (4 * torch.rand(1, count, 2, generator=generator) - 2).to(on)
        y, level = torch.randn(1, count, 1, generator=generator).to(on), torch.zeros(1, count, device=on)
        if on.type == "cuda":
            _pass(network, x, y, level)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        kept = _pass(network, x, y, level)
        if on.type == "cuda":
            torch.cuda.synchronize()
            kept = torch.cuda.max_memory_allocated()
        yield Cost(count, time.perf_counter() - began, kept / 2**20)


def _pass(network: ImageAttention, x: Tensor, y: Tensor, level: Tensor) -> int:
    """Forward and backward; returns the bytes that were kept in between."""
    storages: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"),
    ):
        loss = network(x, y, level).square().mean()
    loss.backward()
    network.zero_grad()
    return sum(storages.values())


def growth(costs: list[Cost]) -> float:
    """The power of the number of points with which memory grows, between the last two."""
    before, last = costs[-2:]
    return math.log(last.megabytes / before.megabytes) / math.log(last.points / before.points)


def images_a_second(device: str, *, batch: int, size: int = 28) -> float:
    """Whole training steps (drawing tasks, forward, backward, update) on random pictures of MNIST's size."""
    on = read_device(device)
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randint(256, (512, size, size, 1), generator=generator, dtype=torch.uint8)
    units = units_of_images(pictures)
    recipe = Recipe.from_dict({"prior": "mnist", "batch": batch, "steps": 64 if on.type == "cuda" else 1})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = ImageAttention(**NETWORK)
    fabric = Fabric(accelerator=on.type, devices=1, precision="bf16-mixed" if on.type == "cuda" else "32-true")
    model = NDP(network, num_outputs=1, input_dims=(2,), units=units)
    return fit(model, [ImageSource(pictures, units)], recipe, fabric=fabric).functions_per_second
