"""The solver of single values, against laws whose denoiser and quantiles are known in closed form."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from ndp.core.typing import Denoiser
from ndp.diffusion.levels import alpha, ratio
from ndp.diffusion.marginal_solver import Guess, SolvedValues, solve_values

PROBABILITIES = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95], dtype=torch.float64)
ASKED = torch.special.ndtri(PROBABILITIES)[:, None]
TRAINED = (0.004, 80.0)
NOTHING_KNOWN = Guess.standard(torch.zeros(1, 1, 1, dtype=torch.float64))


class NormalMixture:
    """A law of one value: weights, means and standard deviations of normal laws."""

    def __init__(self, *parts: tuple[float, float, float]) -> None:
        self.weight, self.mean, self.std = torch.tensor(parts, dtype=torch.float64).T

    def denoiser(self) -> Denoiser:
        def denoise(y_t: Tensor, level: Tensor) -> Tensor:
            u, r = y_t / alpha(level)[..., None], ratio(level)[..., None]
            variance = self.std**2 + r**2
            share = torch.softmax(self.weight.log() - variance.log() / 2 - (u - self.mean) ** 2 / variance / 2, dim=-1)
            return (share * (r**2 * self.mean + self.std**2 * u) / variance).sum(-1, keepdim=True)

        return denoise

    def distribution(self, y: Tensor) -> Tensor:
        return (self.weight * torch.special.ndtr((y[..., None] - self.mean) / self.std)).sum(-1)

    def moments(self) -> tuple[float, float]:
        mean = (self.weight * self.mean).sum()
        return float(mean), math.sqrt((self.weight * (self.std**2 + (self.mean - mean) ** 2)).sum())

    def quantiles(self) -> Tensor:
        low, high = (torch.full_like(PROBABILITIES, bound) for bound in (-30.0, 30.0))
        for _ in range(60):
            middle = (low + high) / 2
            below = self.distribution(middle)
            low, high = (
                torch.where(below < PROBABILITIES, middle, low),
                torch.where(below < PROBABILITIES, high, middle),
            )
        return low


def solved(
    law: NormalMixture, steps: int, asked: Tensor = ASKED, *, nodes: int = 4, guess: Guess = NOTHING_KNOWN
) -> SolvedValues:
    return solve_values(law.denoiser(), asked, guess, steps, TRAINED, nodes=nodes)


SHAPES = {
    "two kernels": NormalMixture((0.5, 0.1, 0.1), (0.3, 0.3, 0.3), (0.2, -0.2, 0.7)),
    "beside a step": NormalMixture((0.9, -0.9, 0.1), (0.1, 1.1, 0.1)),
    "heavy tails": NormalMixture((0.8, 0.5, 0.1), (0.2, 0.5, 0.4)),
    "skewed": NormalMixture(
        (0.35, -0.75, 0.08), (0.3, -0.45, 0.15), (0.2, 0.0, 0.3), (0.1, 0.8, 0.5), (0.05, 2.0, 0.9)
    ),
    "bounded": NormalMixture(*((0.1, -1.35 + 0.3 * i, 0.12) for i in range(10))),
    "two peaks": NormalMixture((0.5, -1.0, 0.1), (0.5, 1.0, 0.1)),
}


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("std", [0.003, 0.05, 1.0, 2.0])
def test_normal_laws_are_exact_in_any_number_of_steps(steps: int, std: float) -> None:
    found = solved(NormalMixture((1.0, 0.7, std)), steps)
    torch.testing.assert_close(found.mean.item(), 0.7, rtol=0, atol=1e-6 * std)
    torch.testing.assert_close(found.variance.sqrt().item(), std, rtol=1e-6, atol=0)
    torch.testing.assert_close(found.asked[:, 0, 0], 0.7 + std * ASKED, rtol=0, atol=1e-6 * std)


@pytest.mark.parametrize("name", SHAPES)
def test_five_steps_are_near_the_exact_law_and_more_steps_nearer(name: str) -> None:
    law = SHAPES[name]
    mean, std = law.moments()
    errors = []
    for steps in (5, 10, 20, 40):
        found = solved(law, steps)
        errors.append(float((law.distribution(found.asked[:, 0, 0, 0]) - PROBABILITIES).abs().max()))
        assert abs(float(found.mean) - mean) < 0.01 * std
        assert abs(math.log(float(found.variance.sqrt()) / std)) < 0.025
    assert errors[0] < 0.02
    assert all(later < max(0.75 * sooner, 0.003) for sooner, later in pairwise(errors))
    assert errors[-1] < 0.002


@pytest.mark.parametrize(("std", "error"), [(0.0005, 0.06), (0.003, 0.02), (0.3, 0.02)])
def test_a_narrow_law_is_solved_as_well_around_its_guess(std: float, error: float) -> None:
    """Levels are those of its own width, down to the least one that was trained."""
    law = NormalMixture((0.7, 0.4, std), (0.3, 0.4 + 1.5 * std, 2 * std))
    guess = Guess(*(torch.full((1, 1, 1), value, dtype=torch.float64) for value in (0.4 + 0.2 * std, 1.5 * std)))
    found = solved(law, 5, guess=guess)
    assert (law.distribution(found.asked[:, 0, 0, 0]) - PROBABILITIES).abs().max() < error
    assert math.log(float(found.variance.sqrt()) / law.moments()[1]) == pytest.approx(0, abs=0.01)


def test_rare_values_count_in_the_standard_deviation_though_no_node_stands_for_them() -> None:
    law = NormalMixture((0.995, 0.0, 0.3), (0.005, 3.0, 0.3))
    place, weight = (torch.as_tensor(t) for t in np.polynomial.hermite_e.hermegauss(4))
    found = solved(law, 5, place[:, None])
    _, std = law.moments()
    nodes, weight = found.asked[:, 0, 0, 0], weight / weight.sum()
    nodes_alone = (weight * nodes**2).sum() - (weight * nodes).sum() ** 2
    off = [abs(math.log(float(variance.sqrt()) / std)) for variance in (found.variance, nodes_alone)]
    assert off[0] < off[1] / 2
    assert off[0] < 0.05


def test_an_answer_does_not_depend_on_what_else_is_asked_for() -> None:
    law = SHAPES["two kernels"]
    together = solved(law, 5)
    for index in range(len(ASKED)):
        alone = solved(law, 5, ASKED[index : index + 1])
        torch.testing.assert_close(alone.asked[0], together.asked[index], rtol=1e-12, atol=0)
    nothing = solved(law, 5, ASKED[:0])
    assert torch.equal(nothing.mean, together.mean)
    assert torch.equal(nothing.variance, together.variance)


@pytest.mark.parametrize(("std", "calls"), [(1.0, 2), (0.2, 3), (0.003, 5)])
def test_moments_without_values_need_no_more_calls_than_tell_them(std: float, calls: int) -> None:
    """Five levels: the wider a law, the sooner its moments are known."""
    law, counted = NormalMixture((1.0, 0.7, std)), []

    def counting(y_t: Tensor, level: Tensor) -> Tensor:
        counted.append(1)
        return law.denoiser()(y_t, level)

    found = solve_values(counting, ASKED[:0], NOTHING_KNOWN, 5, TRAINED)
    assert len(counted) == calls
    torch.testing.assert_close(found.variance.sqrt().item(), std, rtol=1e-6, atol=0)


def test_a_mirror_image_has_the_mirror_image_for_an_answer() -> None:
    law = SHAPES["beside a step"]
    mirrored = NormalMixture(*((w, -m, s) for w, m, s in zip(law.weight, law.mean, law.std, strict=True)))
    one, other = solved(law, 5), solved(mirrored, 5, -ASKED)
    torch.testing.assert_close(other.asked, -one.asked)
    torch.testing.assert_close(other.variance, one.variance)


def test_tasks_may_ask_for_noises_of_their_own() -> None:
    law = SHAPES["heavy tails"]
    guess = Guess.standard(torch.zeros(2, 3, 1, dtype=torch.float64))
    two = solve_values(law.denoiser(), torch.cat([ASKED, -ASKED], dim=1), guess, 5, TRAINED)
    assert two.asked.shape == (5, 2, 3, 1)
    torch.testing.assert_close(two.asked[:, 1], two.asked[:, 0].flip(0))  # these probabilities are symmetric
