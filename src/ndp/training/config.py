"""A recipe: everything that a trained model depends on, as plain values. A run folder stores it and resumes from it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, get_type_hints

from ndp.core.messages import did_you_mean, short
from ndp.diffusion.defaults import LEVEL_LAW
from ndp.networks.registry import Kind, current_settings
from ndp.priors.registry import IMAGE_SETS, PRIORS, UNIVERSAL
from ndp.training.presets import JOINT_MODEL, JOINT_PAPER_MODEL, MODELS, NDP_MODEL, PAPER_MODEL, with_presets

CHOICES = {"prediction": ("eps", "v", "y0"), "error": ("l1", "l2"), "optimiser": ("muon", "adamw")}
# The least and the most of a number.
_RANGES: dict[str, tuple[float, float]] = {
    "steps": (1, 10**9),
    "batch": (1, 2**20),
    "schedule": (0, 10**6),
    "warmup": (0, 10**9),
    "seed": (0, 2**32 - 1),
    "noisy_share": (0, 1),
    "joint_share": (0, 1),
    "ema": (0, 1),
    "most_context": (0, 10**5),
    "targets": (0, 10**5),
}
MOST_INPUTS = 1000
# Names of settings in the first release.
_RENAMED = {"expected": "posterior_mean", "trust_only": "gate_only", "together": "joint_share"}


@dataclass(frozen=True)
class Recipe:
    """What to learn, with which network, and how.

    Parameters
    ----------
    model
        `ndp`, `joint` (inputs and values together), or a neural process to compare with.
    prior, dims
        The name of a prior, and the numbers of input dimensions to train at.
    data, data_dir
        A table of functions in place of a prior; the pictures of a prior of images.
    most_context, targets
        The most context points and targets of a task (0: the prior's own numbers).
    start
        A model, by name or folder, whose weights training starts from (empty: random weights).
    gate_only
        Train only the gate of the GP experts; the rest of the network keeps the weights of `start`.
    network
        The kind of network and the arguments of its class, or those of the neural process's constructor.
    prediction, error
        What the network predicts (`v`, `eps`, `y0`), and how errors are measured (`l2`, `l1`).
    posterior_mean
        Regress on the posterior mean in place of drawn functions, where the prior has it.
    schedule
        0 draws continuous noise levels; T draws from the paper's cosine schedule of T steps.
    level_law
        Mean and standard deviation of log(sigma / alpha), for most of the continuous levels.
    use_context
        Whether tasks have a context; the paper's do not.
    noisy_share
        Share of the tasks whose context is observed with noise.
    joint_share
        Share of a joint model's tasks in which inputs and values are both noised.
    weight_decay
        Without it, matrices that Muon moves grow until training diverges.
    """

    model: str = NDP_MODEL
    prior: str = ""
    data: str = ""
    data_dir: str = ""
    dims: tuple[int, ...] = (1,)
    most_context: int = 0
    targets: int = 0
    start: str = ""
    gate_only: bool = False
    network: dict[str, Any] = field(default_factory=dict)
    prediction: str = "v"
    error: str = "l2"
    posterior_mean: bool = False
    schedule: int = 0
    level_law: tuple[float, float] = LEVEL_LAW
    use_context: bool = True
    noisy_share: float = 0.1
    joint_share: float = 0.2
    steps: int = 20_000
    batch: int = 256
    optimiser: str = "muon"
    learning_rate: float = 8e-4
    warmup: int = 500
    weight_decay: float = 0.4
    clip: float = 1.0
    ema: float = 0.999
    seed: int = 0

    def __post_init__(self) -> None:
        for setting in fields(self):
            object.__setattr__(self, setting.name, _typed(setting.name, getattr(self, setting.name)))
        _check(self)

    @property
    def of_images(self) -> bool:
        return self.prior in IMAGE_SETS

    @property
    def joint(self) -> bool:
        """Whether inputs are learned together with values."""
        return self.model == JOINT_MODEL

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Recipe":
        """The recipe with these settings, with the presets of its prior and model. Names of the first release are read too."""
        settings = {_RENAMED.get(name, name): value for name, value in values.items()}
        known = sorted(f.name for f in fields(Recipe))
        unknown = sorted(set(settings) - set(known))
        if unknown:
            close = did_you_mean(unknown[0], known)
            raise ValueError(f"a recipe has no setting {short(unknown[0])}; {close}it has: {', '.join(known)}")
        settings = {name: _typed(name, value) for name, value in settings.items()}
        if "network" in settings:
            settings["network"] = current_settings(settings["network"])
        return Recipe(**with_presets(settings))


_WORDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple[int, ...]: "a list of whole numbers",
    tuple[float, float]: "a list of two numbers",
    dict[str, Any]: "a table of settings",
}


def _typed(name: str, value: Any) -> Any:
    """The value of a setting as its type, from what TOML or JSON holds."""
    kind = get_type_hints(Recipe)[name]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == tuple[float, float] and isinstance(value, list | tuple):
        return _level_law(value)
    if kind == tuple[int, ...] and isinstance(value, list | tuple) and all(type(one) is int for one in value):
        return tuple(value)
    if kind is float and number:
        return _as_float(name, value)
    if (kind in (str, bool, int) and type(value) is kind) or (kind == dict[str, Any] and isinstance(value, dict)):
        return value
    if kind is str and isinstance(value, str):  # such as a StrEnum
        return str(value)
    raise ValueError(f"{name} must be {_WORDS[kind]}, not {short(value)}")


def _as_float(name: str, value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number that a computer can hold, not {short(value)}") from None


def _check(recipe: Recipe) -> None:
    """Raise a ValueError for the first mistake in a recipe."""
    for rule in (_data, _numbers, _choices, _model, _joint, _posterior_mean, _experts):
        rule(recipe)


def _data(recipe: Recipe) -> None:
    if bool(recipe.prior) == bool(recipe.data):
        raise ValueError("a recipe needs either a prior or a table of functions (data), not both and not neither")
    if recipe.prior and recipe.prior not in (*PRIORS, *IMAGE_SETS):
        raise ValueError(
            f"there is no prior named {short(recipe.prior)}; there are: {', '.join((*PRIORS, *IMAGE_SETS))}"
        )
    if recipe.data_dir and not recipe.of_images:
        raise ValueError(f"a folder of pictures (data_dir) goes with the priors {', '.join(IMAGE_SETS)}")


def _numbers(recipe: Recipe) -> None:
    for name, (least, most) in _RANGES.items():
        number = getattr(recipe, name)
        if not least <= number <= most:
            raise ValueError(f"{name} must be from {least} to {most:,}, not {short(number)}")
    for name in ("most_context", "targets"):
        if getattr(recipe, name) and (recipe.data or recipe.of_images):
            raise ValueError(
                f"{name} is a number of points of a prior's tasks, or 0 for its own; not for a table or images"
            )
    if not recipe.dims or not all(1 <= dim <= MOST_INPUTS for dim in recipe.dims):
        raise ValueError(f"dims must be whole numbers from 1 to {MOST_INPUTS:,}, not {short(recipe.dims)}")
    if not 0 < recipe.learning_rate < math.inf:
        raise ValueError(f"learning_rate must be positive and finite, not {recipe.learning_rate}")
    if not 0 <= recipe.weight_decay < math.inf:
        raise ValueError(f"weight_decay must be finite and not negative, not {recipe.weight_decay}")
    if not recipe.clip > 0:
        raise ValueError(f"clip must be positive (inf: gradients are not clipped), not {recipe.clip}")


def _level_law(numbers: Sequence[Any]) -> tuple[float, float]:
    law = [_as_float("level_law", one) for one in numbers if type(one) in (int, float)]
    if len(law) != 2 or len(numbers) != 2 or not all(map(math.isfinite, law)) or not law[1] > 0:
        raise ValueError(
            f"level_law is the mean and the standard deviation (above 0) of log(sigma / alpha), not {short(list(numbers))}"
        )
    return law[0], law[1]


def _choices(recipe: Recipe) -> None:
    for name, choices in CHOICES.items():
        if getattr(recipe, name) not in choices:
            raise ValueError(f"{name} is one of {', '.join(choices)}, not {short(getattr(recipe, name))}")


def _model(recipe: Recipe) -> None:
    if recipe.model not in MODELS:
        known = ", ".join((PAPER_MODEL, JOINT_PAPER_MODEL, *MODELS))
        raise ValueError(f"there is no model named {short(recipe.model)}; there are: {known}")
    if recipe.prior == UNIVERSAL and (recipe.model != NDP_MODEL or not recipe.use_context):
        raise ValueError("the universal prior is for an NDP that sees a context")
    if recipe.model in list(Kind) and (recipe.data or len(recipe.dims) != 1 or recipe.of_images):
        raise ValueError(f"{recipe.model} is trained on a prior, at one number of input dimensions, and not on images")


def _joint(recipe: Recipe) -> None:
    if recipe.model != JOINT_MODEL:
        return
    if recipe.data or recipe.of_images:
        raise ValueError("a joint model is trained on a prior, not on a table of functions or on images")
    fitting = [name for name, spec in PRIORS.items() if (spec.low, spec.high) == (-1.0, 1.0) and spec.units is None]
    if recipe.prior not in fitting:
        raise ValueError(
            f"a joint model is for functions on [-1, 1]; {recipe.prior} is not one of them: {', '.join(fitting)}"
        )


def _posterior_mean(recipe: Recipe) -> None:
    if not recipe.posterior_mean:
        return
    if recipe.error != "l2" or recipe.model != NDP_MODEL:
        raise ValueError("posterior-mean regression needs an NDP that learns by squared errors (error = l2)")
    known = [name for name, spec in PRIORS.items() if spec.has_posterior_mean]
    if recipe.prior not in known:
        raise ValueError(f"posterior-mean regression needs a prior whose posterior mean is known: {', '.join(known)}")


def _experts(recipe: Recipe) -> None:
    if recipe.network.get("experts") and recipe.prediction != "v":
        raise ValueError(f"a network with GP experts predicts v, not {recipe.prediction}")
    if recipe.gate_only and (recipe.prior != UNIVERSAL or not recipe.start or not recipe.network.get("experts")):
        raise ValueError(
            "gate_only trains the gate of a trained network: it needs the prior universal and a model to start from"
        )
