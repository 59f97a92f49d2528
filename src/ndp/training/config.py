"""A recipe is everything that a trained model depends on, as plain values: it is what a run folder stores and resumes from."""

from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from ndp.diffusion.levels import cosine, ratio
from ndp.diffusion.objective import LARGEST_RATIO, LEVEL_LAW, SMALLEST_RATIO, Error
from ndp.diffusion.prediction import Prediction
from ndp.networks.registry import BIDIMENSIONAL
from ndp.priors.image import IMAGE_SETS
from ndp.priors.registry import PRIORS, UNIVERSAL
from ndp.processes.architectures import Kind


class Optimiser(StrEnum):
    """What moves the weights."""

    MUON = "muon"
    ADAMW = "adamw"


NDP_MODEL = "ndp"
JOINT_MODEL = "joint"
MODELS = (NDP_MODEL, JOINT_MODEL, *Kind)
PAPER_MODEL = "ndp-paper"
# The paper's NDP, in every choice that it states; its posteriors are RePaint's. As a model it is named PAPER_MODEL.
PAPER_SETTINGS: dict[str, Any] = {
    "network": {
        "attention": "per_dimension",
        "inputs": "raw",
        "context": "full",
        "counts_neighbours": False,
        "counts_dims": False,
        "blocks": 4,
    },
    "prediction": "eps",
    "error": "l1",
    "schedule": 500,
    "use_context": False,
    "optimiser": "adamw",
    "learning_rate": 1e-3,
    "weight_decay": 0.0,
}
# The paper's network for images: one token a point, no attention over dimensions.
PAPER_IMAGE_NETWORK: dict[str, Any] = PAPER_SETTINGS["network"] | {
    "kind": BIDIMENSIONAL,
    "ordered_dims": 2,
    "blocks": 5,
    "attention": "summed",
}
# Pixels move together, so that much is decided while there is a lot of noise. Colours are known exactly or not at all.
IMAGE_SETTINGS: dict[str, Any] = {
    "dims": (2,),
    "level_law": (-0.6, 1.4),
    "noisy_share": 0.0,
    "batch": 128,
    "warmup": 1000,
}
# The same for inputs and outputs together: its own network, one level for all, and the paper's 2,000 of them.
JOINT_PAPER_MODEL = "joint-paper"
JOINT_PAPER_SETTINGS: dict[str, Any] = PAPER_SETTINGS | {
    "network": {
        "attention": "per_dimension",
        "rotary": False,
        "counts_neighbours": False,
        "scouts": 0,
    },
    "schedule": 2000,
    "together": 1.0,
}
# What the package of the neural processes trains them with, where a user does not say otherwise.
NEURAL_PROCESS_SETTINGS: dict[str, Any] = {
    "optimiser": "adamw",
    "weight_decay": 0.0,
    "learning_rate": 3e-4,
    "batch": 32,
    "steps": 30_000,
}


