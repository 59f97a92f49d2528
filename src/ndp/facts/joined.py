"""All facts of a posterior as one: their places without repetitions, and what is known of the values there."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ndp.facts.base import Fact, Gaussian, Hard, Smooth, Statement, Surroundings, distinct

LEAST = -1e300  # a log-likelihood below it counts as minus infinity


@final
@dataclass(frozen=True)
class JoinedFacts:
    """What is known of values f at P places: `hard_weights` f + `hard_offset` >= 0, Gaussian measurements, likelihoods."""

    places: Float[Tensor, "P D"]
    hard_weights: Float[Tensor, "R P"]
    hard_offset: Float[Tensor, "R"]
    weights: Float[Tensor, "Q P"]
    value: Float[Tensor, "Q"]
    noise: Float[Tensor, "Q"]
    likelihoods: tuple[tuple[Int[Tensor, "p"], Callable[[Tensor], Tensor]], ...]

    @staticmethod
    def of(facts: Sequence[Fact], around: Surroundings) -> "JoinedFacts":
        """The facts about a function whose surroundings these are."""
        for fact in facts:
            if not isinstance(fact, Fact):
                raise ValueError(f"given takes facts of ndp.facts, such as Bounds(0, 1), not {fact!r}")
        said: list[Statement] = [one for fact in facts for one in fact.statements(around)]
        every = torch.cat([around.observed[:0], *(one.places for one in said)]).double().cpu()
        places, index = distinct(every)
        pieces = index.split([len(one.places) for one in said])

        def spread(weights: Tensor, at: Tensor) -> Tensor:
            """Weights of a statement's values as weights of all values."""
            return torch.zeros(len(weights), len(places), dtype=torch.float64).index_add_(1, at, weights.double().cpu())

        none = torch.zeros(0, len(places), dtype=torch.float64)
        hard = [(one, at) for one, at in zip(said, pieces, strict=True) if isinstance(one, Hard)]
        measured = [(one, at) for one, at in zip(said, pieces, strict=True) if isinstance(one, Gaussian)]
        return JoinedFacts(
            places,
            torch.cat([none, *(spread(one.weights, at) for one, at in hard)]),
            torch.cat([none[:, 0] if len(places) else none.sum(1), *(one.offset.cpu() for one, _ in hard)]),
            torch.cat([none, *(spread(one.weights, at) for one, at in measured)]),
            torch.cat([none.new_zeros(0), *(one.value.cpu() for one, _ in measured)]),
            torch.cat([none.new_zeros(0), *(one.noise.cpu() for one, _ in measured)]),
            tuple((at, one.log_likelihood) for one, at in zip(said, pieces, strict=True) if isinstance(one, Smooth)),
        )

    def margins(self, values: Float[Tensor, "S P"]) -> Float[Tensor, "S R"]:
        """What may not be negative."""
        return values @ self.hard_weights.T + self.hard_offset

    def log_smooth(
        self, values: Float[Tensor, "S P"], *, extra_variance: Float[Tensor, "Q"] | float = 0.0
    ) -> Float[Tensor, "S"]:
        """The log-likelihood of all that is not hard; measurements with some more variance, where that is asked for."""
        total = values.new_zeros(len(values))
        if len(self.value):
            scale = (self.noise.square() + extra_variance).sqrt()
            off = (values @ self.weights.T - self.value) / scale
            total = total - (off.square() / 2 + scale.log() + math.log(2 * math.pi) / 2).sum(-1)
        for at, log_likelihood in self.likelihoods:
            total = total + log_likelihood(values[:, at]).cpu()
        return total.masked_fill(total.isnan() | (total < LEAST), -math.inf)

    def without_measurements(self) -> "JoinedFacts":
        """The same without the Gaussian facts, for which there is a closed form."""
        return JoinedFacts(
            self.places,
            self.hard_weights,
            self.hard_offset,
            self.weights[:0],
            self.value[:0],
            self.noise[:0],
            self.likelihoods,
        )

    @property
    def trivial(self) -> bool:
        """Whether nothing is known but Gaussian measurements, or nothing at all."""
        return not len(self.hard_offset) and not self.likelihoods

    def check_consistent(self) -> None:
        """Raise a ValueError where no values satisfy the hard facts, with room to spare."""
        if not len(self.hard_offset):
            return
        from scipy.optimize import linprog  # SciPy takes a while to import

        size = self.hard_weights.shape[1]
        rows = torch.cat([-self.hard_weights, torch.ones(len(self.hard_offset), 1, dtype=torch.float64)], dim=1)
        goal = [0.0] * size + [-1.0]
        found = linprog(goal, rows.numpy(), self.hard_offset.numpy(), bounds=[(None, None)] * size + [(None, 1.0)])
        if found.status == 2 or (found.x is not None and not found.x[-1] > 0):
            raise ValueError("the facts contradict each other: no function satisfies all bounds, orders and intervals")
