"""Names of the first release, which warn and work for one more release."""

import warnings
from collections.abc import Sequence
from typing import Any

from ndp.core.typing import Array, Moments, Posterior


class OldView:
    """What `posterior.marginals` and `posterior.observations` were: the posterior with other defaults."""

    def __init__(self, posterior: Posterior, name: str, now: str, **defaults: Any) -> None:
        warnings.warn(
            f"posterior.{name} is deprecated: pass {now} to the calls of the posterior",
            DeprecationWarning,
            stacklevel=3,
        )
        self._posterior, self._defaults = posterior, defaults

    @property
    def marginals(self) -> "OldView":
        """The same for each value by itself."""
        return OldView(self._posterior, "marginals", "joint=False", **self._defaults, joint=False)

    def sample(self, x: Array, num_samples: int | None = None, **options: Any) -> Array:
        return self._posterior.sample(x, num_samples, **self._defaults, **options)

    def moments(self, x: Array, **options: Any) -> Moments:
        return self._posterior.moments(x, **self._defaults, **options)

    def quantiles(self, x: Array, probabilities: Sequence[float], **options: Any) -> Array:
        return self._posterior.quantiles(x, probabilities, **self._defaults, **options)

    def moments_and_quantiles(self, x: Array, probabilities: Sequence[float], **options: Any) -> tuple[Moments, Array]:
        return self._posterior.summary(x, probabilities, **self._defaults, **options)

    def log_prob(self, x: Array, y: Array, **options: Any) -> Array:
        return self._posterior.log_prob(x, y, **self._defaults, **options)
