"""The endpoints of the tab Images: completions of a picture, given some of its pixels."""

from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np
import torch
from fastapi import APIRouter, HTTPException, Request
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.apps.playground.answering import PROBLEMS, answer, numbers
from ndp.apps.playground.catalogue import Catalogue, ImageModel
from ndp.apps.playground.costs import picture_cost
from ndp.apps.playground.engine import Engine, UnwantedError, Wanted
from ndp.apps.playground.schemas import CompletionRequest, Completions, ImageModelInfo
from ndp.apps.playground.tasks import single, spread
from ndp.core.randomness import normal
from ndp.diffusion.solvers import dpm_solver, watched
from ndp.priors.image import pixel_grid


def router(catalogue: Catalogue, engine: Engine) -> APIRouter:
    routes = APIRouter(prefix="/api/images", tags=["images"], responses=PROBLEMS)

    @routes.get("/models")
    def models() -> list[ImageModelInfo]:
        """The models of pictures, and how the page shows them."""
        return [
            ImageModelInfo(
                name=model.name,
                title=model.title,
                about=model.about,
                size=model.size,
                channels=model.channels,
                calls=model.calls,
                example=model.example,
            )
            for model in catalogue.images.values()
        ]

    @routes.post("/complete")
    async def completions(asked: CompletionRequest, request: Request) -> Completions:
        """Pictures that have the known pixels, or pictures of the prior if no pixel is known.

        The numbers are those of `ndp.apps.completing.complete(model, picture, known, draws, steps=steps, seed=seed)`.
        """
        model = _find(catalogue, asked.model)
        picture, known = _read(asked.pixels, model)

        def compute(wanted: Wanted) -> Float[np.ndarray, "S N P"]:
            return _complete(model, picture, known, asked, engine.pool, wanted)

        cost = picture_cost(pixels=model.size**2, draws=asked.draws, steps=asked.steps)
        return Completions(completions=numbers(await answer(request, engine.run(single(compute), asked, cost=cost))))

    return routes


def _find(catalogue: Catalogue, name: str) -> ImageModel:
    if name not in catalogue.images:
        raise HTTPException(422, f"there is no such model of pictures; they are: {', '.join(catalogue.images)}")
    return catalogue.images[name]


def _read(
    pixels: Sequence[Sequence[float] | None], model: ImageModel
) -> tuple[Float[Tensor, "N P"], Bool[Tensor, "N"]]:
    """The pixels row by row, 0 where they are unknown, and which of them are known."""
    size, channels = model.size, model.channels
    if pixels and len(pixels) != size**2:
        raise HTTPException(
            422, f"pixels: {model.name} takes {size} x {size} = {size**2} pixels (or none), not {len(pixels)}"
        )
    wrong = next((len(pixel) for pixel in pixels if pixel is not None and len(pixel) != channels), None)
    if wrong is not None:
        raise HTTPException(422, f"pixels: a pixel of {model.name} has {channels} values, not {wrong}")
    given = pixels or [None] * size**2
    picture = torch.tensor([pixel or [0.0] * channels for pixel in given], dtype=torch.float64)
    known = torch.tensor([pixel is not None for pixel in given])
    return picture, known


def _complete(
    model: ImageModel,
    picture: Float[Tensor, "N P"],
    known: Bool[Tensor, "N"],
    asked: CompletionRequest,
    pool: Executor,
    wanted: Wanted,
) -> Float[np.ndarray, "S N P"]:
    """The completions, divided among the threads of the pool, which share one posterior.

    Requests are not batched: the network for images takes no masks, and so no contexts of different sizes.
    """
    if bool(known.all()):
        raise ValueError("every pixel is known: there is nothing to complete")
    places = pixel_grid(model.size, model.size)
    posterior = model.process.condition(places[known][None], picture[known][None])

    def check(y: Tensor, level: Tensor) -> None:
        if not wanted():
            raise UnwantedError

    def solve(noise: Float[Tensor, "S 1 M P"]) -> Tensor:
        solver = watched(dpm_solver, check)
        at = places[~known][None]
        return torch.as_tensor(posterior.sample(at, len(noise), steps=asked.steps, solver=solver, base_noise=noise))

    shape = (asked.draws, 1, int((~known).sum()), model.channels)
    noise = normal(shape, torch.Generator().manual_seed(asked.seed), like=picture)
    completions = picture.expand(asked.draws, -1, -1).clone()
    completions[:, ~known] = torch.cat(spread(solve, noise, pool))[:, 0].double().clamp(0, 1)
    return completions.numpy()
