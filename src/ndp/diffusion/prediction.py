"""What a network's output means: the one adapter between eps-, v- and y0-prediction and a denoiser.

y_t = alpha y0 + sigma eps          v = alpha eps - sigma y0
"""

from enum import StrEnum

from jaxtyping import Float
from torch import Tensor

from ndp.diffusion.levels import alpha, sigma


class Prediction(StrEnum):
    """The quantity a network is trained to output. `V` is well conditioned at every level; `EPS` is the paper's."""

    EPS = "eps"
    V = "v"
    Y0 = "y0"

    def y0_hat(
        self, output: Float[Tensor, "*B N P"], y_t: Float[Tensor, "*B N P"], level: Float[Tensor, "*B N"]
    ) -> Float[Tensor, "*B N P"]:
        """The denoised values that this output stands for."""
        a, s = alpha(level)[..., None], sigma(level)[..., None]
        match self:
            case Prediction.EPS:
                return (y_t - s * output) / a
            case Prediction.V:
                return a * y_t - s * output
            case Prediction.Y0:
                return output

    def target(
        self, y0: Float[Tensor, "*B N P"], eps: Float[Tensor, "*B N P"], level: Float[Tensor, "*B N"]
    ) -> Float[Tensor, "*B N P"]:
        """What the output should have been, given the function and the noise that made `y_t`."""
        match self:
            case Prediction.EPS:
                return eps
            case Prediction.V:
                return alpha(level)[..., None] * eps - sigma(level)[..., None] * y0
            case Prediction.Y0:
                return y0

    def output(
        self, y0_hat: Float[Tensor, "*B N P"], y_t: Float[Tensor, "*B N P"], level: Float[Tensor, "*B N"]
    ) -> Float[Tensor, "*B N P"]:
        """The inverse of `y0_hat`: the output that stands for these denoised values."""
        s = sigma(level)[..., None]
        return self.target(y0_hat, (y_t - alpha(level)[..., None] * y0_hat) / s, level)
