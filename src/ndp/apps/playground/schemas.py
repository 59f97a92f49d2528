"""The requests and answers of the endpoints. Every number is finite, and every list is bounded."""

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_CONTEXT, MAX_POINTS, MAX_DRAWS, MAX_STEPS = 100, 400, 128, 50
# Draws times points times solver calls: what a request costs. 27,000 take about 0.3 s on two cores.
MAX_WORK = 200_000
# Draws times solver calls of a picture: each takes about 0.13 s of one core at 784 of them, 0.18 s at 1,024.
MAX_PICTURE_CALLS = 120
MAX_GIVEN_POINTS, MAX_GIVEN_DRAWS = 120, 64  # of functions that agree with facts
MAX_DENSITIES = 128  # values, over all functions whose density is asked for

Input = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]
Value = Annotated[float, Field(ge=-1000, le=1000, allow_inf_nan=False)]
Noise = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
ModelName = Annotated[str, Field(min_length=1, max_length=64, description="A name from /api/models.")]
Steps = Annotated[int, Field(ge=1, le=MAX_STEPS, description="Solver calls a draw.")]
Probability = Annotated[
    float, Field(gt=0, lt=1, allow_inf_nan=False, description="A quantile at 0 or 1 would be infinite.")
]
Brightness = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


R = TypeVar("R", bound="Request")


