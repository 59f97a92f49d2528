"""The adapter: whatever a network predicts, the perfect prediction denoises perfectly."""

import pytest
import torch

from ndp.diffusion.levels import alpha, sigma
from ndp.diffusion.prediction import Prediction


@pytest.mark.parametrize("prediction", list(Prediction))
def test_the_perfect_output_gives_back_the_function(prediction: Prediction) -> None:
    generator = torch.Generator().manual_seed(0)
    y0, eps = torch.randn(2, 3, 5, 2, generator=generator, dtype=torch.float64)
    level = 6 * torch.randn(3, 5, generator=generator, dtype=torch.float64).clamp(-2, 2)
    y_t = alpha(level)[..., None] * y0 + sigma(level)[..., None] * eps
    torch.testing.assert_close(prediction.y0_hat(prediction.target(y0, eps, level), y_t, level), y0)
    torch.testing.assert_close(prediction.output(y0, y_t, level), prediction.target(y0, eps, level))
