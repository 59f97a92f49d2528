"""Functions as strangers have them: a prior broad enough that most tables of numbers look like a draw from it.

Every task has its own kernel, or two that add, multiply or take over from each other; irrelevant inputs; jumps; a monotone
warp; and observations with noise of their own. The context is observations, and it sets the units, as it does when the model is
used. All tasks of a batch go through the same operations on tensors of fixed shape, so that a GPU is never waited for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.priors.inputs import draw_inputs, push_outwards
from ndp.priors.kernel_family import draw_kernels
from ndp.priors.observation import draw_noise
from ndp.priors.source import Batch, fill_by_ratio
from ndp.scaling import centre_and_spread

Uniform: TypeAlias = Callable[..., Tensor]  # a shape to uniform numbers

# Targets farther from the context than this, in its standard deviations, are not learned from: with two or three observations
# that happen to agree there is no end to how far, and a squared error would see nothing else.
FARTHEST_INPUT, FARTHEST_VALUE = 10.0, 8.0
EXTRAPOLATED = 0.25  # share of tasks whose targets reach beyond the context
JUMPS = 3


@final
@dataclass(frozen=True)
class Universal:
    """Tasks with so many observations; half of them ask for values of the function, half for new observations.

    Their targets, from a sixteenth of `targets` to all, are asked for together or, `alone`, each by itself.
    """

    dim: int
    most_context: int = 256
    targets: int = 128
    least_context: int = 0
    alone: bool = False

    def draw(self, tasks: int, *, generator: torch.Generator) -> Batch:
        points = self.most_context + self.targets
        x = draw_inputs(tasks, points, self.dim, generator)
        x = push_outwards(x, self.most_context, EXTRAPOLATED, generator)
        f = draw_functions(x, generator)
        y = f + draw_noise(x, generator)
        of_function = torch.rand(tasks, generator=generator, device=x.device) < 0.5
        known = torch.arange(points, device=x.device) < self.most_context
        values = torch.where(known | ~of_function[:, None], y, f)[..., None]
        least_targets = self.targets if self.alone else max(self.targets // 16, 1)
        asked = fill_by_ratio(tasks, least_targets, self.targets, generator)
        mask = torch.cat([self._context(tasks, generator), asked], dim=1)
        x, values = in_units_of_context(x, values, mask & known)
        near = (values[..., 0].abs() < FARTHEST_VALUE) & (x.abs() < FARTHEST_INPUT).all(-1)
        mask = mask & (known | near)
        x, values = (t.masked_fill(~mask[..., None], 0.0) for t in (x, values))
        return Batch(x, values, mask, self.most_context, mask, alone=self.alone, of_function=of_function)

    def _context(self, tasks: int, generator: torch.Generator) -> Bool[Tensor, "B C"]:
        """From least to most: even on a log scale in half of the tasks, for few observations are the harder to judge."""
        device = generator.device
        few, share = torch.rand(2, tasks, 1, generator=generator, dtype=torch.float64, device=device)
        least, most = self.least_context + 1, self.most_context + 1
        size = torch.where(few < 0.5, least * (most / least) ** share - 1, least - 1 + (most - least + 1) * share)
        return torch.arange(self.most_context, device=device) < size.floor()


def draw_functions(x: Float[Tensor, "B N D"], generator: torch.Generator) -> Float[Tensor, "B N"]:
    """Values of a fresh function a task, of about unit variance."""
    tasks, points, dim = x.shape

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=x.dtype, device=x.device)

    relevant = uniform(tasks, dim) < 0.25 + 0.75 * uniform(tasks, 1)
    # An additive part may depend on other inputs than the first.
    kernels = [
        draw_kernels(tasks, dim, relevant & (uniform(tasks, dim) < share), generator).covariance(x)
        for share in (torch.ones_like(x[:, 0, :1]), torch.where(uniform(tasks, 1) < 0.5, 1.0, 0.4))
    ]
    kind = uniform(tasks, 1)
    added = kind < 0.35
    changed = (kind >= 0.35) & (kind < 0.45)
    multiplied = (kind >= 0.45) & (kind < 0.6)
    share = torch.where(added, uniform(tasks, 1), 1.0)
    side = torch.sigmoid(_along(x, uniform) * 20 ** uniform(tasks, 1) * 2)  # from a slow change to a sudden one
    first, second = (
        torch.where(changed, at, part) for at, part in ((side, share.sqrt()), (1 - side, (1 - share).sqrt()))
    )
    covariance = torch.where(
        multiplied[..., None],
        kernels[0] * kernels[1],
        first[..., None] * kernels[0] * first[:, None] + second[..., None] * kernels[1] * second[:, None],
    )
    jitter = 1e-6 * (1 + covariance.diagonal(dim1=-2, dim2=-1).mean(-1))[:, None, None]
    root, _ = torch.linalg.cholesky_ex(covariance + jitter * torch.eye(points, dtype=x.dtype, device=x.device))
    noise = torch.randn(tasks, points, 1, generator=generator, dtype=x.dtype, device=x.device)
    smooth = (root @ noise)[..., 0].nan_to_num(0.0).clamp(-10, 10)
    return _warp(_jump(smooth, x, uniform), uniform)


def in_units_of_context(
    x: Float[Tensor, "B N D"], y: Float[Tensor, "B N 1"], context: Bool[Tensor, "B N"]
) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B N 1"]]:
    """Inputs and values in the units that `ScaledByContext` gives them; where it has nothing to go by, in the prior's own."""
    scaled = []
    for values in (x, y):
        centre, spread = centre_and_spread(values, context)
        scaled.append((values - centre) / torch.where(spread > 0, spread, 1.0))
    return scaled[0], scaled[1]


