"""The endpoints of the tab Images: pictures completed from some of their pixels."""

from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np
import torch
from fastapi import APIRouter, HTTPException, Request
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.apps.completing import complete
from ndp.apps.playground.answering import PROBLEMS, answer, numbers
from ndp.apps.playground.catalogue import Catalogue, ImageModel
from ndp.apps.playground.engine import CORES, Engine, UnwantedError, Wanted
from ndp.apps.playground.schemas import CompletionRequest, Completions, ImageModelInfo
from ndp.apps.playground.tasks import alone
from ndp.core.randomness import normal
from ndp.diffusion.solvers import dpm_solver, watched


def router(catalogue: Catalogue, engine: Engine) -> APIRouter:
    routes = APIRouter(prefix="/api/images", tags=["images"], responses=PROBLEMS)

    @routes.get("/models")
    def models() -> list[ImageModelInfo]:
        """The models of pictures, and how they like to be shown."""
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
        """Pictures that have the known pixels, or pictures of the prior where none is known.

        The same numbers as `ndp.apps.completing.complete(model, picture, known, draws, steps=steps, seed=seed)`.
        """
        model = _find(catalogue, asked.model)
        picture, known = _read(asked.pixels, model)

        def compute(wanted: Wanted) -> Float[np.ndarray, "S H W P"]:
            return _complete(model, picture, known, asked, engine.crew, wanted)

        drawn = await answer(request, engine.run(alone(compute), asked, kind=object()))
        return Completions(completions=numbers(drawn.reshape(len(drawn), -1, model.channels)))

    return routes


def _find(catalogue: Catalogue, name: str) -> ImageModel:
    if name not in catalogue.images:
        raise HTTPException(422, f"there is no such model of pictures; they are: {', '.join(catalogue.images)}")
    return catalogue.images[name]


def _read(
    pixels: Sequence[Sequence[float] | None], model: ImageModel
) -> tuple[Float[np.ndarray, "H W P"], Bool[np.ndarray, "H W"]]:
    """The picture, 0 where it is not known, and where it is."""
    size, channels = model.size, model.channels
    if pixels and len(pixels) != size**2:
        raise HTTPException(
            422, f"pixels: {model.name} takes {size} x {size} = {size**2} pixels (or none), not {len(pixels)}"
        )
    wrong = next((len(pixel) for pixel in pixels if pixel is not None and len(pixel) != channels), None)
    if wrong is not None:
        raise HTTPException(422, f"pixels: a pixel of {model.name} has {channels} values, not {wrong}")
    given = pixels or [None] * size**2
    picture = np.array([pixel or [0.0] * channels for pixel in given], dtype=float)
    known = np.array([pixel is not None for pixel in given])
    return picture.reshape(size, size, channels), known.reshape(size, size)


def _complete(
    model: ImageModel,
    picture: Float[np.ndarray, "H W P"],
    known: Bool[np.ndarray, "H W"],
    asked: CompletionRequest,
    crew: Executor,
    wanted: Wanted,
) -> Float[np.ndarray, "S H W P"]:
    """The draws shared out to the crew. Contexts of other sizes do not meet here: the network for images takes no masks."""

    def check(y: Tensor, level: Tensor) -> None:
        if not wanted():
            raise UnwantedError

    def solve(noise: Float[Tensor, "S 1 M P"]) -> Float[np.ndarray, "S H W P"]:
        solver = watched(dpm_solver, check)
        return complete(model.process, picture, known, len(noise), steps=asked.steps, solver=solver, base_noise=noise)

    shape = (asked.draws, 1, int((~known).sum()), model.channels)
    like = torch.zeros((), dtype=torch.float64)
    noise = normal(shape, torch.Generator().manual_seed(asked.seed), like=like)
    return np.concatenate(list(crew.map(solve, noise.tensor_split(min(CORES, asked.draws)))))
