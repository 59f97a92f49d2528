"""A recipe is everything that a trained model depends on, as plain values: it is what a run folder stores and resumes from."""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from ndp.baselines.architectures import Kind
from ndp.baselines.neural_process import HeldOutLikelihood, NeuralProcess
from ndp.diffusion.levels import cosine, ratio
from ndp.diffusion.objective import LARGEST_RATIO, LEVEL_LAW, SMALLEST_RATIO, Error
from ndp.diffusion.prediction import Prediction
from ndp.joint import JointNDP
from ndp.joint_validation import JointValidation
from ndp.models import (
    LOG_STD_OF_LENGTHSCALE,
    MARGINAL_NOISE,
    MEDIAN_LENGTHSCALE,
    OBSERVATION_NOISE,
    OPTIMISATION_LOG_STD,
    OPTIMISATION_MEDIAN,
    OPTIMISATION_NOISE,
    exact_process,
    matern32,
    matern52,
    minima_gp,
    optimisation_gp,
    regression_gp,
)
from ndp.networks.joint import JointAttention
from ndp.networks.kinds import BIDIMENSIONAL, IMAGE, make_network
from ndp.priors.hierarchical import HierarchicalGP, log_normal_lengthscale
from ndp.priors.image import IMAGE_SETS, read_training_set, scaling_of_images, training_sources, validation_source
from ndp.priors.mixture import Mixture
from ndp.priors.sawtooth import Sawtooth
from ndp.priors.source import EqualContext, Source, Synthetic
from ndp.priors.step import Step
from ndp.priors.table import Functions, TableSource, read_functions, scaled, scaling_of, split
from ndp.priors.universal import Universal
from ndp.process import NDP
from ndp.scaling import ScaledByContext, Scaling
from ndp.typing import Prior
from ndp.validation import Validation

