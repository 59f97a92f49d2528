"""Networks that compute in bfloat16: what comes in and goes out stays precise, and gradients stay gradients."""

import pytest
import torch
from torch import Tensor, nn

from ndp.diffusion.objective import denoising_loss
from ndp.networks.attention import attention_in_half
from ndp.networks.bidimensional import BiDimensionalAttention
from ndp.networks.embedding import PreciseLinear
from ndp.networks.registry import make_network
from ndp.training.update import GRADIENT_SCALE

LEVEL = 2.0  # little noise


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def moved(network: nn.Module) -> nn.Module:
    """The same network with an output that is not zero."""
    for index, parameter in enumerate(network.parameters()):
        parameter.data += 0.05 * torch.randn(parameter.shape, generator=seeded(index))
    return network


def test_a_precise_layer_does_not_heed_the_precision_around_it() -> None:
    layer, values = PreciseLinear(3, 2), torch.randn(4, 3, generator=seeded())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = layer(values)
        rounded = nn.Linear.forward(layer, values)
    assert got.dtype is torch.float32
    assert rounded.dtype is torch.bfloat16
    torch.testing.assert_close(got, layer(values))


def test_a_network_in_bfloat16_tells_values_apart_that_bfloat16_does_not() -> None:
    network = moved(BiDimensionalAttention(width=16, heads=2, blocks=2))
    x, level = torch.linspace(-1, 1, 6)[None, :, None], torch.full((1, 6), LEVEL)
    y = torch.full((1, 6, 1), 2.0)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        difference = (network(x, y + 0.003, level) - network(x, y, level)).abs()
    assert torch.equal((y + 0.003).bfloat16(), y.bfloat16())
    assert difference.min() > 0


def test_gradients_through_half_precision_attention_are_those_of_float32() -> None:
    network = moved(BiDimensionalAttention(width=16, heads=2, blocks=2))
    x, y, eps = (torch.randn(4, 9, 1, generator=seeded(seed)) for seed in (1, 2, 3))
    level, mask = torch.rand(4, 9, generator=seeded(4)), torch.arange(9) < torch.tensor([9, 7, 5, 9])[:, None]

    def gradients(scale: float) -> Tensor:
        network.zero_grad()
        loss = denoising_loss(network, x, y, level, eps, mask=mask, num_context=3).mean()
        (scale * 1e-4 * loss).backward()  # as small as they are in a large batch
        return torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None]) / scale

    expected = gradients(1.0)
    with attention_in_half():
        scaled, unscaled = gradients(GRADIENT_SCALE), gradients(1.0)
    error = (scaled - expected).norm() / expected.norm()
    assert 0 < error < 2e-3
    assert (unscaled - expected).norm() / expected.norm() > 2 * error


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["rotary", "raw", "image"])
@pytest.mark.parametrize("points", [26, 60, 148, 266])
def test_gradients_in_bfloat16_on_the_gpu_are_those_of_float32(kind: str, points: int) -> None:
    from ndp.core.devices import read_device

    device = read_device("cuda")
    settings = {"rotary": {}, "raw": {"inputs": "raw", "context": "full"}, "image": {"kind": "image"}}[kind]
    dim = 2 if kind == "image" else 1
    network = moved(make_network(num_outputs=1, **settings)).to(device)
    tasks, known = 64, 0 if kind == "image" else 10
    x, y, eps = (torch.randn(tasks, points, size, generator=seeded(size)).to(device) for size in (dim, 1, 1))
    level = torch.rand(tasks, points, generator=seeded(7)).to(device)
    real = torch.arange(points) < torch.randint(known + 1, points + 1, (tasks, 1), generator=seeded(8))
    mask = None if kind == "image" else real.to(device)

    def gradients() -> Tensor:
        network.zero_grad()
        denoising_loss(network, x, y, level, eps, mask=mask, num_context=known).mean().backward()
        return torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])

    expected = gradients()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        found = gradients()
    assert torch.nn.functional.cosine_similarity(expected, found, dim=0) > 0.999
    assert abs(found.norm() / expected.norm() - 1) < 0.05
