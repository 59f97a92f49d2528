"""The protocols that the library is cut along, and the words its signatures use.

B tasks, N points (C context, M target), D input dimensions, P outputs, S draws, K solver steps
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

# What a user may hand in and gets back: numpy arrays and torch tensors, with or without the axes B and P.
Array: TypeAlias = np.ndarray | Tensor


class Moments(NamedTuple):
    """Mean and standard deviation of every function value on its own."""

    mean: Array
    std: Array


@runtime_checkable
class Denoiser(Protocol):
    """E[y0 | y_t] with everything but the noised values bound. All that solvers and likelihoods ever see."""

    def __call__(self, y_t: Float[Tensor, "*S B M P"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B M P"]: ...


@runtime_checkable
class Network(Protocol):
    """Maps noised values with a level of their own at every point to a prediction (see `Prediction`).

    `mask=True` is a real point; no mask means that all are. A masked one has no influence on the others, whatever it holds.
    The first `num_context` points are context; a network may, but need not, treat them in their own way. A
    `translation_equivariant` network sees differences of inputs only.
    """

    @property
    def translation_equivariant(self) -> bool: ...

    def __call__(
        self,
        x: Float[Tensor, "B N D"],
        y_t: Float[Tensor, "B N P"],
        level: Float[Tensor, "B N"],
        mask: Bool[Tensor, "B N"] | None = None,
        *,
        num_context: int = 0,
    ) -> Float[Tensor, "B N P"]: ...


@runtime_checkable
class ContextEncoder(Protocol):
    """A network whose context does not depend on the targets, and can be encoded once for all of them."""

    @property
    def encodes_context(self) -> bool: ...

    def encode(
        self,
        x: Float[Tensor, "B C D"],
        y: Float[Tensor, "B C P"],
        level: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
        x_target: Float[Tensor, "B M D"],
        *,
        of_function: bool = False,
        alone: bool = False,
    ) -> Any: ...

    def decode(
        self, y_t: Float[Tensor, "R M P"], level: Float[Tensor, ""], encoding: Any
    ) -> Float[Tensor, "R M P"]: ...


@runtime_checkable
class JointNetwork(Protocol):
    """Maps noised inputs and noised values, each with a level of its own at every point, to a prediction of either.

    The context reads from itself only, so that it can be encoded once. Targets see it and each other or, `alone`, it and
    themselves: as many questions, answered in one pass.
    """

    def __call__(
        self,
        x_t: Float[Tensor, "B N D"],
        y_t: Float[Tensor, "B N P"],
        level_x: Float[Tensor, "B N"],
        level_y: Float[Tensor, "B N"],
        mask: Bool[Tensor, "B N"] | None = None,
        *,
        num_context: int = 0,
        alone: bool = False,
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B N P"]]: ...

    def encode(
        self,
        x: Float[Tensor, "B C D"],
        y: Float[Tensor, "B C P"],
        level_x: Float[Tensor, "B C"],
        level_y: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
    ) -> Any: ...

    def decode(
        self,
        x_t: Float[Tensor, "Q M D"],
        y_t: Float[Tensor, "R M P"],
        level_x: Float[Tensor, ""],
        level_y: Float[Tensor, ""],
        encoding: Any,
        *,
        alone: bool = False,
    ) -> tuple[Float[Tensor, "R M D"], Float[Tensor, "R M P"]]: ...


@runtime_checkable
class Prior(Protocol):
    """A distribution over functions: what training data comes from."""

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        """Function values at `x`: [B N P], or [S B N P] where `num_samples` is given."""
        ...


@runtime_checkable
class Posterior(Protocol):
    """A distribution over functions given what was observed. Immutable; owns its context."""

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        """Coherent draws of the function at `x`: [B M P], or [S B M P] where `num_samples` is given."""
        ...

    def moments(self, x: Array) -> Moments:
        """Mean and standard deviation at every point of `x`, [B M P] each."""
        ...

    def quantiles(self, x: Array, probabilities: Sequence[float]) -> Array:
        """The values below which the function lies with these probabilities at every point of `x`: [Q B M P]."""
        ...

    def log_prob(self, x: Array, y: Array) -> Array:
        """Joint log-density of the values `y` at `x` in nats, [B]."""
        ...


@runtime_checkable
class Process(Prior, Protocol):
    """A prior that can be conditioned: the NDP, the exact GP, every neural process."""

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> Posterior:
        """The posterior given values `y` at `x`, observed with standard deviation `noise` (none: as they are)."""
        ...
