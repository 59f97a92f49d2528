"""What a user may hand in, and what comes back."""

from typing import Any

import gpytorch
import numpy as np
import pytest
import torch

import ndp
from two_tasks import NOISE, X_NEW, X, Y, seeded

PRIOR_STD = np.sqrt(1 + NOISE**2)

Y_NEW = np.array([[0.1, -0.2, 0.6], [-0.2, 1.2, 1.3]])


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
