"""Names of priors to priors, in one place, and how each of them is learned. Plain values: nothing heavy is imported here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ndp.diffusion.defaults import LEVEL_LAW
from ndp.gp.parameters import (
    LOG_STD_OF_LENGTHSCALE,
    MARGINAL_NOISE,
    MEDIAN_LENGTHSCALE,
    OBSERVATION_NOISE,
    OPTIMISATION_LOG_STD,
    OPTIMISATION_MEDIAN,
    OPTIMISATION_NOISE,
)

if TYPE_CHECKING:
    import torch

    from ndp.core.typing import Prior

CONTEXT_UNITS: Mapping[str, Any] = {"by": "context"}  # what `ndp.core.units.read_units` takes


@dataclass(frozen=True)
class PriorSpec:
    """A named prior: where its inputs lie, how much context its tasks have, and what its network should be."""

    title: str
    noise_floor: float
    low: float = -2.0
    high: float = 2.0
    targets: int = 50  # a third of the tasks have this many, the others from 1 to most_targets / D
    most_targets: int = 256
    context_per_dim: int = 10
    clustered: float = 0.0  # share of the tasks whose points lie in a cluster
    has_posterior_mean: bool = True  # whether posterior-mean regression is possible (`priors.expectations`)
    independent_targets: bool = False  # whether training also has tasks with independent targets
    level_law: tuple[float, float] = LEVEL_LAW  # the noise levels of training (`draw_levels`)
    network: dict[str, Any] = field(default_factory=dict)
    units: Mapping[str, Any] | None = None  # as `ndp.core.units.read_units` takes them

    @property
    def domain(self) -> str:
        """Where its inputs lie, in words."""
        if self.units == CONTEXT_UNITS:
            return "x and y in units of the context"
        return f"x in [{self.low:g}, {self.high:g}]"


_OPTIMISATION: dict[str, Any] = {
    "noise_floor": OPTIMISATION_NOISE,
    "low": -1.0,
    "high": 1.0,
    "targets": 128,
    "most_targets": 768,
    "context_per_dim": 25,
    "clustered": 0.5,
}
UNIVERSAL = "universal"
UNIVERSAL_CONTEXT, UNIVERSAL_TARGETS = 256, 128

PRIORS = {
    "se": PriorSpec("GP, squared exponential, lengthscale sqrt(D)/4, noise 0.05", noise_floor=0.05),
    "matern52": PriorSpec("GP, Matern-5/2, lengthscale sqrt(D)/4, noise 0.05", noise_floor=0.05),
    "matern32-marginal": PriorSpec(
        "GP, Matern-3/2, log-normal lengthscale, noise 0.001",
        noise_floor=MARGINAL_NOISE,
        low=-1.0,
        high=1.0,
        targets=80,
        most_targets=128,
        context_per_dim=20,
        network={"blocks": 6},
    ),
    "step": PriorSpec(
        "steps from 0 to 1, uniform position",
        noise_floor=0.0,
        low=-1.1,  # a little beyond where steps are, so that both ends are learned
        high=1.1,
        targets=80,
        most_targets=128,
        context_per_dim=20,
        independent_targets=True,
        level_law=(0.3, 1.4),  # where a step lies is decided while there is a lot of noise
        network={"inputs": "fourier", "blocks": 6},
        units={"x_shift": [0.0], "x_scale": [1.0], "y_shift": [0.5], "y_scale": [0.5]},
    ),
    "bo-fixed": PriorSpec("GP, Matern-5/2, lengthscale 0.5, noise 0.01, for optimisation", **_OPTIMISATION),
    "bo-marginal": PriorSpec(
        "GP, Matern-5/2, log-normal lengthscales, one an input, noise 0.01, for optimisation", **_OPTIMISATION
    ),
    "minima": PriorSpec(
        "GP, Matern-5/2, lengthscale 0.15 D, noise 0.05: functions with many minima",
        noise_floor=OBSERVATION_NOISE,
        low=-1.0,
        high=1.0,
        targets=64,
        most_targets=128,
        context_per_dim=20,
        clustered=0.5,
    ),
    "sawtooth": PriorSpec("sawtooth waves, noise 0.05", noise_floor=OBSERVATION_NOISE, has_posterior_mean=False),
    UNIVERSAL: PriorSpec(
        "functions of many kinds with unknown noise, 0 to 256 observations",
        noise_floor=0.0,
        independent_targets=True,
        network={"separates_noise": True, "width": 128, "blocks": 6},
        units=CONTEXT_UNITS,
    ),
    "mixture": PriorSpec(
        "SE and Matern-5/2 GPs and sawtooth waves, noise 0.05",
        noise_floor=OBSERVATION_NOISE,
        has_posterior_mean=False,
    ),
}


@dataclass(frozen=True)
class ImageSet:
    """A named set of square pictures, and where a user gets it."""

    title: str
    size: int
    channels: int
    mirrored: bool  # whether a picture's mirror image is as likely
    source: str


IMAGE_SETS = {
    "mnist": ImageSet(
        "MNIST, handwritten digits of 28 x 28 grey pixels",
        size=28,
        channels=1,
        mirrored=False,
        source="the four files of MNIST (train-images-idx3-ubyte.gz, ...), from https://huggingface.co/datasets/ylecun/mnist "
        "or a mirror of http://yann.lecun.com/exdb/mnist; with the package datasets also --data-dir ylecun/mnist",
    ),
    "celeba32": ImageSet(
        "CelebA, aligned faces of 32 x 32 colour pixels",
        size=32,
        channels=3,
        mirrored=True,
        source="a folder of CelebA's aligned and cropped pictures (img_align_celeba, from "
        "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html, for non-commercial research), or an NPZ file with arrays train and "
        "test, uint8, [pictures, 32, 32, 3]; with the package datasets also a name such as --data-dir nielsr/CelebA-faces",
    ),
}


def make_prior(name: str, device: "torch.device") -> "Prior":
    """The prior of that name, drawing on `device`."""
    from ndp.gp.named import matern32, matern52, minima_gp, optimisation_gp, regression_gp
    from ndp.priors.hierarchical import HierarchicalGP, log_normal_lengthscale
    from ndp.priors.mixture import Mixture
    from ndp.priors.sawtooth import Sawtooth
    from ndp.priors.step import Step

    match name:
        case "se" | "matern52":
            return regression_gp(name).to(device)
        case "matern32-marginal":
            lengthscale = log_normal_lengthscale(matern32, MEDIAN_LENGTHSCALE, LOG_STD_OF_LENGTHSCALE)
            return HierarchicalGP(lengthscale, noise=MARGINAL_NOISE)
        case "bo-fixed":
            return optimisation_gp().to(device)
        case "bo-marginal":
            lengthscale = log_normal_lengthscale(
                matern52, OPTIMISATION_MEDIAN, OPTIMISATION_LOG_STD, in_each_dimension=True
            )
            return HierarchicalGP(lengthscale, noise=OPTIMISATION_NOISE)
        case "minima":
            return minima_gp().to(device)
        case "step":
            return Step()
        case "sawtooth":
            return Sawtooth(noise=OBSERVATION_NOISE)
        case "mixture":
            return Mixture((make_prior("se", device), make_prior("matern52", device), make_prior("sawtooth", device)))
    raise ValueError(f"there is no prior named {name!r}; there are: {', '.join(PRIORS)}")
