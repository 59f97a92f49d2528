"""What requests cost, in seconds of two idle cores, and how the pace of this machine compares with that."""

import math

# Measured with `se`; other networks take up to twice as long.
EXACT, JOINT_STEP = 0.1, 0.4
# Seconds of work that the pace is an average over, and the weight of the pace that is assumed at first.
WINDOW, ASSUMED = 10.0, 0.1


def drawing_cost(*, context: int, points: int, draws: int, steps: int) -> float:
    """Seconds for `draws` functions of so many points; every point attends to the others and to the context."""
    each = 40e-6 + points * 1.9e-6 * (1 + (points + context) / 100)
    return 0.005 + steps * (0.002 + draws * each)


def density_cost(*, context: int, points: int, functions: int, steps: int) -> float:
    """Seconds for joint densities, with a backward pass for each value and step."""
    return 0.02 + steps * (0.003 + functions * points * (200e-6 + 3e-6 * (context + points)))


def picture_cost(*, pixels: int, draws: int, steps: int) -> float:
    """Seconds for completions of a picture."""
    return draws * steps * pixels * 85e-6


def given_cost(*, context: int, points: int, draws: int, by_experts: bool) -> float:
    """Seconds for functions that agree with facts: of models without GP experts every particle is a draw."""
    if by_experts:
        return 1.0 + 0.01 * points + 0.01 * draws
    return 2.0 + drawing_cost(context=context, points=points + 20, draws=max(64, 4 * draws), steps=42)


class Pace:
    """Seconds that this machine takes for work that is estimated at one second, over the recent work."""

    def __init__(self) -> None:
        self._estimated = self._taken = ASSUMED

    @property
    def ratio(self) -> float:
        return self._taken / self._estimated

    def learn(self, *, estimated: float, taken: float) -> None:
        kept = math.exp(-estimated / WINDOW)
        self._estimated = kept * self._estimated + estimated
        self._taken = kept * self._taken + taken
