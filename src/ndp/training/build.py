"""What a recipe makes: where its functions come from, an untrained model, and the validation of its training."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from ndp.core.typing import Prior
from ndp.core.units import ContextUnits, FixedUnits
from ndp.gp.exact import GP
from ndp.gp.named import exact_process
from ndp.models.registry import load
from ndp.networks.bidimensional import ContextAttention
from ndp.networks.registry import IMAGE, JOINT, make_network
from ndp.priors.functions import Functions, TableSource, read_functions, scaled, units_of, split
from ndp.priors.image import read_training_set, units_of_images, training_sources, validation_source
from ndp.priors.registry import (
    PRIORS,
    UNIVERSAL,
    UNIVERSAL_CONTEXT,
    UNIVERSAL_TARGETS,
    PriorSpec,
    make_prior,
)
from ndp.priors.standardised import Standardised
from ndp.priors.tasks import EqualContext, Source, Synthetic
from ndp.priors.universal import Universal
from ndp.processes.joint import JointNDP
from ndp.processes.ndp import NDP
from ndp.processes.neural_process import HeldOutLikelihood, NeuralProcess
from ndp.training.config import JOINT_MODEL, NDP_MODEL, Recipe, trained_ratios
from ndp.training.joint_validation import JointValidation
from ndp.training.validation import Validation

FEW_TARGETS = 16  # a third of the tasks have from one to these, a third from these to most_targets / D
PAPER_POINTS = 100  # of a function, where inputs and outputs are learned as in the paper


def functions_of(recipe: Recipe) -> tuple[Functions, Functions]:
    """The functions of a recipe's table: those that are trained on, and those that are kept for validation."""
    return split(read_functions(Path(recipe.data)), seed=recipe.seed)


