"""Odd arrays and arguments: an answer is finite and in the units of the data, or is refused in one sentence.

Scales go from 1e-310 to 1e308. Within 1e-285 and 1e285 an answer is required, and must follow the change of units: x -> a x and
y -> b y + c turn an answer into b times it, plus c. Beyond these a sentence is enough.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.reliability.attempts import Attempt, Sizes, bad_message, is_refused
from ndp.core.units import ContextUnits
from ndp.models.registry import load_ndp
from ndp.networks.bidimensional import BiDimensionalAttention
from ndp.processes.ndp import NDP
from ndp.sklearn import NDPRegressor

SURE = 285.0  # powers of ten between whose negative and which scales are answered
CLOSE = 2e-3  # of the largest number: what float32 in a network leaves of a change of units, for odd scales
LEVELS = (0.1, 0.5, 0.9)


def attempts(sizes: Sizes, folder: Path) -> Iterator[Attempt]:
    """Changes of units, odd arrays in every place, masks over rubbish, wrong arguments, and nasty data."""
    for seed in range(sizes.of(140)):
        yield Attempt(f"change of units {seed}, posterior", partial(posterior_follows, seed + sizes.seed))
    for seed in range(sizes.of(60)):
        yield Attempt(f"change of units {seed}, regressor", partial(regressor_follows, seed + sizes.seed))
    for seed in range(sizes.of(50)):
        yield Attempt(f"mask over rubbish {seed}", partial(mask_hides, seed + sizes.seed))
    for seed in range(sizes.of(80)):
        yield Attempt(f"nasty data {seed}", partial(nasty_data, seed + sizes.seed))
    cases = [*_odd_arrays(), *_wrong_arguments()]
    order = np.random.default_rng(sizes.seed).permutation(len(cases))
    yield from (cases[i] for i in order[: sizes.of(len(cases))])


@cache
def small_model() -> NDP:
    """A network of two heads with random weights, in units of the context."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = BiDimensionalAttention(width=16, heads=2, blocks=1, level_width=8)
        torch.nn.init.normal_(network.out.weight)
    return NDP(network.requires_grad_(False).eval(), noise_floor=0.05, units=ContextUnits())


@cache
def plain_model() -> NDP:
    """The model `se`, in units of its own."""
    return load_ndp("se")


