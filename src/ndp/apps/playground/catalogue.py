"""The models of the page: those that ship, by the tab that they are for, each with how it likes to be shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ndp.core.typing import Process
from ndp.models.registry import exact_process, load, marginalised_gp, prior_of, shipped
from ndp.priors.image import IMAGE_SETS
from ndp.priors.registry import PRIORS
from ndp.priors.step import Step
from ndp.processes.joint import JointNDP
from ndp.processes.ndp import NDP

_NDP, _JOINT = "neural diffusion process", "joint neural diffusion process"
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
_MANY: Points = (
    *((-1.9, -0.9), (-1.6, -0.1), (-1.3, 0.8), (-1.0, 1.2), (-0.7, 1.0), (-0.4, 0.2), (-0.1, -0.7), (0.2, -1.1)),
    *((0.5, -0.8), (0.8, 0.0), (1.1, 0.9)),
)
_SHOWN = {
    "se": Show("Squared exponential", "Very smooth, seen with a little noise", example=_SMOOTH),
    "matern52": Show("Matérn-5/2", "Smooth functions with some rougher detail", example=_SMOOTH),
    "matern32-marginal": Show(
        "Matérn-3/2, any length scale",
        "The length scale is unknown, and inferred from your points",
        example=((-0.8, 0.5), (-0.45, -0.4), (-0.1, 0.8), (0.5, 0.2)),
    ),
    "universal": Show(
        "Universal",
        "Any kind of function: its units, smoothness and noise are inferred, best from ten points or more",
        example=_MANY,
    ),
    "step": Show(
        "Step",
        "A jump at an unknown place, which no Gaussian process can be",
        low=-0.6,
        high=1.6,
        calls=14,
        example=((-0.6, 0.0), (0.5, 1.0)),
    ),
    "sawtooth": Show("Sawtooth", "Waves of unknown width and phase, seen with a little noise"),
    "mixture": Show("A mixture", "Squared exponential, Matérn-5/2 or sawtooth: your points say which"),
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


@dataclass(frozen=True)
class ImageModel:
    """A model of square pictures, loaded, and how it is shown; `example` is the seed of a picture to begin with."""

    name: str
    process: NDP
    title: str
    about: str
    size: int
    channels: int
    calls: int
    example: int


_IMAGES = {
    "mnist": ("Handwritten digits", "28 x 28 grey pixels, learned from MNIST", 11),
    "celeba32": ("Faces", "32 x 32 colour pixels, learned from CelebA", 10),
}
_IMAGE_CALLS = 8  # more change little that one can see


class Catalogue:
    """Models of functions of one input by name, those of `images`, and `joint` ones. There are no others: a name is looked
    up here, and never a path."""

    def __init__(self) -> None:
        self._models = {model.name: model for model in _listed()}
        self.images = {model.name: model for model in _images()}
        self.joint = dict(_joint())

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


def _images() -> Iterator[ImageModel]:
    order = [*IMAGE_SETS]
    found = [model for model in shipped() if model.name in IMAGE_SETS and model.architecture == _NDP]
    for name in sorted((model.name for model in found), key=order.index):
        process, pictures = load(name), IMAGE_SETS[name]
        if isinstance(process, NDP):
            title, about, example = _IMAGES.get(name, (name, pictures.title, 0))
            yield ImageModel(name, process, title, about, pictures.size, pictures.channels, _IMAGE_CALLS, example)


def _joint() -> Iterator[tuple[str, JointNDP]]:
    for found in shipped():
        if 1 in found.input_dims and found.architecture == _JOINT:
            process = load(found.name)
            if isinstance(process, JointNDP):
                yield found.name, process


def _exact(prior: str) -> tuple[Process | None, str]:
    """The exact process that a prior is, where there is one, and what to call it."""
    if prior == "step":
        return Step(), "Exact posterior of steps"
    if prior == "matern32-marginal":
        mixture: Any = marginalised_gp(nodes=24)[0]
        return mixture, "Exact GP, length scale integrated out"
    gp = exact_process(prior)
    return gp, "Exact Gaussian process" if gp else ""
