"""Image regression: completions from some of the pixels, and the error of the mean of five draws.

All values are from 0 to 1, and draws are clipped to that range. Every method sees the same pictures and the same contexts.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from benchmarks.drawing import generator_on
from benchmarks.report import Progress
from benchmarks.timing import limited_threads
from benchmarks.weights_folder import find_weights
from ndp.core.units import FixedUnits
from ndp.models.evaluation import Number
from ndp.models.registry import load_ndp, prior_of
from ndp.priors.image import pixel_grid
from ndp.priors.registry import IMAGE_SETS
from ndp.processes.ndp import NDP

FRACTIONS = (0.05, 0.1, 0.2, 0.4, 0.8, 0.95)
DRAWS = 5
COMPLETIONS, COMPLETION_CALLS, SECONDS = 16, 15, 30  # draws of one digit on two cores, calls for each, at most so long
# The largest mean squared error that meets the bar, at these fractions of known pixels.
AIMS = {
    "mnist": {0.05: 0.045, 0.1: 0.030, 0.2: 0.015, 0.4: 0.006},
    "celeba32": {0.05: 0.020, 0.1: 0.013, 0.2: 0.008, 0.4: 0.004},
}


@dataclass(frozen=True)
class Sizes:
    """How much to measure, and with how many network calls."""

    images: int
    steps: int
    repaint_images: int
    repaint_levels: int
    bits_images: int
    probes: int
    repaint_repeats: int = 5
    at_once: int = 16  # pictures in a batch


QUICK = Sizes(images=4, steps=10, repaint_images=2, repaint_levels=10, bits_images=2, probes=1)
FULL = Sizes(images=256, steps=50, repaint_images=16, repaint_levels=500, bits_images=32, probes=4, at_once=64)

# Draws [S B M P] at the last inputs, given values at the first: (x, y, x_new, draws, generator).
Draw = Callable[[Tensor, Tensor, Tensor, int, torch.Generator], Tensor]


@dataclass(frozen=True)
class Method:
    """A way to complete pictures."""

    name: str
    calls: int
    images: int
    draw: Draw


@dataclass(frozen=True)
class Score:
    """Mean squared error of the mean of five draws where a fraction of the pixels is known."""

    method: str
    calls: int
    fraction: float
    images: int
    whole: Number  # over the picture, known pixels included, as in the paper
    unknown: Number  # over the pixels that were not known
    errors: tuple[float, ...]  # the same of every picture


def ours(model: NDP, sizes: Sizes) -> Method:
    def draw(x: Tensor, y: Tensor, x_new: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        with in_half_precision(model):
            return torch.as_tensor(model.condition(x, y).sample(x_new, draws, steps=sizes.steps, generator=generator))

    return Method("ours", sizes.steps, sizes.images, draw)


def papers(model: NDP, sizes: Sizes) -> Method:
    """The paper's conditional sampler on a model that was trained by the paper's recipe."""
    levels, repeats = sizes.repaint_levels, sizes.repaint_repeats

    def draw(x: Tensor, y: Tensor, x_new: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        with in_half_precision(model):
            nearby = generator_on(model.device, generator)
            drawn = model.repaint(x, y).sample(x_new, draws, steps=levels, repeats=repeats, generator=nearby)
        return torch.as_tensor(drawn)

    return Method("the paper's recipe", levels * repeats, sizes.repaint_images, draw)


def measure(
    methods: list[Method], pictures: UInt8[Tensor, "T H W P"], sizes: Sizes, progress: Progress
) -> Iterator[Score]:
    """Errors of every method at every fraction, on its number of pictures."""
    x, y = as_functions(pictures)
    for method in methods:
        for fraction in FRACTIONS:
            progress(f"{method.name}: {fraction:.0%} of the pixels, {method.calls:,} calls a draw")
            orders = random_orders(len(pictures), len(x), fraction)
            parts = torch.arange(min(method.images, len(pictures))).split(sizes.at_once)
            squared = torch.cat([_squared_errors(method, x, y[part], orders[part], fraction) for part in parts])
            known = context_size(len(x), fraction)
            yield Score(
                method.name,
                method.calls,
                fraction,
                len(squared),
                Number.of(squared * (1 - known / len(x))),
                Number.of(squared),
                tuple(squared.tolist()),
            )


def _squared_errors(
    method: Method, x: Tensor, y: Float[Tensor, "B N P"], orders: Tensor, fraction: float
) -> Float[Tensor, "B"]:
    known = context_size(len(x), fraction)
    shuffled = torch.take_along_dim(y, orders[..., None], dim=1)
    places = x[orders]
    draws = method.draw(
        places[:, :known], shuffled[:, :known], places[:, known:], DRAWS, torch.Generator().manual_seed(1)
    )
    mean = draws.double().cpu().clamp(0, 1).mean(0)
    return (mean - shuffled[:, known:]).square().mean((1, 2))


def as_functions(pictures: UInt8[Tensor, "T H W P"]) -> tuple[Float[Tensor, "N 2"], Float[Tensor, "T N P"]]:
    """Places of the pixels, and values from 0 to 1 at them."""
    return pixel_grid(*pictures.shape[1:3]), pictures.flatten(1, 2).double() / 255


def random_orders(pictures: int, points: int, fraction: float) -> Tensor:
    """The pixels of each picture in a random order of its own; those in front are the context."""
    generator = torch.Generator().manual_seed(round(1000 * fraction))
    return torch.rand(pictures, points, generator=generator).argsort(dim=1)


def context_size(points: int, fraction: float) -> int:
    return max(1, round(fraction * points))


def shown_contexts(x: Float[Tensor, "N 2"]) -> dict[str, Bool[Tensor, "N"]]:
    """The contexts of the paper's figure: which pixels are known."""
    random = torch.rand(len(x), generator=torch.Generator().manual_seed(5)).argsort()
    return {
        "upper half": x[:, 0] < 0,
        "left half": x[:, 1] < 0,
        "random 5 %": random < context_size(len(x), 0.05),
        "random 10 %": random < context_size(len(x), 0.1),
    }


