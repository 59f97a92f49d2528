"""The prior of `universal`: broad enough that most tables of numbers look like a draw from it.

Every task has its own kernel, or a sum, a product or a change-point of two; irrelevant inputs; jumps; a monotone warp; and
observation noise. The context holds observations and sets the units, as it does when the model is used. All tasks of a batch
go through the same operations on tensors of fixed shape, so that the host never waits for the GPU.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.units import centre_and_spread, orientation
from ndp.diffusion.levels import CLEAN
from ndp.priors.expectations import Noised, given_context
from ndp.priors.inputs import draw_inputs, push_outwards
from ndp.priors.kernel_family import draw_kernels
from ndp.priors.observation import draw_noise_sizes
from ndp.priors.tasks import Batch, fill_by_ratio

Uniform: TypeAlias = Callable[..., Tensor]  # a shape to uniform numbers

# Targets farther from the context than this, in its standard deviations, are left out of training. With two or three similar
# observations the distance has no bound, and such targets would dominate a squared error.
FARTHEST_INPUT, FARTHEST_VALUE = 10.0, 8.0
# Share of tasks that are a Gaussian process with one kernel and normal noise of one size. Without it one task of nine
# would be, and the network would take all noise for heavy-tailed.
PLAIN = 1 / 2
EXTRAPOLATED = 0.25  # share of tasks whose targets reach beyond the context
JUMPS = 3
HIGHEST = 10.0  # of a function before jumps and warps; larger values are clipped
SURE = 4.0  # standard deviations that bound a value for all practical purposes


@final
@dataclass(frozen=True)
class Universal:
    """Tasks of the universal prior. Half have values of the function as targets, half new observations.

    A task has from a sixteenth of `targets` to all of them, joint or `independent`.
    """

    dim: int
    most_context: int = 256
    targets: int = 128
    least_context: int = 0
    independent: bool = False

    def draw(self, tasks: int, *, generator: torch.Generator) -> Batch:
        points = self.most_context + self.targets
        x = draw_inputs(tasks, points, self.dim, generator)
        x = push_outwards(x, self.most_context, EXTRAPOLATED, generator)
        plain = torch.rand(tasks, 1, generator=generator, device=x.device) < PLAIN
        functions = draw_functions(x, plain, generator)
        f, noise = functions.values, draw_noise_sizes(x, plain, generator)
        y = f + noise * torch.randn(noise.shape, generator=generator, dtype=x.dtype, device=x.device)
        of_function = torch.rand(tasks, generator=generator, device=x.device) < 0.5
        known = torch.arange(points, device=x.device) < self.most_context
        observed = known | ~of_function[:, None]
        values = torch.where(observed, y, f)[..., None]
        least_targets = self.targets if self.independent else max(self.targets // 16, 1)
        asked = fill_by_ratio(tasks, least_targets, self.targets, generator)
        mask = torch.cat([self._context(tasks, generator), asked], dim=1)
        centre, spread = units_of_context(values, mask & known)
        x_centre, x_spread = units_of_context(x, mask & known)
        values, x = (values - centre) / spread, (x - x_centre) / x_spread
        x_sign, sign = orientation(x, values, mask & known)
        values, x, spread = sign * values, x_sign * x, sign * spread
        possible = mask & (known | (x.abs() < FARTHEST_INPUT).all(-1))
        mask = possible & (known | (values[..., 0].abs() < FARTHEST_VALUE))
        x, values = (t.masked_fill(~mask[..., None], 0.0) for t in (x, values))
        expectation = UniversalExpectation(
            values, functions, torch.where(observed, noise, 0.0), centre[..., 0], spread[..., 0], possible
        )
        return Batch(
            x,
            values,
            mask,
            self.most_context,
            mask,
            independent=self.independent,
            of_function=of_function,
            expectation=expectation,
        )

    def _context(self, tasks: int, generator: torch.Generator) -> Bool[Tensor, "B C"]:
        """Numbers of observations: log-uniform in half of the tasks, because few are harder, and uniform in the others."""
        device = generator.device
        few, share = torch.rand(2, tasks, 1, generator=generator, dtype=torch.float64, device=device)
        least, most = self.least_context + 1, self.most_context + 1
        size = torch.where(few < 0.5, least * (most / least) ** share - 1, least - 1 + (most - least + 1) * share)
        return torch.arange(self.most_context, device=device) < size.floor()


@final
@dataclass(frozen=True)
class UniversalExpectation:
    """The posterior mean of the targets given the task's kernel, jumps and noise, where known; elsewhere the drawn values.

    It is known for tasks without a warp, and for targets that are near the context: of distant ones, some are left out by their
    values. It is given the context without added noise, because that context has set the units.
    """

    values: Float[Tensor, "B N 1"]  # in units of the context
    functions: "Functions"
    noise: Float[Tensor, "B N"]  # of every value; zero where it is of the function
    centre: Float[Tensor, "B 1"]  # shift and scale of the context's units; the scale is negative where they mirror
    spread: Float[Tensor, "B 1"]
    possible: Bool[Tensor, "B N"]  # points of the task, those with distant values included

    def __call__(self, noised: Noised) -> Float[Tensor, "B N 1"]:
        mean = (self.functions.mean - self.centre) / self.spread
        covariance = self.functions.covariance + torch.diag_embed(self.noise.square())
        noised = replace(
            noised,
            y_t=torch.where(noised.of_context[:, None], self.values, noised.y_t),
            level=torch.where(noised.of_context, CLEAN, noised.level),
        )
        targets = given_context(mean, covariance / self.spread.square()[..., None], noised)
        expected = targets.expectation(noised)
        near = targets.mean.abs() + SURE * targets.std < FARTHEST_VALUE
        if not noised.independent:
            near = (near | ~self.possible[:, noised.num_context :]).all(1, keepdim=True).expand_as(near)
        known = torch.nn.functional.pad(near & self.functions.gaussian[:, None], (noised.num_context, 0))[..., None]
        return torch.where(known & (expected.abs() < FARTHEST_VALUE), expected, self.values)


@dataclass(frozen=True)
class Functions:
    """Values of one function a task. Those that are `gaussian` are draws of N(mean, covariance)."""

    values: Float[Tensor, "B N"]
    mean: Float[Tensor, "B N"]
    covariance: Float[Tensor, "B N N"]
    gaussian: Bool[Tensor, "B"]


def draw_functions(x: Float[Tensor, "B N D"], plain: Bool[Tensor, "B 1"], generator: torch.Generator) -> Functions:
    """One function for each task, of about unit variance; a `plain` one has one kernel, no jumps and no warp."""
    tasks, points, dim = x.shape

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=x.dtype, device=x.device)

    relevant = uniform(tasks, dim) < 0.25 + 0.75 * uniform(tasks, 1)
    # An additive part may depend on other inputs than the first.
    kernels = [
        draw_kernels(tasks, dim, relevant & (uniform(tasks, dim) < share), generator).covariance(x)
        for share in (torch.ones_like(x[:, 0, :1]), torch.where(uniform(tasks, 1) < 0.5, 1.0, 0.4))
    ]
    kind = torch.where(plain, 1.0, uniform(tasks, 1))
    added = kind < 0.35
    changed = (kind >= 0.35) & (kind < 0.45)
    multiplied = (kind >= 0.45) & (kind < 0.6)
    share = torch.where(added, uniform(tasks, 1), 1.0)
    side = torch.sigmoid(_along(x, uniform) * 20 ** uniform(tasks, 1) * 2)  # a slow or a sudden change
    first, second = (
        torch.where(changed, at, part) for at, part in ((side, share.sqrt()), (1 - side, (1 - share).sqrt()))
    )
    covariance = torch.where(
        multiplied[..., None],
        kernels[0] * kernels[1],
        first[..., None] * kernels[0] * first[:, None] + second[..., None] * kernels[1] * second[:, None],
    )
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    jitter = 1e-6 * (1 + variance.mean(-1))[:, None, None]
    covariance = covariance + jitter * torch.eye(points, dtype=x.dtype, device=x.device)
    root, failed = torch.linalg.cholesky_ex(covariance)
    noise = torch.randn(tasks, points, 1, generator=generator, dtype=x.dtype, device=x.device)
    smooth = (root @ noise)[..., 0].nan_to_num(0.0).clamp(-HIGHEST, HIGHEST)
    jumps, only = _draw_jumps(x, plain, uniform)
    f, warped = _warp(torch.where(only, jumps, smooth + jumps), plain, uniform)
    gaussian = ~(only | warped)[:, 0] & (failed == 0) & (SURE * variance.amax(-1).sqrt() < HIGHEST)
    return Functions(f, jumps, covariance, gaussian)


def units_of_context(values: Float[Tensor, "B N D"], context: Bool[Tensor, "B N"]) -> tuple[Tensor, Tensor]:
    """Shift and scale [B 1 D] of `ContextUnits`; the prior's own scale where the context has no spread."""
    centre, spread = centre_and_spread(values, context)
    return centre, torch.where(spread > 0, spread, 1.0)


