"""What a recipe learns from: tasks to train on and to validate with, in model units, and what a model must know of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ndp.core.typing import Prior
from ndp.core.units import FixedUnits, ModelUnits, read_units
from ndp.gp.exact import GP
from ndp.gp.named import exact_process
from ndp.models.registry import load_ndp
from ndp.networks.bidimensional import ContextAttention
from ndp.networks.registry import IMAGE
from ndp.priors.functions import TableSource, read_functions, scaled, split, units_of
from ndp.priors.image import ImageSource, read_training_set, training_sources, units_of_images
from ndp.priors.registry import PRIORS, UNIVERSAL, UNIVERSAL_CONTEXT, UNIVERSAL_TARGETS, PriorSpec, make_prior
from ndp.priors.standardised import Standardised
from ndp.priors.tasks import EqualContext, Source, Synthetic
from ndp.priors.universal import Universal
from ndp.training.config import Recipe
from ndp.training.presets import NDP_MODEL

FEW_TARGETS = 16  # a third of the tasks have from one to these, a third from these to most_targets / D
PAPER_POINTS = 100  # of a function, where inputs and values are learned as in the paper
MANY_TASKS = 64  # to validate with, where tasks differ widely


@dataclass(frozen=True)
class TrainingData:
    """Tasks, and the facts about them that decide what a model looks like."""

    sources: Sequence[Source]  # training takes them in turn
    held_out: Sequence[Source]
    input_dims: tuple[int, ...]
    units: ModelUnits | None = None
    num_outputs: int = 1
    noise_floor: float = 0.0
    network: dict[str, Any] = field(default_factory=dict)  # settings of a network that suits these functions
    exact: GP | None = None  # the process that the functions are draws of, where it is known
    validation_tasks: int = 16  # of each held-out source


def read_data(recipe: Recipe, device: torch.device) -> TrainingData:
    """The data of a recipe. Files are read here, once; functions of a prior are drawn on `device`."""
    if recipe.data:
        return _of_table(recipe)
    if recipe.of_images:
        return _of_images(recipe)
    return _of_prior(recipe, device)


def _of_table(recipe: Recipe) -> TrainingData:
    """Whole functions of the table are held out."""
    trained_on, held_out = split(read_functions(Path(recipe.data)), seed=recipe.seed)
    units = units_of(trained_on)
    return TrainingData(
        sources=[TableSource(scaled(trained_on, units))],
        held_out=[TableSource(scaled(held_out, units))],
        input_dims=(trained_on.x.shape[-1],),
        units=units,
        num_outputs=trained_on.y.shape[-1],
        network={"inputs": "fourier"},  # a user's functions need not be stationary
    )


def _of_images(recipe: Recipe) -> TrainingData:
    """A part of the training pictures is held out; the test pictures are not touched."""
    trained_on, held_out = read_training_set(recipe.prior, recipe.data_dir)
    units = units_of_images(trained_on)
    return TrainingData(
        sources=training_sources(recipe.prior, trained_on, units, varied=recipe.use_context),
        held_out=[ImageSource(held_out, units)],
        input_dims=(2,),
        units=units,
        num_outputs=len(units.y_scale),
        network={"kind": IMAGE},
        validation_tasks=MANY_TASKS,
    )


def _of_prior(recipe: Recipe, device: torch.device) -> TrainingData:
    """Draws of the prior; those to validate with have a seed that training does not meet."""
    spec = PRIORS[recipe.prior]
    dims = tuple(sorted(set(recipe.dims)))
    if recipe.prior == UNIVERSAL:  # numbers between those of training are supported too
        dims = tuple(range(min(dims), max(dims) + 1))
    if recipe.gate_only:  # the gate may be trained at fewer numbers than the network
        dims = load_ndp(recipe.start).input_dims or dims
    sources = _sources_of_prior(recipe, spec, device)
    return TrainingData(
        sources=sources,
        held_out=sources,
        input_dims=dims,
        units=read_units(spec.units),
        noise_floor=spec.noise_floor,
        network={"input_count": True} | spec.network,
        exact=exact_process(recipe.prior),
        validation_tasks=MANY_TASKS if recipe.prior == UNIVERSAL else 16,
    )


def _sources_of_prior(recipe: Recipe, spec: PriorSpec, device: torch.device) -> list[Source]:
    if recipe.prior == UNIVERSAL:
        return _universal_sources(recipe)
    prior = make_prior(recipe.prior, device)
    if recipe.joint:
        return _joint_sources(recipe, spec, prior)
    if recipe.model != NDP_MODEL:
        return [EqualContext(_tasks(recipe, spec, prior, recipe.dims[0]))]
    units = read_units(spec.units)
    if isinstance(units, FixedUnits):
        prior = Standardised(prior, units)
    return [
        _tasks(recipe, spec, prior, dim, targets=targets, least_targets=least, independent=independent)
        for dim in recipe.dims
        for least, targets, independent in _numbers_of_targets(recipe, spec, dim)
    ]


def _tasks(recipe: Recipe, spec: PriorSpec, prior: Prior, dim: int, **changes: Any) -> Synthetic:
    """Tasks of `dim` inputs, with as much context and as many targets as the recipe or else the prior says."""
    usual = {
        "targets": recipe.targets or spec.targets,
        "most_context": recipe.most_context or spec.context_per_dim * dim,
        "clustered": spec.clustered,
    }
    return Synthetic(prior, dim, spec.low, spec.high, **(usual | changes))


def _numbers_of_targets(recipe: Recipe, spec: PriorSpec, dim: int) -> list[tuple[int | None, int, bool]]:
    """The least and the most targets of a task (None: always the most), and whether they are independent."""
    usual = recipe.targets or spec.targets
    numbers: list[tuple[int | None, int, bool]] = [(None, usual, False)]
    if recipe.use_context:  # without it, as in the paper
        numbers += [(1, FEW_TARGETS, False), (FEW_TARGETS, max(spec.most_targets // dim, usual), False)]
        if _has_independent_targets(recipe):
            numbers += [(None, usual, True)]
    return numbers


def _universal_sources(recipe: Recipe) -> list[Source]:
    """Tasks of few observations, up to a quarter of the most, and of many: few would hardly fill the places for many."""
    most_context, targets = recipe.most_context or UNIVERSAL_CONTEXT, recipe.targets or UNIVERSAL_TARGETS
    few = most_context // 4
    independent = (False, True) if _has_independent_targets(recipe) else (False,)
    if recipe.gate_only:  # the gate is of independent targets
        independent = (True,)
    return [
        Universal(dim, most, asked, least, each)
        for dim in recipe.dims
        for least, most, asked in ((0, few, max(targets // 2, 1)), (few + 1, most_context, targets))
        for each in independent
    ]


def _has_independent_targets(recipe: Recipe) -> bool:
    """Whether there are tasks of independent targets, which a context that reads from the targets does not allow."""
    return PRIORS[recipe.prior].independent_targets and recipe.network.get("context") != ContextAttention.FULL


def _joint_sources(recipe: Recipe, spec: PriorSpec, prior: Prior) -> list[Source]:
    """Independent targets, which is how an input is asked for, and joint targets of one function.

    An independent input may be anywhere, so that these targets have no clusters. Without a context there are only joint
    targets, 100 of them, as in the paper.
    """
    if not recipe.use_context:
        points = recipe.targets or PAPER_POINTS
        options: dict[str, Any] = {"targets": points, "most_context": 0, "clustered": 0.0}
        return [_tasks(recipe, spec, prior, dim, **options) for dim in recipe.dims]
    return [
        _tasks(recipe, spec, prior, dim, **options)
        for dim in recipe.dims
        for options in ({"clustered": 0.0, "independent": True}, {"least_targets": 1})
    ]
