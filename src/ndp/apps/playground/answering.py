"""From a request to the engine and back: the helpers that the endpoints of all tabs share."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import numpy as np
from fastapi import HTTPException, Request

from ndp.apps.playground.catalogue import Catalogue, Model
from ndp.apps.playground.engine import BusyError, StoppingError
from ndp.apps.playground.schemas import Point, Problem, Summary
from ndp.apps.playground.tasks import Observations
from ndp.core.typing import Moments

T = TypeVar("T")

# The answers of an endpoint beside its result, for the OpenAPI schema.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body is not JSON"},
    408: {"model": Problem, "description": "The body did not arrive in time"},
    413: {"model": Problem, "description": "The body is too large"},
    415: {"model": Problem, "description": "The body has another content type"},
    422: {"model": Problem, "description": "The request is invalid; the answer says why"},
    429: {"model": Problem, "description": "Too many requests at once; Retry-After says when there will be room"},
    503: {"model": Problem, "description": "The server is stopping"},
}
DIGITS = 6  # after the decimal point: the precision of float32


async def answer(request: Request, work: Awaitable[T]) -> T:
    """The result of the engine, as long as the client waits for it. User errors become 4xx answers."""
    waiting = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise HTTPException(499, "the client has disconnected")
        return waiting.result()
    except ValueError as error:
        raise HTTPException(422, str(error)) from error
    except BusyError as error:
        raise HTTPException(429, str(error), headers={"Retry-After": str(error.seconds)}) from error
    except StoppingError as error:
        raise HTTPException(503, str(error), headers={"Connection": "close"}) from error
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


def observations(context: Sequence[Point]) -> Observations:
    """The points of a request as arrays."""
    x, y, noise = (np.array([getattr(point, name) for point in context], dtype=float) for name in ("x", "y", "noise"))
    return Observations(x, y, noise)


def numbers(values: Any) -> Any:
    """Nested lists of rounded numbers; a number that is not finite is an error."""
    array = np.asarray(values, dtype=float)
    if not np.isfinite(array).all():
        raise ValueError(
            "there is no finite answer for these points; move them closer to the range that the model was trained on"
        )
    return np.round(array, DIGITS).tolist()


def summary(moments: Moments, quantiles: Any) -> Summary:
    return Summary(mean=numbers(moments.mean), std=numbers(moments.std), quantiles=numbers(quantiles))
