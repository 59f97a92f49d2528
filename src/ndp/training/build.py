"""What a recipe makes: an untrained model, its objective, its tasks and its validation."""

import torch
from torch import nn

from ndp.diffusion.defaults import LARGEST_RATIO, SMALLEST_RATIO
from ndp.diffusion.levels import cosine, ratio
from ndp.diffusion.objective import Error, Objective
from ndp.diffusion.prediction import Prediction
from ndp.models.registry import TrainedModel, load
from ndp.networks.registry import JOINT, Kind, make_network
from ndp.priors.tasks import Source
from ndp.processes.ndp import NDP
from ndp.processes.neural_process import HeldOutLikelihood, NeuralProcess
from ndp.processes.validation import Validation
from ndp.training.config import Recipe
from ndp.training.data import TrainingData, read_data

CPU = torch.device("cpu")
GATE = "gate."  # the names of its weights begin with this


def objective_of(recipe: Recipe) -> Objective:
    """What the model of a recipe learns to minimise, and at which noise levels."""
    ratios = SMALLEST_RATIO, LARGEST_RATIO
    if recipe.schedule:
        levels = ratio(cosine(recipe.schedule))
        ratios = levels[-1].item(), levels[0].item()
    return Objective(Error(recipe.error), recipe.use_context, recipe.level_law, ratios, recipe.joint_share)


def make_sources(recipe: Recipe, device: torch.device) -> list[Source]:
    """The sources of a recipe's tasks, in model units."""
    return list(read_data(recipe, device).sources)


def make_validation(recipe: Recipe, model: TrainedModel, device: torch.device) -> Validation | HeldOutLikelihood:
    """The score of a recipe's network, on tasks that training does not meet."""
    return validation_of(model, recipe, read_data(recipe, device), device)


def make_model(recipe: Recipe) -> TrainedModel:
    """The untrained model of a recipe; its weights are a function of the seed."""
    return model_of(recipe, read_data(recipe, CPU))


def make_ndp(recipe: Recipe) -> NDP:
    """`make_model` for a recipe of an NDP."""
    model = make_model(recipe)
    if not isinstance(model, NDP):
        raise ValueError(f"this needs the recipe of an NDP, not of a model named {recipe.model}")
    return model


def validation_of(
    model: TrainedModel, recipe: Recipe, data: TrainingData, device: torch.device
) -> Validation | HeldOutLikelihood:
    """`make_validation` with data that were read before."""
    objective = objective_of(recipe)
    return model.validation(data.held_out, device, objective, exact=data.exact, tasks=data.validation_tasks)


def model_of(recipe: Recipe, data: TrainingData) -> TrainedModel:
    """`make_model` with data that were read before. Global random numbers are not touched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        if recipe.model in list(Kind):
            return NeuralProcess(recipe.model, recipe.dims[0], options=recipe.network)
        if recipe.joint:
            network = make_network(kind=JOINT, **recipe.network)
        else:
            network = make_network(num_outputs=data.num_outputs, **(data.network | recipe.network))
    return NDP(
        network,
        prediction=Prediction(recipe.prediction),
        noise_floor=data.noise_floor,
        num_outputs=data.num_outputs,
        input_dims=data.input_dims,
        trained_ratios=objective_of(recipe).ratios,
        units=data.units,
    )


def begin_with(model: TrainedModel, name: str) -> None:
    """Give an untrained model the weights of a trained one, a name or a folder, that has the same network.

    Weights that the trained network lacks may be zero, which changes nothing, or those of a gate, which is trained later.
    """
    trained, mine = getattr(load(name), "network", None), model.network
    if not isinstance(trained, nn.Module) or type(trained) is not type(mine):
        raise ValueError(f"training cannot start from {name}: it is not a trained model of this kind")
    assert isinstance(mine, nn.Module)
    weights = {key: weight for key, weight in mine.state_dict().items() if not weight.any() or key.startswith(GATE)}
    for key, weight in trained.state_dict().items():
        if key in mine.state_dict() or not key.startswith(GATE):
            weights[key] = weight
    if {key: w.shape for key, w in mine.state_dict().items()} != {key: w.shape for key, w in weights.items()}:
        raise ValueError(f"training cannot start from {name}: its network has other settings than the recipe's")
    mine.load_state_dict(weights)