@dataclass(frozen=True)
class Recipe:
    """What to learn, with which network, and how."""

    # An NDP, one of inputs and outputs together (joint), or one of the neural processes that it is compared with.
    model: str = NDP_MODEL
    # What: the name of a prior and the input dimensions to train it at (and where the pictures of a set of images are), or
    # a table of functions.
    prior: str = ""
    data: str = ""
    data_dir: str = ""
    dims: tuple[int, ...] = (1,)
    # The most points of context, and the targets, that a task of a prior has; 0 for the prior's own numbers.
    most_context: int = 0
    targets: int = 0
    # The model, a name or a folder, whose weights training starts from; none: random ones.
    start: str = ""
    # Learn only whom to trust: the network that training starts from stays as it is, and is advised (`networks.advice`).
    trust_only: bool = False
    # The network: its kind and the arguments of its class, or those of the neural process's constructor.
    network: dict[str, Any] = field(default_factory=dict)
    # The objective. `schedule` 0 draws continuous levels, most of them by `level_law`, mean and standard deviation of
    # log(sigma / alpha); a number T draws from the paper's cosine schedule of T steps.
    prediction: Prediction = Prediction.V
    error: Error = Error.L2
    expected: bool = False  # learn expected functions in place of drawn ones, where the prior knows them
    schedule: int = 0
    level_law: tuple[float, float] = LEVEL_LAW
    use_context: bool = True
    noisy_share: float = 0.1
    together: float = 0.2  # share of a joint model's tasks in which inputs and outputs are both noised
    # The optimiser.
    steps: int = 20_000
    batch: int = 256
    optimiser: Optimiser = Optimiser.MUON
    learning_rate: float = 8e-4
    warmup: int = 500
    weight_decay: float = 0.4  # without it matrices that Muon moves grow until training diverges
    clip: float = 1.0
    ema: float = 0.999
    seed: int = 0

    def __post_init__(self) -> None:
        if bool(self.prior) == bool(self.data):
            raise ValueError("a recipe needs either a prior or a table of functions (data), not both and not neither")
        if self.prior and self.prior not in (*PRIORS, *IMAGE_SETS):
            raise ValueError(f"there is no prior named {self.prior!r}; there are: {', '.join((*PRIORS, *IMAGE_SETS))}")
        if self.data_dir and not self.of_images:
            raise ValueError(f"a folder of pictures (data_dir) goes with the priors {', '.join(IMAGE_SETS)}")
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("most_context", "targets"):
            if getattr(self, name) < 0 or (getattr(self, name) and (self.data or self.of_images)):
                raise ValueError(
                    f"{name} is a number of points of a prior's tasks, or 0 for its own; not for a table or images"
                )
        if self.model not in MODELS:
            raise ValueError(
                f"there is no model named {self.model!r}; there are: {', '.join((PAPER_MODEL, JOINT_PAPER_MODEL, *MODELS))}"
            )
        if self.prior == UNIVERSAL and (self.model != NDP_MODEL or not self.use_context):
            raise ValueError("the universal prior is for an NDP that sees a context")
        if self.model == JOINT_MODEL:
            self._check_joint()
        elif self.model != NDP_MODEL and (self.data or len(self.dims) != 1 or self.of_images):
            raise ValueError(
                f"{self.model} is trained on a prior, at one number of input dimensions, and not on images"
            )
        if self.expected:
            self._check_expected()
        if self.network.get("advised") and self.prediction is not Prediction.V:
            raise ValueError(f"an advised network predicts v, not {self.prediction}")
        if self.trust_only and (self.prior != UNIVERSAL or not self.start or not self.network.get("advised")):
            raise ValueError(
                "whom to trust is learned beside a trained network: it needs the prior universal and a model to start from"
            )
        if not self.dims or min(self.dims) < 1:
            raise ValueError(f"dims must be whole numbers of at least 1, not {self.dims}")

    @property
    def of_images(self) -> bool:
        return self.prior in IMAGE_SETS

    def _check_expected(self) -> None:
        if self.error is not Error.L2 or self.model != NDP_MODEL:
            raise ValueError("expected functions are for an NDP that learns by squared errors (error = l2)")
        if self.prior not in PRIORS or not PRIORS[self.prior].knows_expectations:
            knowing = ", ".join(name for name, spec in PRIORS.items() if spec.knows_expectations)
            raise ValueError(f"expected functions can be learned of priors that know them: {knowing}")

    def _check_joint(self) -> None:
        if self.data or self.of_images:
            raise ValueError("a joint model is trained on a prior, not on a table of functions or on images")
        spec = PRIORS[self.prior]
        if (spec.low, spec.high) != (-1.0, 1.0) or spec.units is not None:
            fitting = ", ".join(n for n, s in PRIORS.items() if (s.low, s.high) == (-1.0, 1.0) and s.units is None)
            raise ValueError(f"a joint model is for functions on [-1, 1]; {self.prior} is not of them: {fitting}")
        if not 0 <= self.together <= 1:
            raise ValueError(f"together is a share, from 0 to 1, not {self.together}")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Recipe":
        known = {f.name for f in fields(Recipe)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ValueError(f"a recipe has no setting {unknown[0]!r}; it has: {', '.join(sorted(known))}")
        made = dict(values)
        model = made.get("model", NDP_MODEL)
        if made.get("prior") in PRIORS:
            made = {"level_law": PRIORS[made["prior"]].level_law} | made
        if made.get("prior") in IMAGE_SETS:
            made = IMAGE_SETTINGS | made
            if model == PAPER_MODEL:
                made["network"] = PAPER_IMAGE_NETWORK | made.get("network", {})
        if made.get("trust_only"):
            made["network"] = {"advised": True} | made.get("network", {})
        if model == PAPER_MODEL:
            made = PAPER_SETTINGS | made | {"model": NDP_MODEL}
        elif model == JOINT_PAPER_MODEL:
            made = JOINT_PAPER_SETTINGS | made | {"model": JOINT_MODEL}
        elif model not in (NDP_MODEL, JOINT_MODEL):
            made = NEURAL_PROCESS_SETTINGS | made
        for name in ("dims", "level_law"):
            if name in made:
                made[name] = tuple(made[name])
        if len(law := made.get("level_law", LEVEL_LAW)) != 2 or not law[1] > 0:
            raise ValueError(
                f"level_law is the mean and the standard deviation (above 0) of log(sigma / alpha), not {list(law)}"
            )
        for name, kind in (("prediction", Prediction), ("error", Error), ("optimiser", Optimiser)):
            if name in made:
                made[name] = _one_of(kind, name, made[name])
        return Recipe(**made)


def _one_of(kind: type[StrEnum], name: str, value: Any) -> StrEnum:
    if value not in list(kind):
        raise ValueError(f"{name} is one of {', '.join(kind)}, not {value!r}")
    return kind(value)


def trained_ratios(recipe: Recipe) -> tuple[float, float]:
    """The least and the largest sigma / alpha that training draws."""
    if not recipe.schedule:
        return SMALLEST_RATIO, LARGEST_RATIO
    ratios = ratio(cosine(recipe.schedule))
    return ratios[-1].item(), ratios[0].item()