def _along(x: Float[Tensor, "B N D"], uniform: Uniform) -> Float[Tensor, "B N"]:
    """The distance of each point past a random place along a random input of its task."""
    tasks, _, dim = x.shape
    column = (uniform(tasks) * dim).long().clamp(max=dim - 1)
    along = x.gather(-1, column[:, None, None].expand(-1, x.shape[1], 1))[..., 0]
    return along - 2.4 * (uniform(tasks, 1) - 0.5)


def _draw_jumps(
    x: Float[Tensor, "B N D"], plain: Bool[Tensor, "B 1"], uniform: Uniform
) -> tuple[Float[Tensor, "B N"], Bool[Tensor, "B 1"]]:
    """Jumps in one of six tasks that are not plain; half of these consist of jumps only."""
    tasks = len(x)
    jumps = torch.zeros_like(x[..., 0])
    for index in range(JUMPS):
        height = (1 + uniform(tasks, 1)) * (uniform(tasks, 1) < 0.5).to(x).mul(2).sub(1)
        there = uniform(tasks, 1) < 1 / (1 + index)
        jumps = jumps + torch.where(there & (_along(x, uniform) > 0), height, 0.0)
    kind = torch.where(plain, 1.0, uniform(tasks, 1))
    return torch.where(kind < 1 / 6, jumps, 0.0), kind < 1 / 12


def _warp(
    f: Float[Tensor, "B N"], plain: Bool[Tensor, "B 1"], uniform: Uniform
) -> tuple[Float[Tensor, "B N"], Bool[Tensor, "B 1"]]:
    """A monotone warp in a third of the tasks that are not plain.

    It is sinh(tail asinh(f) + skew), scaled to unit variance for normal f.
    """
    tasks = len(f)
    warped = (uniform(tasks, 1) < 0.33) & ~plain
    skew = torch.where(warped, 2 * uniform(tasks, 1) - 1, 0.0)
    tail = torch.where(warped, 0.5 * 3 ** uniform(tasks, 1), 1.0)
    nodes = torch.special.ndtri((torch.arange(64, dtype=f.dtype, device=f.device) + 0.5) / 64)

    def rising(values: Tensor) -> Tensor:
        return torch.sinh(tail * torch.asinh(values) + skew)

    spread = rising(nodes.expand(tasks, -1))
    scaled = (rising(f) - spread.mean(1, keepdim=True)) / spread.std(1, keepdim=True)
    return torch.where(warped, scaled, f), warped
