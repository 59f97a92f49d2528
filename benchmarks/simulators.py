"""Public functions without noise that stand for simulators, with their domains: the test functions of computer experiments.

Formulas and domains are those of Surjanovic and Bingham's Virtual Library of Simulation Experiments
(https://www.sfu.ca/~ssurjano). Friedman's has five inputs, and Rosenbrock's domain is the smaller one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Simulator:
    """A function of inputs [N, D] to values [N] on the box from `low` to `high`."""

    name: str
    function: Callable[[np.ndarray], np.ndarray]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def dim(self) -> int:
        return len(self.low)

    def draw(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Uniform inputs and the function's values there."""
        x = rng.uniform(self.low, self.high, size=(count, self.dim))
        return x, self.function(x)


def gramacy_lee(x: np.ndarray) -> np.ndarray:
    """Gramacy and Lee (2012)."""
    return np.asarray(np.sin(10 * np.pi * x[:, 0]) / (2 * x[:, 0]) + (x[:, 0] - 1) ** 4)


def branin(x: np.ndarray) -> np.ndarray:
    """Dixon and Szegö (1978)."""
    bend = x[:, 1] - 5.1 / (4 * np.pi**2) * x[:, 0] ** 2 + 5 / np.pi * x[:, 0] - 6
    return np.asarray(bend**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x[:, 0]) + 10)


def currin(x: np.ndarray) -> np.ndarray:
    """Currin et al. (1988), the exponential function."""
    one = x[:, 0]
    fraction = (2300 * one**3 + 1900 * one**2 + 2092 * one + 60) / (100 * one**3 + 500 * one**2 + 4 * one + 20)
    return np.asarray((1 - np.exp(-0.5 / np.maximum(x[:, 1], 1e-12))) * fraction)


def ishigami(x: np.ndarray) -> np.ndarray:
    """Ishigami and Homma (1990), a = 7 and b = 0.1."""
    return np.asarray(np.sin(x[:, 0]) * (1 + 0.1 * x[:, 2] ** 4) + 7 * np.sin(x[:, 1]) ** 2)


_HARTMANN_WEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_HARTMANN_3 = (
    np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]]),
    1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]),
)
_HARTMANN_6 = (
    np.array(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    ),
    1e-4
    * np.array(
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ]
    ),
)


def hartmann(x: np.ndarray) -> np.ndarray:
    """Dixon and Szegö (1978), of three or six inputs."""
    steepness, centres = _HARTMANN_3 if x.shape[1] == 3 else _HARTMANN_6
    away = (steepness * (x[:, None] - centres) ** 2).sum(-1)
    return np.asarray(-np.exp(-away) @ _HARTMANN_WEIGHTS)


def friedman(x: np.ndarray) -> np.ndarray:
    """Friedman (1991)."""
    bent = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    return np.asarray(bent + 10 * x[:, 3] + 5 * x[:, 4])


def otl_circuit(x: np.ndarray) -> np.ndarray:
    """The midpoint voltage of a push-pull circuit without output transformer (Ben-Ari and Steinberg, 2007)."""
    b1, b2, f, c1, c2, gain = x.T
    amplified = gain * (c2 + 9)
    base = 12 * b2 / (b1 + b2) + 0.74
    return np.asarray((base * amplified + 11.35 * f + 0.74 * f * amplified / c1) / (amplified + f))


def piston(x: np.ndarray) -> np.ndarray:
    """The seconds of a cycle of a piston (Kenett and Zacks, 1998)."""
    mass, area, volume, spring, pressure, ambient, filling = x.T
    gas = pressure * volume / filling * ambient
    force = pressure * area + 19.62 * mass - spring * volume / area
    reached = area / (2 * spring) * (np.sqrt(force**2 + 4 * spring * gas) - force)
    return np.asarray(2 * np.pi * np.sqrt(mass / (spring + area**2 * gas / reached**2)))


def borehole(x: np.ndarray) -> np.ndarray:
    """The flow of water through a borehole (Harper and Gupta, 1983)."""
    well, reach, upper, upper_head, lower, lower_head, length, conductivity = x.T
    log_ratio = np.log(reach / well)
    resistance = 1 + 2 * length * upper / (log_ratio * well**2 * conductivity) + upper / lower
    return np.asarray(2 * np.pi * upper * (upper_head - lower_head) / (log_ratio * resistance))


def robot_arm(x: np.ndarray) -> np.ndarray:
    """The distance of the end of an arm of four segments (An and Owen, 2001)."""
    angles, lengths = x[:, :4].cumsum(1), x[:, 4:]
    return np.asarray(np.hypot((lengths * np.cos(angles)).sum(1), (lengths * np.sin(angles)).sum(1)))


def wing_weight(x: np.ndarray) -> np.ndarray:
    """The weight of a light aircraft's wing (Forrester et al., 2008)."""
    area, fuel, aspect, sweep, pressure, taper, thickness, load, gross, paint = x.T
    slope = np.cos(np.deg2rad(sweep))
    weight = 0.036 * area**0.758 * fuel**0.0035 * (aspect / slope**2) ** 0.6 * pressure**0.006 * taper**0.04
    return np.asarray(weight * (100 * thickness / slope) ** -0.3 * (load * gross) ** 0.49 + area * paint)


def ackley(x: np.ndarray) -> np.ndarray:
    """Ackley (1987)."""
    far = -20 * np.exp(-0.2 * np.sqrt((x**2).mean(1)))
    return np.asarray(far - np.exp(np.cos(2 * np.pi * x).mean(1)) + 20 + np.e)


def rosenbrock(x: np.ndarray) -> np.ndarray:
    """Rosenbrock (1960)."""
    return np.asarray((100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (x[:, :-1] - 1) ** 2).sum(1))


def _on_cube(name: str, function: Callable[[np.ndarray], np.ndarray], dim: int, low: float, high: float) -> Simulator:
    return Simulator(name, function, (low,) * dim, (high,) * dim)


SIMULATORS = (
    _on_cube("Gramacy-Lee", gramacy_lee, 1, 0.5, 2.5),
    Simulator("Branin", branin, (-5, 0), (10, 15)),
    _on_cube("Currin", currin, 2, 0, 1),
    _on_cube("Hartmann 3", hartmann, 3, 0, 1),
    _on_cube("Ishigami", ishigami, 3, -np.pi, np.pi),
    _on_cube("Friedman", friedman, 5, 0, 1),
    _on_cube("Hartmann 6", hartmann, 6, 0, 1),
    Simulator("OTL circuit", otl_circuit, (50, 25, 0.5, 1.2, 0.25, 50), (150, 70, 3, 2.5, 1.2, 300)),
    Simulator("piston", piston, (30, 0.005, 0.002, 1000, 90000, 290, 340), (60, 0.02, 0.01, 5000, 110000, 296, 360)),
    Simulator(
        "borehole",
        borehole,
        (0.05, 100, 63070, 990, 63.1, 700, 1120, 9855),
        (0.15, 50000, 115600, 1110, 116, 820, 1680, 12045),
    ),
    Simulator("robot arm", robot_arm, (0.0,) * 8, (2 * np.pi,) * 4 + (1.0,) * 4),
    Simulator(
        "wing weight",
        wing_weight,
        (150, 220, 6, -10, 16, 0.5, 0.08, 2.5, 1700, 0.025),
        (200, 300, 10, 10, 45, 1, 0.18, 6, 2500, 0.08),
    ),
    _on_cube("Ackley 10", ackley, 10, -32.768, 32.768),
    _on_cube("Rosenbrock 10", rosenbrock, 10, -2.048, 2.048),
)