class Request(BaseModel):
    """A request; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")


class Point(Request):
    """An observation `y` at `x`; `noise` is the standard deviation of its noise, on top of the noise of the functions."""

    x: Input
    y: Value
    noise: Noise = 0.0


class Conditioned(Request):
    """A model given points; without points it is the prior."""

    model: ModelName
    context: Annotated[list[Point], Field(max_length=MAX_CONTEXT)] = []


class ExactRequest(Conditioned):
    at: Annotated[list[Input], Field(min_length=1, max_length=MAX_POINTS, description="Inputs of the functions.")]
    probabilities: Annotated[list[Probability], Field(min_length=1, max_length=32)] = [0.05, 0.25, 0.5, 0.75, 0.95]


class SummaryRequest(ExactRequest):
    num_samples: Annotated[int, Field(ge=2, le=MAX_DRAWS)] = 64
    steps: Steps = 7

    @model_validator(mode="after")
    def _affordable(self) -> "SummaryRequest":
        return _check_work(self, self.num_samples * len(self.at) * self.steps)


class DrawRequest(Conditioned):
    at: Annotated[list[Input], Field(min_length=1, max_length=MAX_POINTS, description="Inputs of the functions.")]
    draws: Annotated[int, Field(ge=1, le=MAX_DRAWS)] = 32
    steps: Steps = 7
    seed: Seed = 0
    trajectory: Annotated[bool, Field(description="Whether to return the states of the solver as well.")] = False

    @model_validator(mode="after")
    def _affordable(self) -> "DrawRequest":
        return _check_work(self, self.draws * len(self.at) * self.steps)


class GivenRequest(Conditioned):
    """Functions that agree with facts: never negative, increasing or decreasing, or with an integral of one."""

    at: Annotated[list[Input], Field(min_length=1, max_length=MAX_GIVEN_POINTS, description="Inputs of the functions.")]
    facts: Annotated[
        list[Literal["not-negative", "increasing", "decreasing", "integral-one"]],
        Field(min_length=1, max_length=4, description="The integral is over the inputs of the functions."),
    ]
    draws: Annotated[int, Field(ge=1, le=MAX_GIVEN_DRAWS)] = 32
    seed: Seed = 0


class DensityRequest(Conditioned):
    at: Annotated[list[Input], Field(min_length=1, max_length=16, description="Inputs of every function.")]
    values: Annotated[
        list[list[Value]],
        Field(
            min_length=1, max_length=MAX_DENSITIES, description="Function values at these inputs, one row a function."
        ),
    ]
    noise: Annotated[
        Noise, Field(description="Standard deviation of noise in these values, on top of the noise of the functions.")
    ] = 0.0
    steps: Annotated[int, Field(ge=2, le=20, description="Steps of the likelihood's ODE.")] = 12

    @model_validator(mode="after")
    def _rectangular(self) -> "DensityRequest":
        if any(len(row) != len(self.at) for row in self.values):
            raise ValueError(f"every function needs {len(self.at)} values, one for each input")
        if len(self.values) * len(self.at) > MAX_DENSITIES:
            raise ValueError(f"at most {MAX_DENSITIES} values at a time")
        return self


class CompletionRequest(Request):
    """A picture of which some pixels are known; without known pixels it is the prior."""

    model: Annotated[str, Field(min_length=1, max_length=64, description="A name from /api/images/models.")]
    pixels: Annotated[
        list[Annotated[list[Brightness], Field(min_length=1, max_length=3)] | None],
        Field(max_length=1024, description="Row by row: the values of a pixel, from 0 to 1, or null if it is unknown."),
    ] = []
    draws: Annotated[int, Field(ge=1, le=8)] = 6
    steps: Steps = 8
    seed: Seed = 0

    @model_validator(mode="after")
    def _affordable(self) -> "CompletionRequest":
        calls = self.draws * self.steps
        if calls > MAX_PICTURE_CALLS:
            raise ValueError(
                f"draws x solver calls is {calls}, and may be at most {MAX_PICTURE_CALLS}; reduce one of them"
            )
        return self


class OptimiseRequest(Request):
    """The points evaluated so far, in order, of the hidden function number `function`."""

    model: ModelName
    method: Annotated[str, Field(max_length=32, description="A name from /api/optimise/methods.")] = "thompson"
    function: Seed = 0
    evaluated: Annotated[list[Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)]], Field(max_length=60)] = []
    draws: Annotated[
        int, Field(ge=1, le=32, description="Functions to show; the first one chooses the next point.")
    ] = 12
    steps: Annotated[int, Field(ge=1, le=20)] = 7
    seed: Seed = 0


class ModelInfo(BaseModel):
    name: str
    title: str
    about: str
    low: float
    high: float
    value_low: float
    value_high: float
    noise_floor: float
    calls: int
    example: list[Point]
    exact: str
    optimises: bool


class ImageModelInfo(BaseModel):
    name: str
    title: str
    about: str
    size: Annotated[int, Field(description="Pixels across, and down.")]
    channels: Annotated[int, Field(description="Values a pixel: 1 for grey, 3 for red, green and blue.")]
    calls: int
    example: Annotated[int, Field(description="Seed of the first picture, a draw of the prior.")]


class Completions(BaseModel):
    """Whole pictures, row by row, the known pixels included."""

    completions: list[list[list[float]]]


class Health(BaseModel):
    status: str
    version: str
    models: int
    waiting: int


class State(BaseModel):
    """The draws at one noise level of the solver; `ratio` is sigma / alpha."""

    ratio: float
    values: list[list[float]]


class Draws(BaseModel):
    draws: list[list[float]]
    trajectory: list[State] | None = None


class GivenDraws(BaseModel):
    """Functions that agree with facts, and what is to be said of them."""

    draws: list[list[float]]
    warning: Annotated[str, Field(description="Why the answer is not to be trusted; empty where it is.")] = ""


class Summary(BaseModel):
    mean: list[float]
    std: list[float]
    quantiles: list[list[float]]


class Exact(BaseModel):
    """The exact posterior, or the reason why it is not known."""

    summary: Summary | None
    title: str
    reason: str = ""


class Densities(BaseModel):
    log_density: Annotated[list[float], Field(description="In nats, one number a function.")]


class HiddenFunction(BaseModel):
    x: list[float]
    y: list[float]
    best_x: float
    best_y: float


class OptimiseStep(BaseModel):
    """A step: the next point and its value, with the draws that it was chosen by.

    These are functions drawn at `at`, or inputs drawn for the value `target`. A random point has neither.
    """

    at: list[float]
    draws: list[list[float]]
    target: Annotated[float | None, Field(description="The value y* whose input was drawn.")] = None
    places: Annotated[list[float], Field(description="Draws of the input that has that value.")] = []
    chosen: float
    value: float
    regret: Annotated[list[float], Field(description="Best value so far minus the minimum, after each evaluation.")]


class Problem(BaseModel):
    detail: str


def _check_work(request: R, work: int) -> R:
    if work > MAX_WORK:
        raise ValueError(
            f"draws x points x solver calls is {work:,}, and may be at most {MAX_WORK:,}; reduce one of them"
        )
    return request
