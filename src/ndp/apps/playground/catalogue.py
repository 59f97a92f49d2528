"""The models of the page: those that ship, listed by tab, and how the page shows each of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from ndp.core.typing import Process
from ndp.gp.named import exact_process, marginalised_gp
from ndp.models.registry import load, prior_of, shipped
from ndp.priors.registry import IMAGE_SETS, PRIORS
from ndp.priors.step import Step
from ndp.processes.ndp import NDP

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Show:
    """How the page shows a model: its words, the range of its values, solver calls, and example points."""

    title: str
    about: str
    low: float = -3.0
    high: float = 3.0
    calls: int = 7  # enough to look right, few enough to be live
    example: Points = ()


_SMOOTH: Points = ((-1.6, 0.9), (-0.9, -0.8), (0.1, 0.4), (1.2, 1.5))
_MANY: Points = (
    *((-1.9, -0.9), (-1.6, -0.1), (-1.3, 0.8), (-1.0, 1.2), (-0.7, 1.0), (-0.4, 0.2), (-0.1, -0.7), (0.2, -1.1)),
    *((0.5, -0.8), (0.8, 0.0), (1.1, 0.9)),
)
_SHOWN = {
    "se": Show("Squared exponential", "Very smooth functions, with a little noise", example=_SMOOTH),
    "matern52": Show("Matérn-5/2", "Smooth functions with some rougher detail, and a little noise", example=_SMOOTH),
    "matern32-marginal": Show(
        "Matérn-3/2, any length scale",
        "The length scale is unknown, and inferred from your points",
        example=((-0.8, 0.5), (-0.45, -0.4), (-0.1, 0.8), (0.5, 0.2)),
    ),
    "universal": Show(
        "Universal",
        "Any kind of function: units, smoothness and noise are inferred, best from ten points or more",
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
    "sawtooth": Show("Sawtooth", "Waves of unknown width and phase, with a little noise"),
    "mixture": Show("A mixture", "Squared exponential, Matérn-5/2 or sawtooth: your points decide which"),
}


@dataclass(frozen=True)
class Model:
    """A loaded model of functions of one input, and how the page shows it."""

    name: str
    process: NDP
    show: Show
    low: float
    high: float
    exact: Process | None
    exact_title: str


@dataclass(frozen=True)
class ImageModel:
    """A loaded model of square pictures, and how the page shows it; `example` is the seed of the first picture."""

    name: str
    process: NDP
    title: str
    about: str
    size: int
    channels: int
    calls: int
    example: int


_IMAGES = {"mnist": ("Handwritten digits", "28 x 28 grey pixels, learned from MNIST", 11)}
_IMAGE_CALLS = 8  # more calls make no visible difference


class Catalogue:
    """The shipped models of functions of one input, by name, with those of `images` and the `joint` models.

    A request names a model of the catalogue. The name is never used as a path.
    """

    def __init__(self) -> None:
        loaded = list(_loaded())
        self._models = {model.name: model for model in _functions(loaded)}
        self.images = {model.name: model for model in _images(loaded)}
        self.joint = {name: process for name, process in loaded if process.of_points and _takes_one_input(process)}

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models.values())

    def __getitem__(self, name: str) -> Model:
        if name not in self._models:
            raise ValueError(f"there is no such model; the models are: {', '.join(self._models)}")
        return self._models[name]


Loaded = list[tuple[str, NDP]]


def _loaded() -> Iterator[tuple[str, NDP]]:
    """The shipped NDPs that a tab can show."""
    for found in shipped():
        if 1 in found.input_dims or found.name in IMAGE_SETS:
            process = load(found.name)
            if isinstance(process, NDP):
                yield found.name, process


def _takes_one_input(process: NDP) -> bool:
    return process.num_outputs == 1 and 1 in (process.input_dims or ())


def _functions(loaded: Loaded) -> Iterator[Model]:
    order = [*_SHOWN]
    fitting = [(name, process) for name, process in loaded if _takes_one_input(process) and not process.of_points]
    for name, process in sorted(fitting, key=lambda one: order.index(one[0]) if one[0] in order else len(order)):
        prior = prior_of(process)
        spec = PRIORS.get(prior)
        exact, exact_title = _exact(prior)
        yield Model(
            name=name,
            process=process,
            show=_SHOWN.get(name, Show(name, str(process.about.get("trained_on", "")))),
            low=spec.low if spec else -1.0,
            high=spec.high if spec else 1.0,
            exact=exact,
            exact_title=exact_title,
        )


def _images(loaded: Loaded) -> Iterator[ImageModel]:
    processes = dict(loaded)
    for name, pictures in IMAGE_SETS.items():
        if name in processes:
            title, about, example = _IMAGES.get(name, (name, pictures.title, 0))
            yield ImageModel(
                name, processes[name], title, about, pictures.size, pictures.channels, _IMAGE_CALLS, example
            )


def _exact(prior: str) -> tuple[Process | None, str]:
    """The exact process of a prior, if it is known, and its title."""
    if prior == "step":
        return Step(), "Exact posterior of steps"
    if prior == "matern32-marginal":
        return marginalised_gp(nodes=24)[0], "Exact GP, length scale integrated out"
    gp = exact_process(prior)
    return gp, "Exact Gaussian process" if gp else ""
