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
# One noise level for all targets or, where each is denoised by itself, one for every target.
Level: TypeAlias = Float[Tensor, ""] | Float[Tensor, "B M"]
LevelOfRows: TypeAlias = Float[Tensor, ""] | Float[Tensor, "#R M"]


class Moments(NamedTuple):
    """Mean and standard deviation of every function value on its own."""

    mean: Array
    std: Array


@runtime_checkable
class Denoiser(Protocol):
    """E[y0 | y_t] with everything but the noised values bound. All that solvers and likelihoods ever see."""

    def __call__(self, y_t: Float[Tensor, "*S B M P"], level: Level) -> Float[Tensor, "*S B M P"]: ...


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
    """A network whose context does not depend on the targets, and is encoded once for all of them.

    `encode_context` is called once for a posterior, `encode_targets` once for the inputs of a question, and `denoise` once for
    every step of a solver.
    """

    @property
    def encodes_context(self) -> bool:
        """Whether these calls are to be used: a network may have settings under which its context depends on the targets."""
        ...

    @property
    def separates_noise(self) -> bool:
        """Whether values of the function and new observations can both be asked for."""
        ...

    def encode_context(
        self,
        x: Float[Tensor, "B C D"],
        y_t: Float[Tensor, "B C P"],
        level: Float[Tensor, "B C"],
        mask: Bool[Tensor, "B C"] | None,
    ) -> Any: ...

    def encode_targets(
        self, context: Any, x: Float[Tensor, "B M D"], *, joint: bool = True, observation_noise: bool = True
    ) -> Any:
        """`joint=False`: every target is denoised as if it were the only one."""
        ...

    def denoise(self, targets: Any, y_t: Float[Tensor, "R M P"], level: LevelOfRows) -> Float[Tensor, "R M P"]: ...


@runtime_checkable
class JointNetwork(ContextEncoder, Protocol):
    """A network of inputs and values: both can be noised, each with a level of its own at every point.

    The context reads from itself only. Targets read from the context and from each other, or, where they are `independent`,
    from the context and from themselves. Regression is the case of known inputs.
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
        independent: bool = False,
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B N P"]]: ...

    def denoise_points(
        self,
        context: Any,
        x_t: Float[Tensor, "Q M D"],
        y_t: Float[Tensor, "R M P"],
        level_x: Float[Tensor, ""],
        level_y: LevelOfRows,
        *,
        independent: bool = False,
    ) -> tuple[Float[Tensor, "R M D"], Float[Tensor, "R M P"]]: ...


@runtime_checkable
class Prior(Protocol):
    """A distribution over functions: what training data comes from."""

    def sample(self, x: Array, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Array:
        """Function values at `x`: [B N P], or [S B N P] where `num_samples` is given."""
        ...


@runtime_checkable
class Posterior(Protocol):
    """A distribution over functions given what was observed: immutable, checked, standardised and encoded.

    `joint=True` asks for the values at `x` together, `joint=False` for each by itself. `observation_noise=True` asks for new
    observations, `False` for values of the function; `None` is the function where the model can separate it from its noise, and
    otherwise the only kind of values that the model has.
    """

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws at `x`: [B M P], or [S B M P] where `num_samples` is given."""
        ...

    def moments(self, x: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Moments:
        """Mean and standard deviation at every point of `x`, [B M P] each."""
        ...

    def mean(self, x: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Array:
        """The mean of `moments`."""
        ...

    def std(self, x: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Array:
        """The standard deviation of `moments`."""
        ...

    def quantiles(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> Array:
        """The values below which the function lies with these probabilities at every point of `x`: [Q B M P]."""
        ...

    def summary(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> tuple[Moments, Array]:
        """Moments and quantiles, at the price of one of them."""
        ...

    def log_prob(self, x: Array, y: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Array:
        """Log-density of the values `y` at `x` in nats: [B] of all together, [B M P] of each by itself."""
        ...


@runtime_checkable
class Process(Protocol):
    """A prior that can be conditioned: the NDP, the exact GP, every neural process."""

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws of the prior at `x`: [B N P], or [S B N P] where `num_samples` is given."""
        ...

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> Posterior:
        """The posterior given values `y` at `x`, observed with standard deviation `noise` (none: as they are)."""
        ...
