"""Draws for experiments, many of them, on the device of the process.

Draws are new observations, noise included: the functions that networks are trained on carry their noise.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.typing import Array
from ndp.processes.posterior import NDPPosterior


@runtime_checkable
class Sampler(Protocol):
    """A posterior of which only draws are asked."""

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array: ...


def draw(
    posterior: Sampler,
    x: Float[Tensor, "B M D"],
    num_samples: int,
    generator: torch.Generator,
    *,
    at_once: int = 1_000_000,
) -> Float[Tensor, "S B M P"]:
    """Draws in float64 on the CPU, `at_once` function values at a time, which bounds the memory of a solver."""
    piece = max(1, at_once // (x.shape[0] * x.shape[1]))
    sizes = [min(piece, num_samples - start) for start in range(0, num_samples, piece)]
    drawn = [posterior.sample(x, size, observation_noise=True, generator=generator) for size in sizes]
    return torch.cat([torch.as_tensor(part).double().cpu() for part in drawn])


def generator_on(device: torch.device, generator: torch.Generator | None) -> torch.Generator | None:
    """A generator on the device, for methods that draw noise at every step: to copy that noise each time would be slow."""
    if generator is None or generator.device.type == device.type:
        return generator
    seed = torch.randint(2**62, (), generator=generator, device=generator.device)
    return torch.Generator(device).manual_seed(int(seed))


def draw_one_value(
    posterior: Sampler, x: Float[Tensor, "B 1 1"], num_samples: int, generator: torch.Generator
) -> Float[Tensor, "S B"]:
    """Draws of one value a task. A draw of an NDP rises with its noise, so evenly spread noise gives evenly spread draws.

    The share of draws below any value is then exact to 1 / num_samples. For plain draws the error is the root of that.
    """
    if not isinstance(posterior, NDPPosterior):
        return draw(posterior, x, num_samples, generator)[..., 0, 0]
    even = torch.special.ndtri((torch.arange(num_samples, dtype=torch.float64) + 0.5) / num_samples)
    noise = even[:, None, None, None].expand(num_samples, len(x), 1, 1)
    return torch.as_tensor(posterior.sample(x, num_samples, base_noise=noise)).double().cpu()[..., 0, 0]