def make_sources(recipe: Recipe, device: torch.device) -> list[Source]:
    """Sources for each number of input dimensions and of targets, in model units; training takes them in turn."""
    if recipe.of_images:
        return list(training_sources(recipe.prior, recipe.data_dir, varied=recipe.use_context))
    if recipe.data:
        functions, _ = functions_of(recipe)
        return [TableSource(scaled(functions, units_of(functions)))]
    if recipe.prior == UNIVERSAL:
        return _universal_sources(recipe)
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
            Standardised(prior, spec.units) if isinstance(spec.units, FixedUnits) else prior,
            dim=dim,
            low=spec.low,
            high=spec.high,
            targets=targets,
            least_targets=least,
            most_context=places[dim],
            clustered=spec.clustered,
            independent=independent,
        )
        for dim in recipe.dims
        for least, targets, independent in (
            (
                (None, usual, False),
                (1, FEW_TARGETS, False),
                (FEW_TARGETS, max(spec.most_targets // dim, usual), False),
                *(((None, usual, True),) if _has_independent_targets(recipe) else ()),
            )
            if recipe.use_context
            else ((None, usual, False),)  # as in the paper
        )
    ]


def _universal_sources(recipe: Recipe) -> list[Source]:
    """Tasks of few observations, up to a quarter of the most, and of many: few would hardly fill the places for many."""
    most_context, targets = recipe.most_context or UNIVERSAL_CONTEXT, recipe.targets or UNIVERSAL_TARGETS
    few = most_context // 4
    return [
        Universal(dim, most, asked, least, independent)
        for dim in recipe.dims
        for least, most, asked in ((0, few, max(targets // 2, 1)), (few + 1, most_context, targets))
        for independent in _ways_to_ask(recipe)
    ]


def _ways_to_ask(recipe: Recipe) -> tuple[bool, ...]:
    """Together and alone; advice is about values that are asked for alone."""
    if recipe.trust_only:
        return (True,)
    return (False, True) if _has_independent_targets(recipe) else (False,)


def _has_independent_targets(recipe: Recipe) -> bool:
    """Whether there are tasks of targets alone, which a context that reads from the targets does not allow."""
    return PRIORS[recipe.prior].independent_targets and recipe.network.get("context") != ContextAttention.FULL


def _joint_sources(recipe: Recipe, spec: PriorSpec, prior: Prior) -> list[Source]:
    """Targets that are asked alone, which is how an input is asked for, and in turn targets of one function together.

    Without a context there are only the latter, 100 of them, as in the paper.
    """
    if not recipe.use_context:
        points = recipe.targets or PAPER_POINTS
        return [Synthetic(prior, dim, spec.low, spec.high, points, most_context=0) for dim in recipe.dims]
    return [
        Synthetic(
            prior,
            dim,
            spec.low,
            spec.high,
            recipe.targets or spec.targets,
            most_context=recipe.most_context or spec.context_per_dim * dim,
            least_targets=None if independent else 1,
            clustered=0.0
            if independent
            else spec.clustered,  # alone an input may be anywhere: it is not told by its company
            independent=independent,
        )
        for dim in recipe.dims
        for independent in (True, False)
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
        sources = [TableSource(scaled(held_out, units_of(trained_on)))]
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


def make_model(recipe: Recipe) -> NDP | JointNDP | NeuralProcess:
    """The untrained model of a recipe; its weights are a function of the seed."""
    if recipe.model == NDP_MODEL:
        return make_ndp(recipe)
    if recipe.model == JOINT_MODEL:
        return make_joint_ndp(recipe)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return NeuralProcess(recipe.model, recipe.dims[0], options=recipe.network)


def begin_with(model: NDP | JointNDP | NeuralProcess, name: str) -> None:
    """Give an untrained model the weights of a trained one, a name or a folder, that has the same network."""
    trained = load(name)
    if isinstance(trained, GP) or type(trained) is not type(model) or not isinstance(trained.network, nn.Module):
        raise ValueError(f"training cannot start from {name}: it is not a trained model of this kind")
    mine = model.network
    assert isinstance(mine, nn.Module)
    # What is new in a network and starts at zero changes nothing until it has learned to; whom it trusts it may learn later,
    # or not at all.
    new = {key: w for key, w in mine.state_dict().items() if not w.any() or key.startswith("trust.")}
    known = trained.network.state_dict()
    theirs = new | {key: w for key, w in known.items() if key in mine.state_dict() or not key.startswith("trust.")}
    if {key: value.shape for key, value in mine.state_dict().items()} != {k: v.shape for k, v in theirs.items()}:
        raise ValueError(f"training cannot start from {name}: its network has other settings than the recipe's")
    mine.load_state_dict(theirs)


def make_ndp(recipe: Recipe) -> NDP:
    """The untrained NDP of a recipe."""
    options: dict[str, Any] = {}
    if recipe.data:
        functions, _ = functions_of(recipe)
        units: FixedUnits | ContextUnits | None = units_of(functions)
        dims: tuple[int, ...] = (functions.x.shape[-1],)
        num_outputs, noise_floor = functions.y.shape[-1], 0.0
        options = {"inputs": "fourier"}  # of somebody's own functions we do not know that they are stationary
    elif recipe.of_images:
        units = units_of_images(read_training_set(recipe.prior, recipe.data_dir)[0])
        dims, num_outputs, noise_floor = (2,), len(units.y_scale), 0.0
        options = {"kind": IMAGE}
    else:
        spec = PRIORS[recipe.prior]
        units, dims, num_outputs, noise_floor = spec.units, tuple(sorted(set(recipe.dims))), 1, spec.noise_floor
        if recipe.prior == UNIVERSAL:  # what lies between the numbers that it is trained at is its too
            dims = tuple(range(min(dims), max(dims) + 1))
        if recipe.trust_only:  # as before, however many inputs trust is learned at
            dims = getattr(load(recipe.start), "input_dims", dims)
        options = {"counts_dims": True} | spec.network
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
        units=units,
    )


def make_joint_ndp(recipe: Recipe) -> JointNDP:
    """The untrained joint NDP of a recipe."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = make_network(kind=JOINT, **recipe.network)
    return JointNDP(
        network,
        prediction=recipe.prediction,
        noise_floor=PRIORS[recipe.prior].noise_floor,
        input_dims=recipe.dims,
        trained_ratios=trained_ratios(recipe),
    )
