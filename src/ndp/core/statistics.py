"""What posteriors share: the mean and the standard deviation are the parts of their moments."""

from abc import ABC, abstractmethod
from typing import Any

from ndp.core.typing import Array, Moments


class HasMoments(ABC):
    """A posterior with `moments`."""

    @abstractmethod
    def moments(self, x: Array) -> Moments:
        """Mean and standard deviation at every point of `x`."""

    def mean(self, x: Array, **options: Any) -> Array:
        """The mean at every point of `x`; the options are those of `moments`, which gives both at the same price."""
        return self.moments(x, **options).mean

    def std(self, x: Array, **options: Any) -> Array:
        """The standard deviation at every point of `x`; the options are those of `moments`."""
        return self.moments(x, **options).std