NDP_MODEL = "ndp"
JOINT_MODEL = "joint"
MODELS = (NDP_MODEL, JOINT_MODEL, *Kind)
PAPER_MODEL = "ndp-paper"
# The paper's NDP, in every choice that it states; its posteriors are RePaint's. As a model it is named PAPER_MODEL.
PAPER_SETTINGS: dict[str, Any] = {
    "network": {"attention": "per_dimension", "inputs": "raw", "context": "full", "counts_neighbours": False},
    "prediction": "eps",
    "error": "l1",
    "schedule": 500,
    "use_context": False,
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
PAPER_POINTS = 100
# What the package of the neural processes trains them with, where a user does not say otherwise.
NEURAL_PROCESS_SETTINGS: dict[str, Any] = {"learning_rate": 3e-4, "batch": 32, "steps": 30_000}


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
    # The network: its kind and the arguments of its class, or those of the neural process's constructor.
    network: dict[str, Any] = field(default_factory=dict)
    # The objective. `schedule` 0 draws continuous levels, most of them by `level_law`, mean and standard deviation of
    # log(sigma / alpha); a number T draws from the paper's cosine schedule of T steps.
    prediction: Prediction = Prediction.V
    error: Error = Error.L2
    schedule: int = 0
    level_law: tuple[float, float] = LEVEL_LAW
    use_context: bool = True
    noisy_share: float = 0.1
    together: float = 0.2  # share of a joint model's tasks in which inputs and outputs are both noised
    # The optimiser.
    steps: int = 20_000
    batch: int = 256
    learning_rate: float = 1e-3
    warmup: int = 500
    weight_decay: float = 0.0
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
            if getattr(self, name) < 0 or (getattr(self, name) and self.data):
                raise ValueError(f"{name} is a number of points of a prior's tasks, or 0 for its own; not for a table")
        if self.model not in MODELS:
            raise ValueError(
                f"there is no model named {self.model!r}; there are: {', '.join((PAPER_MODEL, JOINT_PAPER_MODEL, *MODELS))}"
            )
        if self.model == JOINT_MODEL:
            self._check_joint()
        elif self.model != NDP_MODEL and (self.data or len(self.dims) != 1 or self.of_images):
            raise ValueError(
                f"{self.model} is trained on a prior, at one number of input dimensions, and not on images"
            )
        if not self.dims or min(self.dims) < 1:
            raise ValueError(f"dims must be whole numbers of at least 1, not {self.dims}")

    @property
    def of_images(self) -> bool:
        return self.prior in IMAGE_SETS

    def _check_joint(self) -> None:
        if self.data or self.of_images:
            raise ValueError("a joint model is trained on a prior, not on a table of functions or on images")
        spec = PRIORS[self.prior]
        if (spec.low, spec.high) != (-1.0, 1.0) or spec.scaling is not None:
            fitting = ", ".join(n for n, s in PRIORS.items() if (s.low, s.high) == (-1.0, 1.0) and s.scaling is None)
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
        if made.get("prior") in IMAGE_SETS:
            made = IMAGE_SETTINGS | made
            if model == PAPER_MODEL:
                made["network"] = PAPER_IMAGE_NETWORK | made.get("network", {})
        if model == PAPER_MODEL:
            made = PAPER_SETTINGS | made | {"model": NDP_MODEL}
        elif model == JOINT_PAPER_MODEL:
            made = JOINT_PAPER_SETTINGS | made | {"model": JOINT_MODEL}
        elif model not in (NDP_MODEL, JOINT_MODEL):
            made = NEURAL_PROCESS_SETTINGS | made
        for name in ("dims", "level_law"):
            if name in made:
                made[name] = tuple(made[name])
        if "prediction" in made:
            made["prediction"] = Prediction(made["prediction"])
        if "error" in made:
            made["error"] = Error(made["error"])
        return Recipe(**made)


@dataclass(frozen=True)
class PriorSpec:
    """A named prior: where its inputs lie, how much context it is asked for, and what its network should be."""

    title: str
    noise_floor: float
    low: float = -2.0
    high: float = 2.0
    targets: int = 50  # half of the tasks have this many, the other half from 1 to most_targets / D
    most_targets: int = 256
    context_per_dim: int = 10
    clustered: float = 0.0  # share of the tasks whose points crowd
    network: dict[str, Any] = field(default_factory=dict)
    scaling: Scaling | ScaledByContext | None = None

    @property
    def domain(self) -> str:
        """Where its inputs lie, in words."""
        if isinstance(self.scaling, ScaledByContext):
            return "x and y in units of the context"
        return f"x in [{self.low:g}, {self.high:g}]"


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
    ),
    "step": PriorSpec(
        "steps from 0 to 1, uniform position",
        noise_floor=0.0,
        low=-1.0,
        high=1.0,
        targets=80,
        most_targets=128,
        context_per_dim=20,
        network={"inputs": "fourier"},
        scaling=Scaling((0.0,), (1.0,), (0.5,), (0.5,)),
    ),
    "bo-fixed": PriorSpec(
        "GP, Matern-5/2, lengthscale 0.5, noise 0.01, for optimisation",
        noise_floor=OPTIMISATION_NOISE,
        low=-1.0,
        high=1.0,
        targets=128,
        most_targets=768,
        context_per_dim=25,
        clustered=0.5,
    ),
    "bo-marginal": PriorSpec(
        "GP, Matern-5/2, log-normal lengthscales, one an input, noise 0.01, for optimisation",
        noise_floor=OPTIMISATION_NOISE,
        low=-1.0,
        high=1.0,
        targets=128,
        most_targets=768,
        context_per_dim=25,
        clustered=0.5,
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
    "sawtooth": PriorSpec("sawtooth waves, noise 0.05", noise_floor=OBSERVATION_NOISE),
    UNIVERSAL: PriorSpec(
        "functions of many kinds with unknown noise, 0 to 256 observations",
        noise_floor=0.0,
        network={"tells_noise": True, "width": 128, "blocks": 6},
        scaling=ScaledByContext(),
    ),
    "mixture": PriorSpec("SE and Matern-5/2 GPs and sawtooth waves, noise 0.05", noise_floor=OBSERVATION_NOISE),
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


def functions_of(recipe: Recipe) -> tuple[Functions, Functions]:
    """The functions of a recipe's table: those that are trained on, and those that are kept for validation."""
    return split(read_functions(Path(recipe.data)), seed=recipe.seed)


def make_sources(recipe: Recipe, device: torch.device) -> list[Source]:
    """Sources for each number of input dimensions and of targets, in model units; training takes them in turn."""
    if recipe.of_images:
        return list(training_sources(recipe.prior, recipe.data_dir, varied=recipe.use_context))
    if recipe.data:
        functions, _ = functions_of(recipe)
        return [TableSource(scaled(functions, scaling_of(functions)))]
    if recipe.prior == UNIVERSAL:
        if recipe.model != NDP_MODEL or not recipe.use_context:
            raise ValueError("the universal prior is for an NDP that sees a context")
        sizes = recipe.most_context or UNIVERSAL_CONTEXT, recipe.targets or UNIVERSAL_TARGETS
        return [Universal(dim, *sizes) for dim in recipe.dims]
    spec = PRIORS[recipe.prior]
    prior = make_prior(recipe.prior, device)
    if recipe.model == JOINT_MODEL:
        return _joint_sources(recipe, spec, prior)
    places = {dim: recipe.most_context or spec.context_per_dim * dim for dim in recipe.dims}
    usual = recipe.targets or spec.targets
    if recipe.model != NDP_MODEL:
        (dim,) = recipe.dims
        synthetic = Synthetic(
            prior, dim, spec.low, spec.high, usual, most_context=places[dim], clustered=spec.clustered
        )
        return [EqualContext(synthetic)]
    return [
        Synthetic(
            Standardised(prior, spec.scaling) if isinstance(spec.scaling, Scaling) else prior,
            dim=dim,
            low=spec.low,
            high=spec.high,
            targets=targets,
            least_targets=least,
            most_context=places[dim],
            clustered=spec.clustered,
        )
        for dim in recipe.dims
        for targets, least in (
            ((usual, None), (max(spec.most_targets // dim, usual), 1))
            if recipe.use_context
            else ((usual, None),)  # as in the paper
        )
    ]


def _joint_sources(recipe: Recipe, spec: PriorSpec, prior: Prior) -> list[Source]:
    """Targets that are asked alone, which is how an input is asked for, and in turn targets of one function together.

    Without a context there are only the latter, 100 of them, as in the paper.
    """
    if not recipe.use_context:
        return [Synthetic(prior, dim, spec.low, spec.high, PAPER_POINTS, most_context=0) for dim in recipe.dims]
    return [
        Synthetic(
            prior,
            dim,
            spec.low,
            spec.high,
            spec.targets,
            most_context=spec.context_per_dim * dim,
            least_targets=None if alone else 1,
            clustered=0.0 if alone else spec.clustered,  # alone an input may be anywhere: it is not told by its company
            alone=alone,
        )
        for dim in recipe.dims
        for alone in (True, False)
    ]


def make_validation(
    recipe: Recipe, model: NDP | JointNDP | NeuralProcess, device: torch.device
) -> Validation | JointValidation | HeldOutLikelihood:
    """Held-out functions of a table, or draws of the prior that training does not meet."""
    sources = make_sources(recipe, device)
    if isinstance(model, JointNDP):
        return JointValidation.of(
            sources[0], device, prediction=recipe.prediction, error=recipe.error, together=recipe.together
        )
    if isinstance(model, NeuralProcess):
        return HeldOutLikelihood.of(model, sources[0], device)
    if recipe.data:
        trained_on, held_out = functions_of(recipe)
        sources = [TableSource(scaled(held_out, scaling_of(trained_on)))]
    if recipe.of_images:
        sources = [validation_source(recipe.prior, recipe.data_dir)]
    return Validation.of(
        sources,
        device,
        prediction=recipe.prediction,
        error=recipe.error,
        use_context=recipe.use_context,
        exact=exact_process(recipe.prior),
        ratios=trained_ratios(recipe),
        law=recipe.level_law,
        tasks=64 if recipe.of_images or recipe.prior == UNIVERSAL else 16,  # where tasks are of many kinds
    )


@dataclass(frozen=True)
class Standardised:
    """A prior in model units."""

    prior: Prior
    scaling: Scaling

    def sample(self, x: Any, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Any:
        return self.scaling.to_model_y(torch.as_tensor(self.prior.sample(x, num_samples, generator=generator)))


def trained_ratios(recipe: Recipe) -> tuple[float, float]:
    """The least and the largest sigma / alpha that training draws."""
    if not recipe.schedule:
        return SMALLEST_RATIO, LARGEST_RATIO
    ratios = ratio(cosine(recipe.schedule))
    return ratios[-1].item(), ratios[0].item()


def make_model(recipe: Recipe) -> NDP | JointNDP | NeuralProcess:
    """The untrained model of a recipe; its weights are a function of the seed."""
    if recipe.model == NDP_MODEL:
        return make_ndp(recipe)
    if recipe.model == JOINT_MODEL:
        return make_joint_ndp(recipe)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return NeuralProcess(recipe.model, recipe.dims[0], options=recipe.network)


def make_ndp(recipe: Recipe) -> NDP:
    """The untrained NDP of a recipe."""
    options: dict[str, Any] = {}
    if recipe.data:
        functions, _ = functions_of(recipe)
        scaling: Scaling | ScaledByContext | None = scaling_of(functions)
        dims: tuple[int, ...] = (functions.x.shape[-1],)
        num_outputs, noise_floor = functions.y.shape[-1], 0.0
        options = {"inputs": "fourier"}  # of somebody's own functions we do not know that they are stationary
    elif recipe.of_images:
        scaling = scaling_of_images(read_training_set(recipe.prior, recipe.data_dir)[0])
        dims, num_outputs, noise_floor = (2,), len(scaling.y_scale), 0.0
        options = {"kind": IMAGE}
    else:
        spec = PRIORS[recipe.prior]
        scaling, dims, num_outputs, noise_floor = spec.scaling, recipe.dims, 1, spec.noise_floor
        if recipe.prior == UNIVERSAL:  # what lies between the numbers that it is trained at is its too
            dims = tuple(range(min(dims), max(dims) + 1))
        options = dict(spec.network)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = make_network(num_outputs=num_outputs, **(options | recipe.network))
    return NDP(
        network,
        prediction=recipe.prediction,
        noise_floor=noise_floor,
        num_outputs=num_outputs,
        input_dims=dims,
        trained_ratios=trained_ratios(recipe),
        scaling=scaling,
    )


def make_joint_ndp(recipe: Recipe) -> JointNDP:
    """The untrained joint NDP of a recipe."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = JointAttention(**recipe.network)
    return JointNDP(
        network,
        prediction=recipe.prediction,
        noise_floor=PRIORS[recipe.prior].noise_floor,
        input_dims=recipe.dims,
        trained_ratios=trained_ratios(recipe),
    )
