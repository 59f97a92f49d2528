"""Names of priors to priors, in one place, and how each of them is learned."""

from dataclasses import dataclass, field
from typing import Any

import torch

from ndp.core.typing import Prior
from ndp.core.units import ContextUnits, FixedUnits
from ndp.diffusion.objective import LEVEL_LAW
from ndp.gp.named import (
    LOG_STD_OF_LENGTHSCALE,
    MARGINAL_NOISE,
    MEDIAN_LENGTHSCALE,
    OBSERVATION_NOISE,
    OPTIMISATION_LOG_STD,
    OPTIMISATION_MEDIAN,
    OPTIMISATION_NOISE,
    matern32,
    matern52,
    minima_gp,
    optimisation_gp,
    regression_gp,
)
from ndp.priors.hierarchical import HierarchicalGP, log_normal_lengthscale
from ndp.priors.mixture import Mixture
from ndp.priors.sawtooth import Sawtooth
from ndp.priors.step import Step


@dataclass(frozen=True)
class PriorSpec:
    """A named prior: where its inputs lie, how much context it is asked for, and what its network should be."""

    title: str
    noise_floor: float
    low: float = -2.0
    high: float = 2.0
    targets: int = 50  # a third of the tasks have this many, the others from 1 to most_targets / D
    most_targets: int = 256
    context_per_dim: int = 10
    clustered: float = 0.0  # share of the tasks whose points crowd
    knows_expectations: bool = True  # whether its functions can be learned from by their expectations (`priors.law`)
    asked_alone: bool = False  # whether training has tasks whose targets are each asked for by itself, too
    level_law: tuple[float, float] = LEVEL_LAW  # which noise levels are learned most (`draw_levels`)
    network: dict[str, Any] = field(default_factory=dict)
    units: FixedUnits | ContextUnits | None = None

    @property
    def domain(self) -> str:
        """Where its inputs lie, in words."""
        if isinstance(self.units, ContextUnits):
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
        asked_alone=True,
        level_law=(0.3, 1.4),  # where a step lies is decided while there is a lot of noise
        network={"inputs": "fourier", "blocks": 6},
        units=FixedUnits((0.0,), (1.0,), (0.5,), (0.5,)),
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
    "sawtooth": PriorSpec("sawtooth waves, noise 0.05", noise_floor=OBSERVATION_NOISE, knows_expectations=False),
    UNIVERSAL: PriorSpec(
        "functions of many kinds with unknown noise, 0 to 256 observations",
        noise_floor=0.0,
        asked_alone=True,
        network={"separates_noise": True, "width": 128, "blocks": 6},
        units=ContextUnits(),
    ),
    "mixture": PriorSpec(
        "SE and Matern-5/2 GPs and sawtooth waves, noise 0.05",
        noise_floor=OBSERVATION_NOISE,
        knows_expectations=False,
    ),
}


def make_prior(name: str, device: torch.device) -> Prior:
    """The prior of that name, drawing on `device`."""
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
