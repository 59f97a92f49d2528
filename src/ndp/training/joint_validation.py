"""How good a joint network is, while it trains, on tasks that it is not trained on: its loss at fixed levels and noise."""

from dataclasses import dataclass, replace

import torch

from ndp.core.typing import JointNetwork
from ndp.diffusion.joint_objective import joint_denoising_loss, noise_one_or_both
from ndp.diffusion.objective import Error, draw_levels, hold_context
from ndp.diffusion.prediction import Prediction
from ndp.priors.tasks import Batch, Source
from ndp.training.validation import HELD_OUT_LOSS


@dataclass(frozen=True)
class JointValidation:
    """Fixed tasks, and the loss of a network on them."""

    tasks: Batch
    prediction: Prediction
    error: Error
    together: float
    unit: str = HELD_OUT_LOSS

    @staticmethod
    def of(
        source: Source,
        device: torch.device,
        *,
        prediction: Prediction,
        error: Error,
        together: float,
        tasks: int = 256,
    ) -> "JointValidation":
        """The same tasks at every call."""
        batch = source.draw(tasks, generator=torch.Generator(device).manual_seed(2**40))
        return JointValidation(replace(batch, x=batch.x.float(), y=batch.y.float()), prediction, error, together)

    @torch.no_grad()
    def __call__(self, network: JointNetwork) -> float:
        batch = self.tasks
        generator = torch.Generator(batch.x.device).manual_seed(0)
        level = draw_levels(len(batch.x), generator=generator)
        levels = hold_context(level, batch.x.shape[1], batch.num_context, generator=generator)
        both = noise_one_or_both(levels, batch.num_context, generator=generator, together=self.together).float()
        numbers = batch.x.shape[-1] + batch.y.shape[-1]
        eps = torch.randn((*batch.y.shape[:2], numbers), generator=generator, device=batch.x.device)
        losses = joint_denoising_loss(
            network,
            batch.x,
            batch.y,
            both,
            eps,
            num_context=batch.num_context,
            mask=batch.mask,
            alone=batch.alone,
            prediction=self.prediction,
            error=self.error,
        )
        return losses.mean().item()