def _along(x: Float[Tensor, "B N D"], uniform: Uniform) -> Float[Tensor, "B N"]:
    """How far each point is past a random place along a random input of its task."""
    tasks, _, dim = x.shape
    column = (uniform(tasks) * dim).long().clamp(max=dim - 1)
    along = x.gather(-1, column[:, None, None].expand(-1, x.shape[1], 1))[..., 0]
    return along - 2.4 * (uniform(tasks, 1) - 0.5)


def _jump(f: Float[Tensor, "B N"], x: Float[Tensor, "B N D"], uniform: Uniform) -> Float[Tensor, "B N"]:
    """In one task of six some jumps, and in half of these nothing else."""
    tasks = len(x)
    jumps = torch.zeros_like(f)
    for index in range(JUMPS):
        height = (1 + uniform(tasks, 1)) * (uniform(tasks, 1) < 0.5).to(f).mul(2).sub(1)
        there = uniform(tasks, 1) < 1 / (1 + index)
        jumps = jumps + torch.where(there & (_along(x, uniform) > 0), height, 0.0)
    kind = uniform(tasks, 1)
    return torch.where(kind < 1 / 12, jumps, torch.where(kind < 1 / 6, f + jumps, f))


def _warp(f: Float[Tensor, "B N"], uniform: Uniform) -> Float[Tensor, "B N"]:
    """In a third of the tasks a rising function of the values: sinh(tail asinh(f) + skew), to unit variance for normal f."""
    tasks = len(f)
    warped = uniform(tasks, 1) < 0.33
    skew = torch.where(warped, 2 * uniform(tasks, 1) - 1, 0.0)
    tail = torch.where(warped, 0.5 * 3 ** uniform(tasks, 1), 1.0)
    nodes = torch.special.ndtri((torch.arange(64, dtype=f.dtype, device=f.device) + 0.5) / 64)

    def rising(values: Tensor) -> Tensor:
        return torch.sinh(tail * torch.asinh(values) + skew)

    spread = rising(nodes.expand(tasks, -1))
    scaled = (rising(f) - spread.mean(1, keepdim=True)) / spread.std(1, keepdim=True)
    return torch.where(warped, scaled, f)
