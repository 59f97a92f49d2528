"""How close a model of inputs and values is to the exact distribution of an input given its value, and of values."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.drawing import generator_on
from ndp.gp.exact import GP
from ndp.gp.inverse import distribution_of_input, shares
from ndp.models.evaluation import Number
from ndp.models.metrics import total_variation
from ndp.optimise.joint_search import Target
from ndp.priors.tasks import Synthetic
from ndp.processes.ndp import NDP

OBSERVATIONS, BINS = 5, 40

# Inputs [S, B] at which the functions of B tasks, given observations [B C 1], [B C 1], have the values [B].
DrawInputs = Callable[[Tensor, Tensor, Tensor, torch.Generator], Float[Tensor, "S B"]]


@dataclass(frozen=True)
class InputDistances:
    """Total variation to the exact p(x* | y*) over equal bins, for two kinds of y*: values of the functions, and lower ones.

    An optimisation asks for values below the best. A histogram of finitely many draws has an error of its own: see the row of
    exact draws.
    """

    row: str
    any_value: Number
    below_best: Number


@dataclass(frozen=True)
class Questions:
    """Observations of functions, a value that each has somewhere else, and one below all that were observed."""

    x: Float[Tensor, "B C 1"]
    y: Float[Tensor, "B C 1"]
    any_value: Float[Tensor, "B"]
    below_best: Float[Tensor, "B"]

    @staticmethod
    def of(gp: GP, tasks: int, *, seed: int = 0) -> "Questions":
        generator = torch.Generator().manual_seed(seed)
        x = 2 * torch.rand(tasks, OBSERVATIONS + 1, 1, generator=generator, dtype=torch.float64) - 1
        y = torch.as_tensor(gp.sample(x, observation_noise=True, generator=generator))
        known = y[:, :OBSERVATIONS]
        below = [Target().draw(values[:, 0], generator) for values in known]
        return Questions(x[:, :OBSERVATIONS], known, y[:, -1, 0], torch.tensor(below, dtype=torch.float64))


def compare(row: str, gp: GP, questions: Questions, draw: DrawInputs, *, seed: int = 1) -> InputDistances:
    """Total variation between the histogram of draws and the exact distribution."""
    generator = torch.Generator().manual_seed(seed)
    posterior = gp.condition(questions.x, questions.y)
    found = []
    for value in (questions.any_value, questions.below_best):
        drawn = draw(questions.x, questions.y, value, generator)
        found.append(Number.of(total_variation(shares(drawn, BINS), distribution_of_input(posterior, value, BINS))))
    return InputDistances(row, *found)


def exact_draws(gp: GP, draws: int) -> DrawInputs:
    """Draws of the exact distribution: the error that a histogram of so many draws has by itself."""

    def draw(x: Tensor, y: Tensor, value: Tensor, generator: torch.Generator) -> Float[Tensor, "S B"]:
        exact = distribution_of_input(gp.condition(x, y), value, BINS)
        index = torch.multinomial(exact, draws, replacement=True, generator=generator).T
        return (2 * index + 1).double() / BINS - 1

    return draw


def even_draws(draws: int) -> DrawInputs:
    """Uniform draws, which ignore the observations."""

    def draw(x: Tensor, y: Tensor, value: Tensor, generator: torch.Generator) -> Float[Tensor, "S B"]:
        return 2 * torch.rand(draws, len(value), generator=generator, dtype=torch.float64) - 1

    return draw


def model_draws(model: NDP, draws: int, *, repaint_steps: int | None = None) -> DrawInputs:
    """Draws of a model of inputs and values: amortised or, with a number of steps, by RePaint."""

    def draw(x: Tensor, y: Tensor, value: Tensor, generator: torch.Generator) -> Float[Tensor, "S B"]:
        asked = value[:, None]
        if repaint_steps is None:
            drawn = model.condition(x, y).sample_inputs(asked, draws, generator=generator)
        else:
            nearby = generator_on(model.device, generator)
            drawn = model.repaint(x, y).sample_inputs(asked, draws, steps=repaint_steps, generator=nearby)
        return torch.as_tensor(drawn)[..., 0, 0].double().cpu()

    return draw


def values_gap(model: NDP, gp: GP, *, tasks: int, targets: int, seed: int = 0) -> Number:
    """Nats a point by which the model's own density of values at known inputs is below the exact one."""
    source = Synthetic(gp, 1, -1.0, 1.0, targets, most_context=10, least_context=1)
    batch = source.draw(tasks, generator=torch.Generator().manual_seed(seed))
    (x, y), (known_x, known_y, mask) = batch.targets, batch.context
    exact = torch.as_tensor(gp.condition(known_x, known_y, mask=mask).log_prob(x, y, observation_noise=True))
    ours = torch.as_tensor(model.condition(known_x, known_y, mask=mask).log_prob(x, y)).double().cpu()
    return Number.of((exact - ours) / targets)
