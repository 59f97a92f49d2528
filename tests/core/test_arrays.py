"""What a user may hand in, what comes back, and what is told where something is wrong."""

from collections.abc import Mapping
from typing import Any

import gpytorch
import numpy as np
import pytest
import torch

import ndp

NOISE = 0.05  # of the observations of `gp-se` and `oracle-se`
PRIOR_STD = np.sqrt(1 + NOISE**2)

# Two tasks, so that a mistake in the order of axes shows.
X = np.array([[-0.8, -0.1, 0.3, 0.9], [-0.6, 0.0, 0.2, 0.7]])
Y = np.array([[0.4, -1.1, 0.7, 0.2], [-0.3, 0.9, 1.4, -0.5]])
X_NEW = np.array([-0.5, 0.1, 0.35])
Y_NEW = np.array([[0.1, -0.2, 0.6], [-0.2, 1.2, 1.3]])


@pytest.fixture(params=["gp-se", "oracle-se"])
def model(request: pytest.FixtureRequest) -> ndp.GP | ndp.NDP:
    return ndp.load(request.param)


def covariance(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Squared-exponential, lengthscale sqrt(D) / 4, of inputs [N, D]."""
    squares = np.square(x[:, None] - z[None]).sum(-1)
    return np.exp(-squares / (2 * x.shape[1] / 16))


def exact(x: np.ndarray, y: np.ndarray, x_new: np.ndarray, noise: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance by the textbook, apart from the code under test."""
    seen = covariance(x, x) + np.diag(np.broadcast_to(NOISE**2 + np.square(noise), len(x)))
    cross = covariance(x, x_new)
    prior = covariance(x_new, x_new) + NOISE**2 * np.eye(len(x_new))
    return cross.T @ np.linalg.solve(seen, y), prior - cross.T @ np.linalg.solve(seen, cross)


def exact_log_prob(y: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> float:
    residual = y - mean
    quadratic = residual @ np.linalg.solve(cov, residual)
    return float(-0.5 * (quadratic + np.linalg.slogdet(cov)[1] + len(y) * np.log(2 * np.pi)))


def moments_of(model: ndp.GP | ndp.NDP, posterior: Any, x: Any) -> ndp.Moments:
    """Of new observations, and with fewer draws than by default: their noise is moment-matched."""
    few = {} if isinstance(model, ndp.GP) else {"num_samples": 16}
    return posterior.moments(x, observation_noise=True, **few)


def assert_moments(model: ndp.GP | ndp.NDP, moments: ndp.Moments, mean: np.ndarray, std: np.ndarray) -> None:
    """The GP to all digits; diffusion to what 20 steps cost, 1.2 per cent of the standard deviation."""
    tolerance = 1e-7 if isinstance(model, ndp.GP) else 0.015
    np.testing.assert_allclose(np.asarray(moments.mean), mean, rtol=0, atol=tolerance / 10)
    np.testing.assert_allclose(np.asarray(moments.std), std, rtol=tolerance, atol=0)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# Forms


@pytest.mark.parametrize(
    ("kind", "x_shape", "y_shape", "x_new_shape", "answer"),
    [
        ("numpy", (4,), (4,), (3,), (3,)),
        ("torch", (4,), (4,), (3, 1), (3,)),
        ("numpy", (4, 1), (4,), (3, 1), (3,)),
        ("torch", (4,), (4, 1), (3,), (3, 1)),
        ("numpy", (4, 1), (4, 1), (1, 3, 1), (3, 1)),
        ("torch", (1, 4, 1), (1, 4), (3,), (1, 3)),
        ("numpy", (2, 4, 1), (2, 4), (2, 3, 1), (2, 3)),
        ("torch", (2, 4, 1), (2, 4, 1), (2, 3, 1), (2, 3, 1)),
        ("numpy", (2, 4, 1), (2, 4, 1), (1, 3, 1), (2, 3, 1)),
        ("torch", (2, 4, 1), (2, 4), (3, 1), (2, 3)),
    ],
)
def test_an_answer_has_the_axes_and_the_kind_of_the_question(
    model: ndp.GP | ndp.NDP,
    kind: str,
    x_shape: tuple[int, ...],
    y_shape: tuple[int, ...],
    x_new_shape: tuple[int, ...],
    answer: tuple[int, ...],
) -> None:
    form = torch.from_numpy if kind == "torch" else np.asarray
    batched = len(x_shape) == 3
    tasks = x_shape[0] if batched else 1
    copies = x_new_shape[0] if len(x_new_shape) == 3 else 1
    x, y = form(X[:tasks].reshape(x_shape)), form(Y[:tasks].reshape(y_shape))
    x_new, y_new = form(np.tile(X_NEW, copies).reshape(x_new_shape)), form(Y_NEW[:tasks].reshape(answer))
    posterior = model.condition(x, y)
    moments = moments_of(model, posterior, x_new)
    draws = posterior.sample(x_new, 3, observation_noise=True, generator=seeded())
    log_p = posterior.log_prob(x_new, y_new, observation_noise=True)

    assert all(isinstance(value, torch.Tensor) == (kind == "torch") for value in (*moments, draws, log_p))
    assert moments.mean.shape == moments.std.shape == answer
    assert draws.shape == (3, *answer)
    assert log_p.shape == ((tasks,) if batched else ())

    truth = [exact(X[i, :, None], Y[i], X_NEW[:, None]) for i in range(tasks)]
    mean = np.stack([m for m, _ in truth]).reshape(answer)
    std = np.stack([np.sqrt(np.diag(c)) for _, c in truth]).reshape(answer)
    assert_moments(model, moments, mean, std)
    assert (np.abs(np.asarray(draws) - mean) < 5 * std).all()
    np.testing.assert_allclose(
        np.atleast_1d(log_p),
        [exact_log_prob(Y_NEW[i], *truth[i]) for i in range(tasks)],
        atol=1e-6 if isinstance(model, ndp.GP) else 0.003,  # the likelihood promises 0.001 nats a point
    )


@pytest.mark.parametrize(("x", "answer"), [(X_NEW, (3,)), (np.stack([X_NEW, X_NEW])[..., None], (2, 3, 1))])
def test_quantiles_come_first(model: ndp.GP | ndp.NDP, x: np.ndarray, answer: tuple[int, ...]) -> None:
    tasks = len(x) if x.ndim == 3 else 1
    posterior = model.condition(X[..., None], Y[..., None]) if tasks == 2 else model.condition(X[0], Y[0])
    quantiles = posterior.quantiles(x, [0.1, 0.5, 0.9], observation_noise=True)
    truth = [exact(X[i, :, None], Y[i], X_NEW[:, None]) for i in range(tasks)]
    mean, std = (
        np.stack(values).reshape(answer) for values in zip(*((m, np.diag(c) ** 0.5) for m, c in truth), strict=True)
    )
    error = (np.asarray(quantiles) - np.stack([mean - 1.28155 * std, mean, mean + 1.28155 * std])) / std
    # 256 draws: the standard error of a quantile is sqrt(p (1 - p) / 256) over the density there, 0.11 std at most
    np.testing.assert_allclose(error, 0, atol=1e-4 if isinstance(model, ndp.GP) else 0.45)


def test_one_draw_has_no_axis_of_draws(model: ndp.GP | ndp.NDP) -> None:
    posterior = model.condition(X[0], Y[0])
    np.testing.assert_array_equal(
        posterior.sample(X_NEW, generator=seeded()), posterior.sample(X_NEW, 1, generator=seeded())[0]
    )


@pytest.mark.parametrize(
    ("kind", "shape", "answer"),
    [
        ("numpy", (3,), (3,)),
        ("torch", (3, 1), (3,)),
        ("numpy", (1, 3, 1), (1, 3, 1)),
        ("torch", (3, 1, 1), (3, 1, 1)),
    ],
)
def test_draws_of_the_prior_have_the_form_of_the_inputs(
    model: ndp.GP | ndp.NDP, kind: str, shape: tuple[int, ...], answer: tuple[int, ...]
) -> None:
    x = X_NEW.reshape(shape)
    draws = model.sample(
        torch.from_numpy(x) if kind == "torch" else x, 200, observation_noise=True, generator=seeded(1)
    )
    assert isinstance(draws, torch.Tensor) == (kind == "torch")
    assert draws.shape == (200, *answer)
    wanted = covariance(X_NEW[:, None], X_NEW[:, None])
    if shape == (3, 1, 1):  # points of separate tasks have nothing to do with each other
        wanted = np.eye(3)
    drawn = np.cov(np.asarray(draws).reshape(200, 3).T)
    np.testing.assert_allclose(drawn, wanted + NOISE**2 * np.eye(3), atol=5 * np.sqrt(2 / 200))


def test_points_in_two_dimensions(model: ndp.GP | ndp.NDP) -> None:
    x, x_new = np.stack([X[0], X[1] ** 2], axis=1), np.array([[0.0, 0.1], [0.3, -0.2]])
    mean, cov = exact(x, Y[0], x_new)
    assert_moments(model, moments_of(model, model.condition(x, Y[0]), x_new), mean, np.sqrt(np.diag(cov)))


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS = [
    pytest.param(lambda a: a[::-1].copy()[::-1], id="reversed"),
    pytest.param(lambda a: np.repeat(a, 2)[::2], id="strided"),
    pytest.param(read_only, id="read-only"),
]
DTYPES = [
    pytest.param(lambda a: a.astype(">f8"), id="big-endian"),
    pytest.param(lambda a: a.astype(np.longdouble), id="longdouble"),
]


@pytest.mark.parametrize("awkward", [*LAYOUTS, *DTYPES])
def test_any_array_of_the_same_numbers_gives_the_same_answer(model: ndp.GP | ndp.NDP, awkward: Any) -> None:
    noise = np.abs(Y[0])
    plain = moments_of(model, model.condition(X[0], Y[0], noise=noise), X_NEW)
    posterior = model.condition(awkward(X[0]), awkward(Y[0]), noise=awkward(noise))
    np.testing.assert_allclose(moments_of(model, posterior, awkward(X_NEW)), plain, rtol=1e-12)


@pytest.mark.parametrize("awkward", LAYOUTS)
def test_any_array_of_the_same_mask_gives_the_same_answer(model: ndp.GP | ndp.NDP, awkward: Any) -> None:
    mask = np.array([True, True, False, True])
    plain = moments_of(model, model.condition(X[0], Y[0], mask=mask), X_NEW)
    np.testing.assert_allclose(
        moments_of(model, model.condition(X[0], Y[0], mask=awkward(mask)), X_NEW), plain, rtol=1e-12
    )


def test_whole_numbers_are_numbers(model: ndp.GP | ndp.NDP) -> None:
    x, y = np.array([0, 1, 2]), np.array([1, -1, 0])
    mean, cov = exact(x[:, None].astype(float), y, np.array([[1.0], [3.0]]))
    assert_moments(model, moments_of(model, model.condition(x, y), np.array([1, 3])), mean, np.sqrt(np.diag(cov)))


@pytest.mark.usefixtures("as_installed")
def test_lists_are_read_as_arrays(model: Any) -> None:
    answer = model.condition(X[0].tolist(), Y[0].tolist(), noise=1, mask=[True, True, False, True]).moments(
        X_NEW.tolist()
    )
    wanted = model.condition(X[0, [0, 1, 3]], Y[0, [0, 1, 3]], noise=1.0).moments(X_NEW)
    np.testing.assert_allclose(answer, wanted, rtol=1e-6)


# What is observed


@pytest.mark.parametrize("noise", [0.3, np.array([0.0, 0.5, 0.1, 2.0])])
def test_noise_of_observations_comes_on_top(model: ndp.GP | ndp.NDP, noise: Any) -> None:
    mean, cov = exact(X[0, :, None], Y[0], X_NEW[:, None], noise)
    assert_moments(
        model, moments_of(model, model.condition(X[0], Y[0], noise=noise), X_NEW), mean, np.sqrt(np.diag(cov))
    )


def test_noise_of_zero_is_none(model: ndp.GP | ndp.NDP) -> None:
    without = moments_of(model, model.condition(X[0], Y[0]), X_NEW)
    with_none = moments_of(model, model.condition(X[0], Y[0], noise=0.0), X_NEW)
    np.testing.assert_array_equal(with_none, without)


@pytest.mark.parametrize(
    ("x", "y", "x_new"),
    [
        (np.zeros(0), np.zeros(0), X_NEW),
        (np.zeros((0, 2)), np.zeros(0), np.array([[0.0, 0.1], [0.3, -0.2]])),
        (np.zeros((2, 0, 1)), np.zeros((2, 0)), X_NEW),
    ],
)
def test_nothing_observed_gives_the_prior(
    model: ndp.GP | ndp.NDP, x: np.ndarray, y: np.ndarray, x_new: np.ndarray
) -> None:
    posterior = model.condition(x, y)
    moments = moments_of(model, posterior, x_new)
    assert_moments(model, moments, np.zeros(moments.mean.shape), np.full(moments.mean.shape, PRIOR_STD))
    if x.ndim < 3:
        drawn = posterior.sample(x_new, 3, generator=seeded())
        np.testing.assert_allclose(drawn, model.sample(x_new, 3, generator=seeded()), rtol=1e-12)


def test_everything_masked_gives_the_prior(model: ndp.GP | ndp.NDP) -> None:
    moments = moments_of(model, model.condition(X[0], Y[0], mask=np.zeros(4, dtype=bool)), X_NEW)
    assert_moments(model, moments, np.zeros(3), np.full(3, PRIOR_STD))


@pytest.mark.parametrize("nothing", [np.nan, np.inf, -1e300])
def test_what_a_masked_point_holds_is_harmless(model: ndp.GP | ndp.NDP, nothing: float) -> None:
    x, y, noise, mask = X.copy(), Y.copy(), np.full((2, 4), 0.1), np.ones((2, 4), dtype=bool)
    x[1, 2] = y[1, 2] = noise[1, 2] = nothing
    mask[1, 2] = False
    moments = moments_of(model, model.condition(x[..., None], y, noise=noise, mask=mask), X_NEW)
    left = [[0, 1, 2, 3], [0, 1, 3]]
    truth = [exact(X[i, at, None], Y[i, at], X_NEW[:, None], 0.1) for i, at in enumerate(left)]
    mean, std = (np.stack(values) for values in zip(*((m, np.sqrt(np.diag(c))) for m, c in truth), strict=True))
    assert_moments(model, moments, mean, std)


def test_a_value_seen_twice_counts_twice(model: ndp.GP | ndp.NDP) -> None:
    """Values 0 and 1 at one input are the value 1/2 seen with half the variance."""
    posterior = model.condition(np.array([0.0, 0.0]), np.array([0.0, 1.0]))
    at_both = moments_of(model, posterior, np.array([0.0, 0.3]))
    k = np.array([1.0, np.exp(-(0.3**2) * 8)])
    gain = k / (1 + NOISE**2 / 2)
    assert_moments(model, at_both, 0.5 * gain, np.sqrt(1 + NOISE**2 - k * gain))


@pytest.mark.parametrize("diffusion", [False, True])
def test_two_values_at_one_input_without_noise_are_averaged(diffusion: bool) -> None:
    gp = ndp.GP(gpytorch.kernels.RBFKernel())
    model = ndp.NDP(ndp.GPOracle(gp)) if diffusion else gp
    x_new = np.array([0.0, 0.3, 5.0])
    mean, std = model.condition(np.array([0.0, 0.0]), np.array([0.0, 1.0])).moments(x_new)
    once = gp.condition(np.array([0.0]), np.array([0.5])).moments(x_new)
    np.testing.assert_allclose(mean, once.mean, atol=1e-6)
    np.testing.assert_allclose(std, once.std, rtol=0.02, atol=2e-4)
    draws = model.condition(np.array([0.0, 0.0]), np.array([0.0, 1.0])).sample(x_new, 4, generator=seeded())
    np.testing.assert_allclose(np.asarray(draws)[:, 0], 0.5, atol=1e-3)


def test_a_target_asked_for_twice_has_one_function_under_its_noise(model: ndp.GP | ndp.NDP) -> None:
    draws = np.asarray(model.condition(X[0], Y[0]).sample(np.array([0.6, 0.6]), 50, generator=seeded()))
    assert draws[:, 0].std() > 0.3
    assert np.abs(draws[:, 0] - draws[:, 1]).max() < 5 * np.sqrt(2) * NOISE


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_posterior_owns_its_context(model: ndp.GP | ndp.NDP, kind: str) -> None:
    form: Any = torch.from_numpy if kind == "torch" else np.asarray
    x, y, noise, mask = (form(a.copy()) for a in (X[0], Y[0], np.full(4, 0.2), np.array([True, True, False, True])))
    posterior = model.condition(x, y, noise=noise, mask=mask)
    before = moments_of(model, posterior, X_NEW)
    for handed in (x, y, noise):
        handed += 1.0
    mask[:] = ~mask
    np.testing.assert_array_equal(moments_of(model, posterior, X_NEW), before)


# What is wrong

BAD_CONTEXTS: list[tuple[dict[str, Any], str]] = [
    ({"x": np.zeros((2, 3, 4, 1))}, r"x must have shape \[N\], \[N, D\] or \[B, N, D\]; its shape is \[2, 3, 4, 1\]"),
    ({"x": np.array(0.5)}, r"x must have shape .* its shape is \[\]"),
    ({"x": np.zeros((0, 4, 1)), "y": np.zeros((0, 4))}, "x holds no tasks"),
    ({"x": np.zeros((4, 0))}, r"x has no input dimensions: its shape is \[1, 4, 0\]"),
    ({"y": Y[0, :3]}, r"y must have shape \[4, 1\] or \[4\] to go with 4 points .* its shape is \[3\]"),
    ({"y": Y}, r"y must have shape \[4, 1\] or \[4\] .* its shape is \[2, 4\]"),
    ({"y": np.zeros((4, 2))}, r"of 1 output\(s\); its shape is \[4, 2\]"),
    ({"y": np.array(1.0)}, r"y must have shape .* its shape is \[\]"),
    ({"x": X[..., None], "y": Y[0]}, r"y must have shape \[2, 4, 1\] or \[2, 4\] .* its shape is \[4\]"),
    ({"x": X[..., None], "y": Y.T}, r"its shape is \[4, 2\]"),
    ({"x": np.array([0.0, 1.0, np.nan, 2.0])}, r"x holds nan at point 2 \(counted from 0\); remove the point or leave"),
    ({"x": np.array([[0.0, 1.0], [2.0, -np.inf]]), "y": np.zeros(2)}, "x holds -inf at point 1, column 1"),
    ({"y": np.array([np.inf, 1.0, 1.0, 2.0])}, "y holds inf at point 0 "),
    ({"x": X[..., None], "y": np.array([Y[0], [0, np.nan, 0, 0]])}, "y holds nan at point 1 of task 1"),
    ({"y": np.array([np.nan, 1, 1, 2]), "mask": np.array([True, True, True, False])}, "y holds nan at point 0"),
    ({"y": np.array([True, False, True, True])}, "y must be an array of real numbers, not bool"),
    ({"y": torch.zeros(4, dtype=torch.bool)}, "y must be an array of real numbers, not torch.bool"),
    ({"x": X[0] + 1j}, "x must be an array of real numbers, not complex128"),
    ({"x": torch.zeros(4, dtype=torch.complex64)}, "x must be an array of real numbers, not torch.complex64"),
    ({"x": np.array(["0", "1", "2", "3"])}, "x must be an array of real numbers, not str_"),
    ({"y": np.array([0, 1, None, 3])}, "y must be an array of real numbers, not object_"),
    ({"x": np.arange("2024-01-01", "2024-01-05", dtype="datetime64[D]")}, "x must .* not datetime64"),
    ({"noise": -0.1}, "noise is a standard deviation: every value must be finite and not negative"),
    ({"noise": np.nan}, "noise is a standard deviation"),
    ({"noise": np.array([0.1, np.inf, 0.1, 0.1])}, "noise is a standard deviation"),
    ({"noise": np.array([0.1, 0.1, 0.1, -1e-9])}, "noise is a standard deviation"),
    ({"noise": 1e301}, r"noise is a standard deviation.* at most 1e\+300"),
    (
        {"y": np.array([1.0, -1e308, 1.0, 2.0])},
        r"y holds -1e\+308 at point 1 .* numbers above 1e\+300 in size are too large",
    ),
    (
        {"x": np.ma.masked_array(X[0], mask=X[0] > 0)},
        "x is a masked array, whose mask would be lost; pass its values, and m",
    ),
    ({"x": torch.eye(4, 1).to_sparse()}, "x must be a dense tensor"),
    ({"noise": np.array([0.1, 0.1])}, r"noise must be one number or have shape \[4\]; its shape is \[2\]"),
    ({"noise": np.full((4, 1), 0.1)}, r"noise must be one number or have shape \[4\]; its shape is \[4, 1\]"),
    (
        {"x": X[..., None], "y": Y, "noise": np.full(4, 0.1)},
        r"noise must be one number or have shape \[2, 4\]; its shape is \[4\]",
    ),
    ({"noise": np.array(["a"] * 4)}, "noise must be an array of real numbers, not str_"),
    ({"mask": np.array([1, 0, 1, 1])}, r"mask must hold booleans \(True is a real point\), not int64"),
    ({"mask": torch.ones(4)}, r"mask must hold booleans \(True is a real point\), not torch.float32"),
    ({"mask": np.array(["yes", "no", "yes", "yes"])}, "mask must hold booleans"),
    ({"mask": np.array([True, False])}, r"mask must have shape \[4\]; its shape is \[2\]"),
    ({"mask": np.ones((4, 1), dtype=bool)}, r"mask must have shape \[4\]; its shape is \[4, 1\]"),
    ({"x": X[..., None], "y": Y, "mask": np.ones(4, dtype=bool)}, r"mask must have shape \[2, 4\]; its shape is \[4\]"),
    # The mask is what is wrong, not the point that it was to leave out.
    ({"y": np.array([np.nan, 1, 1, 2]), "mask": np.array([0, 1, 1, 1])}, "mask must hold booleans"),
    ({"y": np.array([np.nan, 1, 1, 2]), "mask": np.array([False, True])}, "mask must have shape"),
]


@pytest.mark.parametrize(("wrong", "message"), BAD_CONTEXTS)
def test_a_bad_context_is_told_in_words(model: ndp.GP | ndp.NDP, wrong: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.condition(**({"x": X[0], "y": Y[0]} | dict(wrong)))


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x": "0 1 2 3"}, "x must be an array of real numbers, not str_"),
        ({"x": None}, "x must be an array of real numbers, not object_"),
        ({"x": [[0.0, 1.0], [2.0]]}, r"x must be an array of numbers \(.*inhomogeneous"),
        ({"y": ["a", "b", "c", "d"]}, "y must be an array of real numbers, not str_"),
        ({"noise": "0.1"}, "noise must be an array of real numbers, not str_"),
        ({"noise": True}, "noise must be an array of real numbers, not bool"),
        ({"mask": "all"}, "mask must hold booleans"),
        ({"mask": [1, 0, 1, 1]}, "mask must hold booleans"),
    ],
)
def test_a_context_that_is_no_array_is_told_in_words(model: Any, wrong: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.condition(**({"x": X[0], "y": Y[0]} | dict(wrong)))


BAD_TARGETS = [
    (np.zeros(0), "x holds no points; ask for at least one"),
    (np.zeros((0, 1)), "x holds no points"),
    (np.zeros((2, 3, 4, 1)), r"x must have shape \[N\], \[N, D\] or \[B, N, D\]; its shape is \[2, 3, 4, 1\]"),
    (np.zeros((3, 2)), r"x has 2 input dimension\(s\) \(its last axis\) and the context has 1"),
    (np.zeros((2, 3, 1)), r"x holds 2 task\(s\) and the context 1; pass as many, or one for all"),
    (np.array([0.0, np.nan]), "x holds nan at point 1 "),
    (np.array(["a"]), "x must be an array of real numbers, not str_"),
]


@pytest.mark.parametrize(("x", "message"), BAD_TARGETS)
@pytest.mark.parametrize("ask", ["sample", "moments", "quantiles", "log_prob"])
def test_bad_targets_are_told_in_words(model: ndp.GP | ndp.NDP, ask: str, x: np.ndarray, message: str) -> None:
    posterior = model.condition(X[0], Y[0])
    rest: dict[str, list[Any]] = {"quantiles": [[0.5]], "log_prob": [np.zeros(x.shape[:1])]}
    with pytest.raises(ValueError, match=message):
        getattr(posterior, ask)(x, *rest.get(ask, []))


@pytest.mark.parametrize(("x", "message"), [case for case in BAD_TARGETS if "context" not in case[1]])
def test_bad_inputs_of_the_prior_are_told_in_words(model: ndp.GP | ndp.NDP, x: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.sample(x, 2)


def test_tasks_of_targets_and_context_must_agree(model: ndp.GP | ndp.NDP) -> None:
    posterior = model.condition(X[..., None], Y)
    with pytest.raises(ValueError, match=r"x holds 3 task\(s\) and the context 2; pass as many, or one for all"):
        posterior.moments(np.zeros((3, 4, 1)))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(2), r"y must have shape \[3, 1\] or \[3\] to go with 3 points of 1 output\(s\); its shape is \[2\]"),
        (np.zeros((1, 3)), r"y must have shape .* its shape is \[1, 3\]"),
        (np.array([0.0, np.nan, 1.0]), "y holds nan at point 1 "),
        (np.array(["a", "b", "c"]), "y must be an array of real numbers"),
    ],
)
def test_bad_values_to_score_are_told_in_words(model: ndp.GP | ndp.NDP, y: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.condition(X[0], Y[0]).log_prob(X_NEW, y)


def test_values_to_score_go_with_the_tasks_of_the_context(model: ndp.GP | ndp.NDP) -> None:
    with pytest.raises(ValueError, match=r"y must have shape \[2, 3, 1\] or \[2, 3\] .* its shape is \[3\]"):
        model.condition(X[..., None], Y).log_prob(X_NEW, np.zeros(3))


@pytest.mark.parametrize("num_samples", [0, -3])
def test_at_least_one_draw(model: ndp.GP | ndp.NDP, num_samples: int) -> None:
    message = f"num_samples must be a whole number of at least 1, not {num_samples}"
    with pytest.raises(ValueError, match=message):
        model.sample(X_NEW, num_samples)
    with pytest.raises(ValueError, match=message):
        model.condition(X[0], Y[0]).sample(X_NEW, num_samples)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("num_samples", [2.0, 2.5, "2", True, [2]])
def test_a_number_of_draws_is_a_whole_number(model: Any, num_samples: object) -> None:
    with pytest.raises(ValueError, match=r"num_samples must be a whole number of at least 1, not "):
        model.condition(X[0], Y[0]).sample(X_NEW, num_samples)


@pytest.mark.usefixtures("as_installed")
def test_a_number_of_draws_may_come_from_numpy(model: Any) -> None:
    draws = model.sample(X_NEW, np.int64(2), generator=seeded())
    np.testing.assert_array_equal(draws, model.sample(X_NEW, 2, generator=seeded()))


@pytest.mark.parametrize("dim", [1, 3])
def test_a_model_says_which_input_dimensions_it_supports(dim: int) -> None:
    gp = ndp.load("gp-se")
    assert isinstance(gp, ndp.GP)
    model = ndp.NDP(ndp.GPOracle(gp), noise_floor=NOISE, input_dims=(2, 4))
    message = rf"x has {dim} input dimension\(s\) \(its last axis\); this model supports 2, 4"
    x = np.zeros((3, dim))
    with pytest.raises(ValueError, match=message):
        model.sample(x, 2)
    with pytest.raises(ValueError, match=message):
        model.condition(x, np.zeros(3))
    with pytest.raises(ValueError, match=message):
        model.log_prob(x, np.zeros(3))
    with pytest.raises(ValueError, match=rf"x has {dim} input dimension\(s\) .* and the context has 2"):
        model.condition(np.zeros((3, 2)), np.zeros(3)).moments(x)