def bits_per_value(model: NDP, pictures: UInt8[Tensor, "T H W P"], probes: int) -> Number:
    """Bits of code length a value under the prior, by the ODE, with `probes` random signs for the divergence.

    Values carry Gaussian noise of the least ratio that the model was trained at, about a third of a grey level. The code
    length of the noise itself is subtracted: log p(y + n) - log N(n).
    """
    x, y = as_functions(pictures)
    assert isinstance(model.units, FixedUnits)
    noise = 1.01 * model.trained_ratios[0] * model.units.y_scale[0]
    generator = torch.Generator().manual_seed(0)
    n = noise * torch.randn(y.shape, generator=generator, dtype=torch.float64)
    nothing = x[None, :0].expand(len(y), -1, -1), y[:, :0]
    posterior = model.condition(*nothing)
    log_p = torch.as_tensor(
        posterior.log_prob(x[None].expand(len(y), -1, -1), y + n, noise=noise, probes=probes, generator=generator)
    )
    log_noise = torch.distributions.Normal(0.0, noise).log_prob(n).sum((1, 2))
    return Number.of((log_noise - log_p.double().cpu()) / (math.log(2) * y[0].numel()))


def seconds_for_completions(model: str, pictures: UInt8[Tensor, "T H W P"]) -> float:
    """Time for 16 completions of one picture from a tenth of it, on two CPU cores."""
    x, y = as_functions(pictures[:1])
    known = shown_contexts(x)["random 10 %"]
    posterior = load_ndp(find_weights(model), "cpu").condition(x[known][None], y[:, known])
    with limited_threads(2):
        began = time.perf_counter()
        generator = torch.Generator().manual_seed(0)
        posterior.sample(x[~known][None], COMPLETIONS, steps=COMPLETION_CALLS, generator=generator)
        return time.perf_counter() - began


def in_half_precision(model: NDP) -> AbstractContextManager[object]:
    """On a GPU, matrix products in bfloat16: attention has its fastest kernels for it."""
    return torch.autocast("cuda", torch.bfloat16) if model.device.type == "cuda" else nullcontext()


def load_image_model(name: str, image_set: str, device: str) -> NDP:
    """A model of that set of pictures."""
    model = load_ndp(find_weights(name), device)
    channels = IMAGE_SETS[image_set].channels
    if prior_of(model) != image_set or model.num_outputs != channels:
        raise ValueError(
            f"{name} was not trained on {image_set}, but on {model.about.get('trained_on', 'something else')}"
        )
    return model
