"""Increasing functions: a smooth one through given points, and the inverse of any."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

HALVINGS = 60  # of an interval, until it is as short as float64 can tell


@final
@dataclass(frozen=True)
class IncreasingCurve:
    """A cubic spline through points that never decreases (Fritsch and Carlson, 1980), and lines beyond its ends.

    Many curves share the places: every entry of `values` beyond the first axis has a curve of its own.
    """

    places: Float[Tensor, "Q"]
    values: Float[Tensor, "Q *A"]

    def __call__(self, x: Float[Tensor, "S *A"]) -> Float[Tensor, "S *A"]:
        width = self.places.diff()
        index = (torch.searchsorted(self.places, x.contiguous()) - 1).clamp(0, len(width) - 1)
        inside = x.clamp(self.places[0], self.places[-1])
        h = width[index]
        t = (inside - self.places[index]) / h
        y0, y1, d0, d1 = (
            torch.take_along_dim(values, at, dim=0)
            for values, at in (
                (self.values, index),
                (self.values, index + 1),
                (self._slopes, index),
                (self._slopes, index + 1),
            )
        )
        along = y0 + (y1 - y0) * t**2 * (3 - 2 * t) + h * t * (1 - t) * (d0 * (1 - t) - d1 * t)
        return along + (x - inside) * torch.where(x < inside, self._slopes[0], self._slopes[-1])

    @cached_property
    def _slopes(self) -> Float[Tensor, "Q *A"]:
        """Between two secants their weighted harmonic mean; at the ends that of the parabola through three points."""
        width = self.places.diff().reshape(-1, *(1,) * (self.values.ndim - 1))
        secant = self.values.diff(dim=0) / width
        before, after = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
        flat = (secant[:-1] <= 0) | (secant[1:] <= 0)
        mean = (before + after) / (before / secant[:-1] + after / secant[1:])
        middle = torch.where(flat, 0.0, mean)
        return torch.cat([_end(width, secant)[None], middle, _end(width.flip(0), secant.flip(0))[None]])


def _end(width: Tensor, secant: Tensor) -> Tensor:
    """The slope at the first point, within what keeps the curve from decreasing."""
    slope = ((2 * width[0] + width[1]) * secant[0] - width[0] * secant[1]) / (width[0] + width[1])
    return torch.minimum(slope.clamp(min=0), 3 * secant[0])


def invert_increasing(function: Callable[[Tensor], Tensor], values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Where an increasing function has these values, between `low` and `high`, by bisection."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = function(middle) < values
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2
