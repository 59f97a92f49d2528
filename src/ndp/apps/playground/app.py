"""The application: the page, and the endpoints of its tabs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware

from ndp.apps.playground import facts, functions, images, optimise
from ndp.apps.playground.catalogue import Catalogue
from ndp.apps.playground.engine import Engine
from ndp.apps.playground.limits import BODY_SECONDS, BoundedBody, GivenUp, SecurityHeaders
from ndp.apps.playground.schemas import Health, ModelInfo, Point
from ndp.core.version import __version__

TABS = (functions, images, optimise)  # each has a `router`; its page is a module of the same name in static/
LONGEST_NAME = 40  # characters of a field's name that an error repeats


def create_app(
    catalogue: Catalogue | None = None,
    *,
    hosts: Sequence[str] = ("*",),
    body_seconds: float = BODY_SECONDS,
    engine: Engine | None = None,
) -> FastAPI:
    """The playground. It answers to the host names in `hosts` only, so that no other site can reach it through a browser."""
    models = catalogue or Catalogue()
    worker = engine or Engine()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        worker.close()

    app = FastAPI(
        title="ndp playground",
        version=__version__,
        description="Distributions over functions, conditioned on points.",
        docs_url=None,  # its page would load scripts of other hosts
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_exception_handler(RequestValidationError, _invalid_request)

    @app.get("/api/health", tags=["server"])
    async def health() -> Health:
        """Whether the server is up, and how many requests wait."""
        return Health(status="ok", version=__version__, models=len(list(models)), waiting=worker.waiting)

    @app.get("/api/models", tags=["server"])
    async def list_models() -> list[ModelInfo]:
        """The models of functions, and how the page shows them."""
        return [
            ModelInfo(
                name=model.name,
                title=model.show.title,
                about=model.show.about,
                low=model.low,
                high=model.high,
                value_low=model.show.low,
                value_high=model.show.high,
                noise_floor=model.process.noise_floor,
                calls=model.show.calls,
                example=[Point(x=x, y=y) for x, y in model.show.example],
                exact=model.exact_title,
                optimises=model.process.noise_floor > 0,
            )
            for model in models
        ]

    for part in (*TABS, facts):
        app.include_router(part.router(models, worker))
    app.mount("/", StaticFiles(directory=static_folder(), html=True))
    app.add_middleware(BoundedBody, seconds=body_seconds)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_middleware(GivenUp)
    app.add_middleware(SecurityHeaders)
    app.openapi = lambda: _with_names(FastAPI.openapi(app), models)  # type: ignore[method-assign]
    return app


def _with_names(described: dict[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """The OpenAPI schema with the names that a request can hold."""
    schemas = described["components"]["schemas"]
    names = [model.name for model in catalogue]
    for request in ("DrawRequest", "SummaryRequest", "ExactRequest", "DensityRequest", "GivenRequest"):
        schemas[request]["properties"]["model"]["enum"] = names
    schemas["CompletionRequest"]["properties"]["model"]["enum"] = list(catalogue.images)
    schemas["OptimiseRequest"]["properties"]["model"]["enum"] = [*names, *catalogue.joint]
    schemas["OptimiseRequest"]["properties"]["method"]["enum"] = list(optimise.METHODS)
    return described


def static_folder() -> Path:
    return Path(str(files("ndp") / "apps" / "playground" / "static"))


async def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    """The first mistake of a request, in one line. The request is not repeated: it may not even be JSON."""
    assert isinstance(error, RequestValidationError)
    first, *others = error.errors()
    if first["type"] == "json_invalid":
        return JSONResponse({"detail": "the body is not JSON"}, status_code=400)
    where = ".".join(_shortened(str(part)) for part in first["loc"] if part != "body")
    words = first["msg"].removeprefix("Value error, ")
    more = f" (and {len(others)} more)" if others else ""
    detail = f"{where}: {words}{more}" if where else f"{words}{more}"
    return JSONResponse({"detail": detail.encode("ascii", "replace").decode()}, status_code=422)


def _shortened(name: str) -> str:
    """The name of a field; one that nobody asked for can be as long as the body."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
