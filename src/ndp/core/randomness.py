"""Randomness is explicit: a generator that the user passes, or a fresh one; never the global one."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

BLOCK = 16  # normal numbers that torch makes at a time: those of the last block depend on how many are drawn
MOST_NUMBERS = 10**8  # of one draw: 0.8 GB, and a solver holds several of that size


def normal(shape: tuple[int, ...], generator: torch.Generator | None, *, like: Tensor) -> Tensor:
    """Standard normal noise with the dtype and on the device of `like`.

    A generator gives the same noise on every device, and the first draws are the same however many are asked for.
    """
    generator = _on_cpu(read_generator(generator))
    size = math.prod(shape)
    if size > MOST_NUMBERS:
        raise ValueError(
            f"draws of shape {list(shape)} hold {size:.3g} numbers, and {MOST_NUMBERS:.0e} are the most at a time; "
            "ask for fewer draws or points"
        )
    noise = torch.randn(-(-size // BLOCK) * BLOCK, generator=generator, dtype=torch.float64)
    return noise[:size].reshape(shape).to(like)


def read_generator(generator: torch.Generator | None) -> torch.Generator:
    """The generator itself, or a fresh one for None."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise ValueError(
            f"generator must be a torch.Generator, such as torch.Generator().manual_seed(0), or None, not {generator!r}"
        )
    return generator or fresh_generator()


def fresh_generator() -> torch.Generator:
    """A generator seeded by the operating system."""
    generator = torch.Generator()
    generator.seed()
    return generator


def seed_from(generator: torch.Generator | None) -> int:
    """A seed for another generator: the next number of this one."""
    generator = read_generator(generator)
    return int(torch.randint(2**62, (), generator=generator, device=generator.device))


def noise_from(generator: torch.Generator | None) -> Callable[[Tensor], Tensor]:
    """Standard normal noise for stochastic solvers: a tensor to noise of its shape.

    Every call has a seed of its own, so that a draw does not depend on how many others are made.
    """
    seeds = torch.Generator().manual_seed(seed_from(generator))
    return lambda like: normal(tuple(like.shape), torch.Generator().manual_seed(seed_from(seeds)), like=like)


def match_moments(noise: Float[Tensor, "S B M P"]) -> Float[Tensor, "S B M P"]:
    """Shift and whiten S draws of noise so that their mean is exactly zero and their covariance the identity.

    What an ODE solver makes of such noise has almost no Monte Carlo error in its mean and covariance, exactly none where the
    solver is an affine map. With no more draws than values a covariance cannot be the identity: then the draws are made
    symmetric and of unit variance at each value.
    """
    draws, tasks = noise.shape[:2]
    flat = noise.flatten(2).transpose(0, 1).double()
    size = flat.shape[-1]
    if draws > size + 1:
        centred = flat - flat.mean(dim=1, keepdim=True)
        covariance = centred.mT @ centred / draws
        white = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), centred.mT, upper=False).mT
    elif draws > 1:
        half = flat[:, : draws // 2]
        parts = [half, -half] if draws % 2 == 0 else [half, -half, torch.zeros_like(half[:, :1])]
        symmetric = torch.cat(parts, dim=1)
        white = symmetric / symmetric.square().mean(dim=1, keepdim=True).sqrt()
    else:
        white = flat
    return white.transpose(0, 1).reshape(draws, tasks, *noise.shape[2:]).to(noise)


def _on_cpu(generator: torch.Generator) -> torch.Generator:
    """The generator itself, or one seeded by it: what a GPU draws depends on how much is drawn."""
    if generator.device.type == "cpu":
        return generator
    return torch.Generator().manual_seed(seed_from(generator))
