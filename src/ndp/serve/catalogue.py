"""The models of the page: those that ship and are for functions of one input, each with how it likes to be shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ndp.models import exact_process, load, marginalised_gp, prior_of, shipped
from ndp.named_priors import PRIORS
from ndp.priors.step import Step
from ndp.process import NDP
from ndp.typing import Process

_NDP = "neural diffusion process"
Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Show:
    """What the page says of a prior, the values it shows, and points to begin with."""

    title: str
    about: str
    low: float = -3.0
    high: float = 3.0
    calls: int = 7  # of the solver: enough to look right, few enough to be live
    example: Points = ()


_SMOOTH: Points = ((-1.6, 0.9), (-0.9, -0.8), (0.1, 0.4), (1.2, 1.5))
_SHOWN = {
    "se": Show("Squared exponential", "Very smooth, seen with a little noise", example=_SMOOTH),
    "matern52": Show("Matérn-5/2", "Smooth functions with some rougher detail", example=_SMOOTH),
    "matern32-marginal": Show(
        "Matérn-3/2, any length scale",
        "The length scale is unknown, and inferred from your points",
        example=((-0.8, 0.5), (-0.45, -0.4), (-0.1, 0.8), (0.5, 0.2)),
    ),
    "universal": Show("Universal", "Trained on many kinds of functions, in the units of your points", example=_SMOOTH),
    "step": Show(
        "Step",
        "A jump at an unknown place, which no Gaussian process can be",
        low=-0.6,
        high=1.6,
        calls=14,
        example=((-0.6, 0.0), (0.5, 1.0)),
    ),
}


@dataclass(frozen=True)
class Model:
    """A model, loaded, and how it is shown."""

    name: str
    process: NDP
    show: Show
    low: float
    high: float
    exact: Process | None
    exact_title: str


class Catalogue:
    """Models by name. There are no others: a name is looked up here, and never a path."""

    def __init__(self) -> None:
        self._models = {model.name: model for model in _listed()}

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models.values())

    def __getitem__(self, name: str) -> Model:
        if name not in self._models:
            raise ValueError(f"there is no such model; the models are: {', '.join(self._models)}")
        return self._models[name]


def _listed() -> Iterator[Model]:
    order = [*_SHOWN]
    fitting = [model for model in shipped() if 1 in model.input_dims and model.architecture == _NDP]
    for found in sorted(fitting, key=lambda model: order.index(model.name) if model.name in order else len(order)):
        process = load(found.name)
        if not isinstance(process, NDP) or process.num_outputs != 1:
            continue
        prior = prior_of(process)
        spec = PRIORS.get(prior)
        exact, exact_title = _exact(prior)
        yield Model(
            name=found.name,
            process=process,
            show=_SHOWN.get(found.name, Show(found.name, str(found.about.get("trained_on", "")))),
            low=spec.low if spec else -1.0,
            high=spec.high if spec else 1.0,
            exact=exact,
            exact_title=exact_title,
        )


def _exact(prior: str) -> tuple[Process | None, str]:
    """The exact process that a prior is, where there is one, and what to call it."""
    if prior == "step":
        return Step(), "Exact posterior of steps"
    if prior == "matern32-marginal":
        mixture: Any = marginalised_gp(nodes=24)[0]
        return mixture, "Exact GP, length scale integrated out"
    gp = exact_process(prior)
    return gp, "Exact Gaussian process" if gp else ""
