"""The models that `minimise` uses when none is given."""

from ndp.core.typing import Process
from ndp.gp.named import marginalised_optimisation_gp
from ndp.models.registry import load_ndp, shipped
from ndp.processes.ndp import NDP

RANDOM = "random"  # in place of a model: random search
OPTIMISATION_MODEL = "bo-marginal"
JOINT_MODEL = "joint"


def default_model(dim: int) -> Process:
    """A model for the optimisation of functions of `dim` inputs on [-1, 1]^D.

    For 3 to 6 inputs it is the shipped network `bo-marginal`. Its prior is a Matern-5/2 process with one unknown lengthscale
    for each input. For other numbers it is the exact Gaussian process with one unknown lengthscale for all inputs.

    `ndp.load("universal")` is the alternative. It took ten times as long. Its median regret over 6 seeds was higher in seven of
    nine functions: 0.0004, 0.18 and 1.0 against 0.00002, 0.01 and 0.0003 on Forrester, Gramacy-Lee and Rastrigin (D = 1,
    after 20 evaluations), 0.33 and 0.01 against 0.06 and 0.0003 on Branin and the six-hump camel (D = 2, 30 evaluations).
    Prefer it for noisy functions: it infers the noise, where the exact process expects a hundredth of the spread of the values.
    """
    return load_ndp(OPTIMISATION_MODEL) if dim in _input_dims(OPTIMISATION_MODEL) else marginalised_optimisation_gp()


def default_joint_model(dim: int) -> NDP:
    """The shipped model of inputs and values, for functions of `dim` inputs."""
    dims = _input_dims(JOINT_MODEL)
    if dim not in dims:
        known = ", ".join(map(str, dims))
        raise ValueError(f"the joint model that ships is for functions of {known} inputs, not {dim}; pass a model")
    return load_ndp(JOINT_MODEL)


def _input_dims(name: str) -> tuple[int, ...]:
    return next(model.input_dims for model in shipped() if model.name == name)
