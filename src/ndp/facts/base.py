"""What a fact is: places, and what is known of the values there.

Every fact becomes statements of three kinds about values f at P places, in the user's units:

    Hard      W f + c >= 0 for every row of W: holds exactly
    Gaussian  W f ~ N(value, noise^2)
    Smooth    a log-likelihood of f, which may be minus infinity where f is impossible
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from ndp.core.arrays import read_inputs
from ndp.core.typing import Array

GRID = 20  # places of the default grid of a function of one input
MOST_DEFAULT = 20  # places asked for, at which a fact without places of its own holds
STEP = 0.01  # of the range of an input: how far apart two places are whose difference is a slope
NOISY_STEP = 0.05  # the same of a model whose values carry noise
MOST_PLACES = 1000


@final
@dataclass(frozen=True)
class Hard:
    """`weights @ values + offset` is not negative, row by row."""

    places: Float[Tensor, "P D"]
    weights: Float[Tensor, "R P"]
    offset: Float[Tensor, "R"]


@final
@dataclass(frozen=True)
class Gaussian:
    """`weights @ values` was measured as `value` with Gaussian noise of standard deviation `noise`, row by row."""

    places: Float[Tensor, "P D"]
    weights: Float[Tensor, "R P"]
    value: Float[Tensor, "R"]
    noise: Float[Tensor, "R"]


@final
@dataclass(frozen=True)
class Smooth:
    """A log-likelihood of the values: [S P] to [S]."""

    places: Float[Tensor, "P D"]
    log_likelihood: Callable[[Float[Tensor, "S P"]], Float[Tensor, "S"]]


Real: TypeAlias = float | int
Statement: TypeAlias = Hard | Gaussian | Smooth


@final
@dataclass(frozen=True)
class Surroundings:
    """What a fact without places of its own can go by: observed inputs and those asked for, in the user's units.

    `noisy` says that the model's values carry observation noise.
    """

    observed: Float[Tensor, "C D"]
    asked: Float[Tensor, "M D"]
    noisy: bool = False

    @property
    def dim(self) -> int:
        return self.observed.shape[1]

    def default_places(self) -> Float[Tensor, "Q D"]:
        """Where a fact without places holds: at 20 of the places asked for, spread evenly, or at all of fewer.

        Where fewer than 20 are asked for, it holds at the observed range too, on a grid of 20 (one input), or at the observed
        inputs, 20 at most (several).
        """
        known = self.observed
        if len(self.asked) >= GRID:
            known = known[:0]
        elif self.dim == 1 and len(known):
            ends = known.min().item(), known.max().item()
            known = torch.linspace(*ends, GRID if ends[0] < ends[1] else 1, dtype=known.dtype)[:, None].to(known)
        return distinct(torch.cat([_spread(known), _spread(self.asked)]))[0]

    def step(self, places: Float[Tensor, "P D"]) -> Float[Tensor, "D"]:
        """How far apart along each input two places are whose difference is a slope."""
        every = torch.cat([self.observed, self.asked, places])
        span = every.amax(0) - every.amin(0)
        return (NOISY_STEP if self.noisy else STEP) * torch.where(span > 0, span, 1.0)


def _spread(places: Float[Tensor, "P D"]) -> Float[Tensor, "Q D"]:
    """At most 20 of the places, evenly along the first input."""
    if len(places) <= MOST_DEFAULT:
        return places
    order = places[:, 0].argsort(stable=True)
    return places[order[torch.linspace(0, len(places) - 1, MOST_DEFAULT).round().long()]]


class Fact(ABC):
    """Something known about a function. Immutable."""

    @abstractmethod
    def statements(self, around: Surroundings) -> Sequence[Statement]:
        """What the fact says of values, and where."""

    @property
    def dim(self) -> int | None:
        """The number of inputs of the fact's places, where it has some."""
        x = getattr(self, "x", None)
        return None if x is None else read_inputs(x, input_dims=None, device=torch.device("cpu")).shape[2]


def read_places(x: Array, around: Surroundings, fact: str, name: str = "x") -> Float[Tensor, "P D"]:
    """The places of a fact, which must have as many inputs as the model was conditioned with."""
    places = read_inputs(x, f"{name} of {fact}", input_dims=None, device=around.observed.device)
    if places.shape[0] != 1:
        raise ValueError(f"{name} of {fact} holds {places.shape[0]} tasks; a fact is about one function")
    if places.shape[2] != around.dim:
        raise ValueError(
            f"{name} of {fact} has {places.shape[2]} input dimension(s) (its last axis) and the function has {around.dim}"
        )
    if places.shape[1] > MOST_PLACES:
        raise ValueError(f"{fact} has {places.shape[1]} places, and {MOST_PLACES} are the most; leave some out")
    return places[0]


def read_numbers(
    values: Array | Real | Sequence[float], count: int, fact: str, name: str, *, like: Tensor
) -> Float[Tensor, "P"]:
    """One finite number for every place, or one for all."""
    numbers = torch.as_tensor(values, dtype=torch.float64, device=like.device).detach().clone()
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if tuple(numbers.shape) not in ((), (count,)):
        raise ValueError(
            f"{name} of {fact} must be one number or hold {count}, one a place; its shape is {list(numbers.shape)}"
        )
    if bool(numbers.isnan().any()):
        raise ValueError(f"{name} of {fact} holds NaN; leave that place out")
    return numbers.expand(count)


def read_noise(values: Array | Real, count: int, fact: str, *, like: Tensor, zero: str = "") -> Float[Tensor, "P"]:
    """Standard deviations; zero is allowed where `zero` is empty, and otherwise says why not."""
    noise = read_numbers(values, count, fact, "noise", like=like)
    if not bool(((noise >= 0) & noise.isfinite()).all()):
        raise ValueError(f"noise of {fact} is a standard deviation: finite and not negative")
    if zero and bool((noise == 0).any()):
        raise ValueError(f"noise of {fact} must be positive: {zero}")
    return noise


def distinct(places: Float[Tensor, "P D"]) -> tuple[Float[Tensor, "Q D"], Tensor]:
    """The places without repetitions in the order in which they first come, and the index of each of them there."""
    unique, inverse = torch.unique(places, dim=0, return_inverse=True)
    first = torch.full((len(unique),), len(places), device=places.device)
    first = first.scatter_reduce(0, inverse, torch.arange(len(places), device=places.device), "amin")
    order = first.argsort()
    return unique[order], order.argsort()[inverse]


def differences(pairs: Tensor, count: int) -> Float[Tensor, "R P"]:
    """Weights of the second value of every pair less the first."""
    weights = torch.zeros(len(pairs), count, dtype=torch.float64, device=pairs.device)
    rows = torch.arange(len(pairs), device=pairs.device)
    weights[rows, pairs[:, 1]] = 1.0
    weights[rows, pairs[:, 0]] = -1.0
    return weights
