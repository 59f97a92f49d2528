"""From a request to the engine and back: what every tab's endpoints share."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import numpy as np
from fastapi import HTTPException, Request

from ndp.apps.playground.catalogue import Catalogue, Model
from ndp.apps.playground.engine import BusyError
from ndp.apps.playground.schemas import Point, Problem, Summary
from ndp.apps.playground.tasks import Given
from ndp.core.typing import Moments

T = TypeVar("T")

# What endpoints answer beside their result, for the OpenAPI schema.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body is not JSON"},
    408: {"model": Problem, "description": "The body did not come in time"},
    413: {"model": Problem, "description": "The body is too large"},
    415: {"model": Problem, "description": "The body is of another kind"},
    422: {"model": Problem, "description": "Something in the request is wrong; the answer says what"},
    429: {"model": Problem, "description": "Too many requests at once"},
}
DIGITS = 6  # after the point: what float32 is good for


async def answer(request: Request, work: Awaitable[T]) -> T:
    """Wait for the engine as long as the client does; what is wrong is told as a 4xx."""
    waiting = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise HTTPException(499, "the client has gone")
        return waiting.result()
    except ValueError as error:
        raise HTTPException(422, str(error)) from error
    except BusyError as error:
        raise HTTPException(429, str(error), headers={"Retry-After": "1"}) from error
    finally:
        waiting.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def find(catalogue: Catalogue, name: str) -> Model:
    """The model of that name, or a 422 that lists the names."""
    try:
        return catalogue[name]
    except ValueError as error:
        raise HTTPException(422, str(error)) from error


def given(context: Sequence[Point]) -> Given:
    x, y, noise = (np.array([getattr(point, name) for point in context], dtype=float) for name in ("x", "y", "noise"))
    return Given(x, y, noise)


def numbers(values: Any) -> Any:
    """Nested lists of finite, rounded numbers."""
    array = np.asarray(values, dtype=float)
    if not np.isfinite(array).all():
        raise ValueError(
            "there is no finite answer for these points; move them closer to what the model was trained on"
        )
    return np.round(array, DIGITS).tolist()


def summary(moments: Moments, quantiles: Any) -> Summary:
    return Summary(mean=numbers(moments.mean), std=numbers(moments.std), quantiles=numbers(quantiles))
