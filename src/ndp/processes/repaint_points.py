"""Points as single numbers, of which some are known: the form in which RePaint, which knows values only, draws inputs too."""

from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.arrays import Context
from ndp.diffusion.levels import CLEAN, level_of_ratio
from ndp.processes.conditioning import Diffusion


@final
class PaintedNumbers:
    """The coordinates and values of context and targets, as numbers in a row: the known ones first.

    The context is known. Of the targets the inputs, the values, or neither are `known`; what `x` and `y` hold where they are
    not known does not count.
    """

    def __init__(
        self,
        diffusion: Diffusion,
        context: Context,
        x: Float[Tensor, "B M D"],
        y: Float[Tensor, "B M P"],
        *,
        known: tuple[bool, bool],
    ) -> None:
        if not diffusion.of_points:
            raise ValueError("this model is of values at known inputs; inputs can be drawn from a joint model only")
        self._diffusion = diffusion
        tasks, self._targets, self._dim = x.shape
        self._points = context.x.shape[1] + self._targets
        rows = torch.cat([torch.cat([context.x, context.y], -1), torch.cat([x, y], -1)], dim=1).to(diffusion.dtype)
        is_known = _known_numbers(self._points, self._targets, self._dim, y.shape[-1], known).to(diffusion.device)
        self._order = torch.cat([is_known.nonzero()[:, 0], (~is_known).nonzero()[:, 0]])
        self._count = int(is_known.sum())
        self._numbers = rows.flatten(1)
        observed = torch.cat([context.noise, context.noise.new_zeros(tasks, self._targets)], dim=1)
        no_noise = observed.new_full((tasks, self._points, self._dim), CLEAN)
        of_values = level_of_ratio(observed)[..., None].expand(-1, -1, y.shape[-1])
        self._levels = torch.cat([no_noise, of_values], dim=-1).flatten(1).to(diffusion.dtype)
        self._observed = level_of_ratio(observed).to(diffusion.dtype)
        mask = torch.cat([context.mask, context.mask.new_ones(tasks, self._targets)], dim=1)
        self._mask = None if bool(mask.all()) else mask

    @property
    def known(self) -> Float[Tensor, "B K 1"]:
        """The known numbers."""
        return self._numbers[:, self._order[: self._count], None]

    @property
    def known_levels(self) -> Float[Tensor, "B K"]:
        """The noise levels at which they were observed."""
        return self._levels[:, self._order[: self._count]]

    @property
    def unknown_shape(self) -> tuple[int, int, int]:
        """Tasks, unknown numbers, and one."""
        return len(self._numbers), len(self._order) - self._count, 1

    def points(self, unknown: Float[Tensor, "S B U 1"]) -> tuple[Float[Tensor, "S B M D"], Float[Tensor, "S B M P"]]:
        """Inputs and values of the targets, once the unknown numbers are drawn."""
        whole = self._numbers.expand(len(unknown), -1, -1).clone()
        whole[..., self._order[self._count :]] = unknown[..., 0]
        drawn = whole.unflatten(-1, (self._points, -1))[:, :, self._points - self._targets :]
        return drawn[..., : self._dim], drawn[..., self._dim :]

    def denoise(self, y_t: Float[Tensor, "*S B E 1"], level: Float[Tensor, ""]) -> Float[Tensor, "*S B E 1"]:
        """E[z0 | z_t] of all numbers, none of them known; values are never told to be below their observation noise."""
        network: Any = self._diffusion.network
        prediction = self._diffusion.prediction
        draws = y_t.reshape(-1, *y_t.shape[-3:-1])
        z_t = draws[..., torch.argsort(self._order)].unflatten(-1, (self._points, -1)).flatten(0, 1)

        def repeated(of_tasks: Tensor) -> Tensor:
            return of_tasks.expand(len(draws), *of_tasks.shape).flatten(0, 1)

        level_x = level.to(self._diffusion.dtype).expand(z_t.shape[:2])
        level_y = torch.minimum(level_x, repeated(self._observed))
        rows = None if self._mask is None else repeated(self._mask)
        noised = z_t[..., : self._dim], z_t[..., self._dim :]
        outputs = network(*noised, level_x, level_y, rows)
        clean = [prediction.y0_hat(o, n, ell) for o, n, ell in zip(outputs, noised, (level_x, level_y), strict=True)]
        return torch.cat(clean, dim=-1).flatten(1)[:, self._order].reshape(y_t.shape)


def _known_numbers(points: int, targets: int, dim: int, outputs: int, known: tuple[bool, bool]) -> Bool[Tensor, "E"]:
    """Which coordinates and values of all points are known: the context's, and of the targets what is said."""
    of_targets = torch.tensor([known[0]] * dim + [known[1]] * outputs)
    context = torch.ones(points - targets, dim + outputs, dtype=torch.bool)
    return torch.cat([context, of_targets.expand(targets, -1)]).flatten()
