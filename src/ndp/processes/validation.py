"""The score of a network on held-out tasks, while it trains.

Where the exact process is known, the score is in nats a point: an error `d` of the denoiser costs the integral of
E[d^2] / ratio^2 over log ratio (the I-MMSE identity). Elsewhere it is the training loss on fixed functions, levels and noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ndp.core.typing import JointNetwork, Network
from ndp.diffusion.levels import alpha, level_of_ratio, sigma
from ndp.diffusion.objective import (
    Objective,
    denoising_loss,
    draw_levels,
    hold_context,
    hold_known,
    noise_one_or_both,
)
from ndp.diffusion.prediction import Prediction
from ndp.gp.exact import GP
from ndp.gp.oracle import GPOracle
from ndp.priors.tasks import Batch, Source

NATS_LOST, HELD_OUT_LOSS = "nats lost", "held-out loss"
JOINT_TASKS = 256  # a joint network is scored on one source, with many tasks


@dataclass(frozen=True)
class Validation:
    """Fixed tasks, and the score of a network on them: lower is better."""

    tasks: tuple[Batch, ...]
    prediction: Prediction
    objective: Objective
    exact: GP | None = None
    joint: bool = False  # whether networks predict inputs as well as values
    levels: int = 12
    by_dim: dict[int, float] = field(default_factory=dict)  # the last score, at each number of input dimensions

    @staticmethod
    def of(
        sources: Sequence[Source],
        device: torch.device,
        objective: Objective,
        *,
        prediction: Prediction,
        exact: GP | None = None,
        joint: bool = False,
        tasks: int = 16,
    ) -> "Validation":
        """The same tasks at every call. `exact` is the process that they are draws of, where it is known."""
        generator = torch.Generator(device).manual_seed(2**40)
        if joint:
            sources, tasks, exact = sources[:1], JOINT_TASKS, None
        drawn = (source.draw(tasks, generator=generator) for source in sources)
        used = (batch if objective.use_context or joint else batch.without_context() for batch in drawn)
        kept = tuple(replace(batch, x=batch.x.float(), y=batch.y.float(), expectation=None) for batch in used)
        return Validation(kept, prediction, objective, None if exact is None else exact.to(device), joint)

    @property
    def unit(self) -> str:
        return HELD_OUT_LOSS if self.exact is None else NATS_LOST

    @torch.no_grad()
    def __call__(self, network: Network | JointNetwork) -> float:
        score = self._held_out_loss if self.exact is None else self._nats_lost
        found: dict[int, list[float]] = {}
        for batch in self.tasks:
            found.setdefault(batch.x.shape[-1], []).append(score(network, batch))
        self.by_dim.update({dim: sum(each) / len(each) for dim, each in found.items()})
        every = [value for each in found.values() for value in each]
        return sum(every) / len(every)

    def _nats_lost(self, network: Network | JointNetwork, batch: Batch) -> float:
        assert self.exact is not None
        oracle = GPOracle(self.exact, self.prediction)
        generator = torch.Generator(batch.x.device).manual_seed(0)
        smallest, largest = self.objective.ratios
        width = math.log(largest / smallest) / self.levels
        total = 0.0
        for index in range(self.levels):
            ratio = smallest * math.exp((index + 0.5) * width)
            level = level_of_ratio(torch.full_like(batch.x[:, 0, 0], ratio))
            levels = hold_context(level, batch.x.shape[1], batch.num_context, generator=generator)
            eps = torch.randn(batch.y.shape, generator=generator, device=batch.x.device)
            ours, best = (self._denoised(one, batch, levels, eps) for one in (network, oracle))
            counted = batch.mask[:, batch.num_context :]
            total += width / ratio**2 * (ours - best).square().mean(-1)[counted].mean().item()
        return total

    def _denoised(self, network: Network | JointNetwork, batch: Batch, levels: Tensor, eps: Tensor) -> Tensor:
        assert isinstance(network, Network)
        # The oracle inverts matrices, for which float32 is too coarse at low noise.
        exactly = isinstance(network, GPOracle)
        x, y0, levels, eps = (t.double() if exactly else t for t in (batch.x, batch.y, levels, eps))
        y_t = alpha(levels)[..., None] * y0 + sigma(levels)[..., None] * eps
        output = network(x, y_t, levels, batch.mask, num_context=batch.num_context)
        return self.prediction.y0_hat(output, y_t, levels)[:, batch.num_context :]

    def _held_out_loss(self, network: Network | JointNetwork, batch: Batch) -> float:
        generator = torch.Generator(batch.x.device).manual_seed(0)
        smallest, largest = self.objective.ratios
        level = draw_levels(
            len(batch.x), generator=generator, law=self.objective.level_law, smallest=smallest, largest=largest
        )
        if batch.known is None:
            levels = hold_context(level, batch.x.shape[1], batch.num_context, generator=generator)
        else:
            levels = hold_known(level, batch.known)
        numbers = batch.y.shape[-1]
        if self.joint:
            share = self.objective.joint_share
            levels = noise_one_or_both(levels, batch.num_context, generator=generator, joint_share=share)
            numbers += batch.x.shape[-1]
        eps = torch.randn((*batch.y.shape[:2], numbers), generator=generator, device=batch.x.device)
        losses = denoising_loss(
            network,
            batch.x,
            batch.y,
            levels.float(),
            eps,
            num_context=batch.num_context,
            mask=batch.mask_if_needed,
            of_function=batch.of_function,
            independent=batch.independent,
            prediction=self.prediction,
            error=self.objective.error,
        )
        return losses.mean().item()
