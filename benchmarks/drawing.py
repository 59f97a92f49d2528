"""Draws for experiments, many of them, on whatever device the process lives."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.typing import Array
from ndp.processes.ndp import NDPPosterior

Tell = Callable[[str], None]  # where an experiment says what it is at


@runtime_checkable
class Sampler(Protocol):
    """All that is asked of a posterior where only its draws count."""

    def sample(
        self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None
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
    return torch.cat([torch.as_tensor(posterior.sample(x, size, generator=generator)).double().cpu() for size in sizes])


def generator_on(device: torch.device, generator: torch.Generator | None) -> torch.Generator | None:
    """A generator for methods that draw noise at every step: on their device, for it is not to be carried there each time."""
    if generator is None or generator.device.type == device.type:
        return generator
    seed = torch.randint(2**62, (), generator=generator, device=generator.device)
    return torch.Generator(device).manual_seed(int(seed))


def draw_one_value(
    posterior: Sampler, x: Float[Tensor, "B 1 1"], num_samples: int, generator: torch.Generator
) -> Float[Tensor, "S B"]:
    """Draws of one value a task. An NDP's is a rising function of its noise, so that evenly spread noise gives its law.

    The share of draws below any place is then exact to 1 / num_samples, where plain draws are off by the root of it.
    """
    if not isinstance(posterior, NDPPosterior):
        return draw(posterior, x, num_samples, generator)[..., 0, 0]
    even = torch.special.ndtri((torch.arange(num_samples, dtype=torch.float64) + 0.5) / num_samples)
    noise = even[:, None, None, None].expand(num_samples, len(x), 1, 1)
    return torch.as_tensor(posterior.sample(x, num_samples, base_noise=noise)).double().cpu()[..., 0, 0]
