"""Regions of a large table: each has the rows nearest to its middle as its context, and answers the questions in it."""

from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

ROWS_IN_CONTEXT = 256  # in the training of the universal model
ROWS_OF_REGION = 128  # at most: half of a context lies around its region


@final
@dataclass(frozen=True)
class Regions:
    """A binary tree of splits at the median of the widest input, whose leaves are the regions.

    A node holds the input that it splits at, or -1 for a leaf; `next` are its two children, or for a leaf its region, twice.
    """

    split_at: Int[Tensor, "_"]
    threshold: Float[Tensor, "_"]
    next: Int[Tensor, "_ 2"]
    rows: Int[Tensor, "R K"]  # of each region's context

    @staticmethod
    def of(x: Float[Tensor, "N D"]) -> "Regions":
        """The regions of rows at `x`, in units in which distances count."""
        split_at, threshold, following = [-1], [0.0], [[0, 0]]
        contexts: list[Tensor] = []
        waiting = [(0, torch.arange(len(x), device=x.device))]
        while waiting:
            node, rows = waiting.pop()
            split = _split(x[rows]) if len(x) > ROWS_IN_CONTEXT and len(rows) > ROWS_OF_REGION else None
            if split is None:
                following[node] = [len(contexts)] * 2
                contexts.append(_nearest(x, x[rows].mean(0), ROWS_IN_CONTEXT))
                continue
            split_at[node], threshold[node] = split
            below = x[rows, split[0]] <= split[1]
            for side, part in enumerate((rows[below], rows[~below])):
                following[node][side] = len(split_at)
                waiting.append((len(split_at), part))
                split_at.append(-1)
                threshold.append(0.0)
                following.append([0, 0])
        whole = partial(torch.tensor, dtype=torch.long, device=x.device)
        return Regions(whole(split_at), x.new_tensor(threshold), whole(following), torch.stack(contexts))

    def find(self, x: Float[Tensor, "M D"]) -> Int[Tensor, "M"]:
        """The region of every place."""
        node = torch.zeros(len(x), dtype=torch.long, device=x.device)
        while bool((inner := self.split_at[node] >= 0).any()):
            dim = self.split_at[node].clamp(min=0)
            above = x.gather(1, dim[:, None])[:, 0] > self.threshold[node]
            node = torch.where(inner, self.next[node, above.long()], node)
        return self.next[node, 0]


def nearest_to_any(x: Float[Tensor, "N D"], places: Float[Tensor, "M D"], most: int) -> Int[Tensor, "_"]:
    """The rows that are nearest to any of the places, in their order."""
    distance = torch.full_like(x[:, 0], torch.inf)
    for piece in places.split(1024):
        distance = torch.minimum(distance, torch.cdist(x, piece, compute_mode="donot_use_mm_for_euclid_dist").amin(1))
    return distance.argsort(stable=True)[:most].sort().values


def _split(x: Float[Tensor, "n D"]) -> tuple[int, float] | None:
    """An input and a threshold between two of its values, near the median of the input with the largest variance."""
    for dim in x.var(0).argsort(descending=True, stable=True).tolist():
        values = x[:, dim].sort().values
        steps = (values[1:] > values[:-1]).nonzero()[:, 0]
        if len(steps):
            at = steps[(steps - (len(values) - 1) // 2).abs().argmin()]
            return dim, ((values[at] + values[at + 1]) / 2).item()
    return None


def _nearest(x: Float[Tensor, "N D"], place: Float[Tensor, "D"], most: int) -> Int[Tensor, "_"]:
    return (x - place).square().sum(1).argsort(stable=True)[:most].sort().values