def answers(model: NDP, x: Any, y: Any, at: Any, y_at: Any, **options: Any) -> dict[str, np.ndarray]:
    """All that a posterior can be asked, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = model.condition(x, y, **options)
        draws = posterior.sample(at, 2, steps=3, generator=torch.Generator().manual_seed(0))
        (mean, std), quantiles = posterior.summary(at, LEVELS, joint=False, steps=3)
        log_prob = posterior.log_prob(at, y_at, joint=False, steps=3)
    found = {"draws": draws, "mean": mean, "std": std, "quantiles": quantiles, "log_prob": log_prob}
    return {name: np.asarray(values, dtype=np.float64) for name, values in found.items()}


def difference(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> str | None:
    """What is not finite, or farther from what is expected than rounding explains."""
    for name, values in found.items():
        if not np.isfinite(values).all():
            return f"{name} is not finite: {values.ravel()[:3]}"
        size = max(np.abs(expected[name]).max(), 1.0 if name == "log_prob" else 1e-12)
        off = np.abs(values - expected[name]).max() / size
        if not off < CLOSE:
            return f"{name} is off by {off:.2g} of its size"
    return None


def posterior_follows(seed: int) -> str | None:
    rng = np.random.default_rng(seed)
    dim, count = int(rng.integers(1, 4)), int(rng.integers(3, 20))
    x, y, at = rng.normal(size=(count, dim)), rng.normal(size=count), rng.normal(size=(3, dim))
    y_at = rng.normal(size=3)
    a, b, offset = _scales(rng, dim), _scales(rng, 1)[0], float(rng.choice([0.0, 1.0, -1e3, 1e6]))
    # What is rounded away beside the offset is no fault of the answer.
    y, y_at = (offset + values - offset for values in (y, y_at))
    expected = answers(small_model(), x, y, at, y_at)
    with np.errstate(over="ignore", under="ignore"):
        given = a * x, b * (y + offset), a * at, b * (y_at + offset)

    def in_old_units() -> dict[str, np.ndarray]:
        found = answers(small_model(), *given)
        found["quantiles"] = found["quantiles"][:: 1 if b > 0 else -1]  # a mirror turns 10 % into 90 %
        scaled = {name: found[name] / b for name in ("draws", "mean", "quantiles")}
        moved = {name: values - offset for name, values in scaled.items()}
        return moved | {"std": found["std"] / abs(b), "log_prob": found["log_prob"] + math.log(abs(b))}

    return _answered_or_refused(in_old_units, expected, [*a, b])


def regressor_follows(seed: int) -> str | None:
    rng = np.random.default_rng(seed)
    dim, count = int(rng.integers(1, 3)), int(rng.integers(3, 20))
    x, y, at = rng.normal(size=(count, dim)), rng.normal(size=count), rng.uniform(-0.5, 0.5, size=(3, dim))
    a, b = _scales(rng, dim), _scales(rng, 1)[0]

    def predict(x: np.ndarray, y: np.ndarray, at: np.ndarray, scale: float) -> dict[str, np.ndarray]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            regressor = NDPRegressor(steps=2).fit(x, y)
            mean, std, quantiles = regressor.predict(at, return_std=True, return_quantiles=LEVELS)
        return {"mean": mean / scale, "std": std / abs(scale), "middle": quantiles[:, 1] / scale}

    expected = predict(x, y, at, 1.0)
    with np.errstate(over="ignore", under="ignore"):
        given = a * x, b * y, a * at, b
    return _answered_or_refused(lambda: predict(*given), expected, [*a, b])


def _scales(rng: np.random.Generator, count: int) -> np.ndarray:
    """Powers of ten of either sign, most of them where an answer is required."""
    power = rng.uniform(-SURE, SURE, count) if rng.random() < 0.8 else rng.uniform(-310, 308, count)
    return rng.choice([-1.0, 1.0], count) * 10.0**power


def _answered_or_refused(
    answer: Callable[[], dict[str, np.ndarray]], expected: dict[str, np.ndarray], scales: Sequence[float]
) -> str | None:
    """Within sure limits the answer must be the expected one; beyond them a sentence will do."""
    sure = all(10**-SURE <= abs(scale) <= 10**SURE for scale in scales)
    try:
        return difference(answer(), expected)
    except ValueError as error:
        return f"refuses scales within its limits: {error}" if sure else bad_message(str(error))


def mask_hides(seed: int) -> str | None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 15))
    x, y, at = rng.normal(size=(count, 2)), rng.normal(size=count), rng.normal(size=(3, 2))
    mask = rng.random(count) < 0.6
    mask[0] = True
    rubbish = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e30, 0.0], size=(count, 3))
    hidden_x, hidden_y = np.where(mask[:, None], x, rubbish[:, :2]), np.where(mask, y, rubbish[:, 2])
    expected = answers(small_model(), x[mask], y[mask], at, np.zeros(3))
    return difference(answers(small_model(), hidden_x, hidden_y, at, np.zeros(3), mask=mask), expected)


def nasty_data(seed: int) -> str | None:
    """Columns of every bad kind, side by side, in a regressor and a posterior: finite, or one sentence."""
    rng = np.random.default_rng(seed)
    count, dim = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    x, y = np.column_stack([_nasty(rng, count) for _ in range(dim)]), _nasty(rng, count)
    at = np.where(rng.random((2, dim)) < 0.7, rng.normal(size=(2, dim)), x[:1])

    def predict() -> dict[str, np.ndarray]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean, std = NDPRegressor(steps=2).fit(x, y).predict(at, return_std=True)
        return {"mean": mean, "std": std}

    for call in (predict, lambda: answers(small_model(), x, y, at, y[:1].repeat(2))):
        try:
            found = call()
        except ValueError as error:
            if wrong := bad_message(str(error)):
                return wrong
            continue
        if not all(np.isfinite(values).all() for values in found.values()):
            return f"an answer is not finite: {found}"
        if (found["std"] < 0).any():
            return "a standard deviation is negative"
    return None


def _nasty(rng: np.random.Generator, count: int) -> np.ndarray:
    values = rng.normal(size=count)
    kinds: list[Callable[[], np.ndarray]] = [
        lambda: values,
        lambda: np.full(count, rng.choice([0.0, 0.1, -7.0, 1e12, 1e299, 1e-299, 5e-324])),
        lambda: np.where(np.arange(count) == 0, rng.choice([1e308, -1e308, 1e299, 1e20, 1e-310]), values),
        lambda: values * 5e-320,
        lambda: 0.1 + np.spacing(0.1) * rng.integers(0, 2, count),
        lambda: rng.choice([-1e15, 1e15, 1e18, 1.7e18]) + values,
        lambda: np.sign(values) * 10.0 ** rng.uniform(-300, 300, count),
        lambda: np.round(values),
        lambda: np.exp(50 * values),
        lambda: np.where(rng.random(count) < 0.5, -0.0, 0.0),
    ]
    return kinds[int(rng.integers(len(kinds)))]()


def _odd_arrays() -> Iterator[Attempt]:
    """Every odd form in every place where an array is handed in."""
    rng = np.random.default_rng(0)
    good = {"x": rng.normal(size=(6, 1)), "y": rng.normal(size=6), "at": rng.normal(size=(3, 1)), "y_at": np.ones(3)}
    for place, values in good.items():
        for name, odd in {
            "complex": values + 1j,
            "objects": values.astype(object),
            "text": values.astype(str),
            "bytes": values.astype("S"),
            "dates": values.astype("datetime64[D]"),
            "booleans": values > 0,
            "records": np.zeros(len(values), dtype=[("a", float)]),
            "NaN": np.where(values == values.max(), np.nan, values),
            "infinity": np.where(values == values.max(), np.inf, values),
            "1e301": np.where(values == values.max(), 1e301, values),
            "four axes": values[None, None, None],
            "a number": 3.0,
            "nothing": None,
            "one word": "abc",
            "ragged": [[1.0, 2.0], [3.0]],
            "a set": {1.0, 2.0},
            "a masked array": np.ma.masked_array(values, mask=values > 0),
            "a complex tensor": torch.zeros(values.shape, dtype=torch.complex64),
            "a tensor of booleans": torch.zeros(values.shape, dtype=torch.bool),
            "a sparse tensor": torch.tensor(values).to_sparse(),
            "a huge whole number": [10**400] * len(values),
        }.items():
            yield Attempt(f"{name} for {place}", partial(_refused_in, place, odd, good))
        for name, same in {
            "a list": values.tolist(),
            "a tensor": torch.tensor(values),
            "float128": values.astype(np.longdouble),
            "big-endian": values.astype(">f8"),
            "Fortran order": np.asfortranarray(values),
            "strides": np.repeat(values, 2, axis=0)[::2],
            "reversed twice": values[::-1].copy()[::-1],
            "read-only": _read_only(values),
        }.items():
            yield Attempt(f"{name} for {place}", partial(_same_in, place, same, good))
    for place, odd in {
        "x": np.zeros((6, 0)),
        "y": np.zeros(5),
        "at": np.zeros((3, 2)),
        "y_at": np.zeros((3, 2)),
    }.items():
        yield Attempt(f"wrong columns for {place}", partial(_refused_in, place, odd, good))
    masks = {"numbers": np.ones(6), "text": ["yes"] * 6, "short": [True] * 5, "square": np.ones((6, 6), dtype=bool)}
    for name, mask in masks.items():
        call = partial(small_model().condition, good["x"], good["y"], mask=mask)
        yield Attempt(f"a mask of {name}", partial(is_refused, call, "mask"))
    for noise in (-1.0, math.nan, math.inf, 1e301, "much", 1j, [0.1, 0.2], True):
        call = partial(small_model().condition, good["x"], good["y"], noise=noise)
        yield Attempt(f"noise {noise!r}", partial(is_refused, call, "noise"))
    for power in (10, 20, 38, 39, 100, 300):
        for place in ("x", "y", "at", "y_at"):
            yield Attempt(
                f"1e{power} for {place} of a model in units of its own",
                partial(_refused_in, place, good[place] * 10.0**power, good, plain_model),
            )
    for model in ("se", "mnist", "joint", "oracle-se", "gp-se", "nowhere", 3, None):
        call = partial(NDPRegressor(model).fit, good["x"], 1000 + good["y"])
        yield Attempt(f"a regressor of {model!r}", partial(is_refused, call))


def _read_only(values: np.ndarray) -> np.ndarray:
    twin = values.copy()
    twin.flags.writeable = False
    return twin


def _refused_in(place: str, odd: Any, good: dict[str, Any], model: Callable[[], NDP] = small_model) -> str | None:
    named = place.replace("y_at", "y").replace("at", "x")  # as the argument is named where it is handed in
    return is_refused(lambda: answers(model(), **(good | {place: odd})), f"{named} ")


def _same_in(place: str, same: Any, good: dict[str, Any]) -> str | None:
    return difference(answers(small_model(), **(good | {place: same})), answers(small_model(), **good))


def _wrong_arguments() -> Iterator[Attempt]:
    """Arguments of the wrong kind or size, in a posterior and in a regressor."""
    x, y = np.linspace(-1, 1, 6)[:, None], np.linspace(0, 1, 6)
    posterior = small_model().condition(x, y)
    regressor = NDPRegressor(small_model(), steps=2).fit(x, y)
    whole: list[Any] = [True, 2.5, 0, -1, "3", 10**12, [3], math.nan, 2**70]
    for value in whole:
        for name, call in {
            "steps of draws": lambda v: posterior.sample(x, 2, steps=v),
            "steps of moments": lambda v: posterior.moments(x, joint=False, steps=v),
            "steps of joint moments": lambda v: posterior.moments(x, steps=v),
            "steps of a density": lambda v: posterior.log_prob(x, y, joint=False, steps=v),
            "steps of a joint density": lambda v: posterior.log_prob(x, y, steps=v),
            "steps of RePaint": lambda v: small_model().repaint(x, y).sample(x, 1, steps=v),
            "steps of a regressor": lambda v: NDPRegressor(small_model(), steps=v).fit(x, y),
            "draws": lambda v: posterior.sample(x, v),
            "draws of the prior": lambda v: small_model().sample(x, v),
            "draws for moments": lambda v: posterior.moments(x, num_samples=v),
            "draws of a regressor": lambda v: regressor.sample_y(x, v),
        }.items():
            yield Attempt(f"{value!r} for the {name}", partial(is_refused, partial(call, value)))
    for generator in (0, 3, True, "seed", np.random.default_rng(0), [1]):
        for name, asked in {"a posterior": posterior.sample, "the prior": small_model().sample}.items():
            call = partial(asked, x, 2, generator=generator)
            yield Attempt(f"generator {generator!r} of {name}", partial(is_refused, call, "torch.Generator"))
    for levels in ([], [2.0], [-0.1], ["a"], "ab", [math.nan], [1j], [None], [True], [[0.1], [0.2, 0.3]]):
        for asked in (posterior.quantiles, lambda x, levels: regressor.predict(x, return_quantiles=levels)):
            yield Attempt(f"probabilities {levels!r}", partial(is_refused, partial(asked, x, levels)))
    for value in ("yes", 1, 0.0, [True]):
        call = partial(posterior.sample, x, observation_noise=value)
        yield Attempt(f"observation_noise {value!r}", partial(is_refused, call, "observation_noise"))
    for noise in (np.zeros(3), np.full((2, 6), np.nan), "noise", np.zeros((2, 6)) + 1j, None):
        if noise is not None:
            call = partial(posterior.sample, x, 2, base_noise=noise)
            yield Attempt(f"base_noise {noise!r:.40}", partial(is_refused, call, "base_noise"))
