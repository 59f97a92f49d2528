"""The NDP as a BoTorch model, with the exact denoiser, so that the right answers are known."""

import gpytorch
import pytest
import torch
from botorch.acquisition import (
    qKnowledgeGradient,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
    qSimpleRegret,
    qUpperConfidenceBound,
)
from botorch.generation import MaxPosteriorSampling
from botorch.optim import optimize_acqf
from botorch.sampling.normal import IIDNormalSampler
from torch import Tensor

from ndp.gp.exact import GP
from ndp.gp.named import optimisation_gp
from ndp.gp.oracle import GPOracle
from ndp.models.registry import load_ndp
from ndp.optimise.botorch import NDPModel
from ndp.processes.ndp import NDP


def process(noise: float = 0.01) -> tuple[NDP, GP]:
    kernel = gpytorch.kernels.MaternKernel(nu=2.5)
    kernel.lengthscale = 0.5
    gp = GP(kernel, noise=noise)
    return NDP(GPOracle(gp), noise_floor=noise), gp


def data(count: int = 5, dim: int = 2) -> tuple[Tensor, Tensor]:
    x = 2 * torch.rand(count, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 1
    return x, -(x - 0.3).square().sum(-1, keepdim=True)


def test_joint_draws_have_the_exact_covariance() -> None:
    ndp, gp = process(noise=0.05)
    x, y = data()
    model = NDPModel(ndp, x, y, standardise=False, steps=20)
    new = 2 * torch.rand(4, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 1
    mean, covariance = gp.condition(x, y).gaussian(new[None], observation_noise=True)
    assert covariance_error(model, gp, x, y, new) < 0.1
    moments = model.posterior(new)
    torch.testing.assert_close(moments.mean[:, 0], mean[0, :, 0], atol=0.02, rtol=0.02)
    torch.testing.assert_close(moments.variance[:, 0], covariance[0].diagonal(), atol=0.02, rtol=0.05)


def covariance_error(model: NDPModel, gp: GP, x: Tensor, y: Tensor, new: Tensor) -> float:
    """Relative Frobenius error of the covariance of 2,048 draws."""
    torch.manual_seed(0)
    draws = model.posterior(new).rsample(torch.Size((2048,)))[..., 0]
    _, covariance = gp.condition(x, y).gaussian(new[None], observation_noise=True)
    return (
        torch.linalg.matrix_norm(torch.cov(draws.T) - covariance[0]) / torch.linalg.matrix_norm(covariance[0])
    ).item()


@pytest.mark.parametrize("dim", [3])
def test_the_fixed_model_that_ships_has_the_exact_covariance(dim: int) -> None:
    gp = optimisation_gp()
    generator = torch.Generator().manual_seed(dim)
    x = 2 * torch.rand(20, dim, generator=generator, dtype=torch.float64) - 1
    new = 2 * torch.rand(3, dim, generator=generator, dtype=torch.float64) - 1
    y = torch.as_tensor(gp.sample(x, observation_noise=True, generator=generator))[:, None]
    assert covariance_error(NDPModel(load_ndp("bo-fixed"), x, y, standardise=False, steps=20), gp, x, y, new) < 0.1


def test_the_same_point_twice_has_the_same_value() -> None:
    model = NDPModel(process()[0], *data())
    point = torch.full((1, 2), 0.2, dtype=torch.float64)
    twice = torch.cat([point, point + 0.1, point])
    draws = model.posterior(twice).rsample(torch.Size((16,)))
    torch.testing.assert_close(draws[:, 0], draws[:, 2], rtol=0, atol=0)
    assert (draws[:, 0] - draws[:, 1]).abs().max() > 1e-3
    batched = model.posterior(twice.expand(3, 3, 2)).rsample(torch.Size((4,)))
    torch.testing.assert_close(batched[:, :, 0], batched[:, :, 2], rtol=0, atol=0)


def test_bounds_and_scale_do_not_matter() -> None:
    """The same problem in other units has the same answer in those units."""
    ndp = process()[0]
    x, y = data()
    bounds = torch.tensor([[0.0, -5.0], [10.0, 5.0]], dtype=torch.float64)
    wide = bounds[0] + (x + 1) / 2 * (bounds[1] - bounds[0])
    noise = torch.randn(8, 3, 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    size = torch.Size((8,))
    here = NDPModel(ndp, x, y).posterior(x[:3] + 0.05).rsample_from_base_samples(size, noise)
    moved = bounds[0] + (x[:3] + 0.05 + 1) / 2 * (bounds[1] - bounds[0])
    there = NDPModel(ndp, wide, 100 * y + 7, bounds=bounds).posterior(moved).rsample_from_base_samples(size, noise)
    torch.testing.assert_close(there, 100 * here + 7, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_those_of_finite_differences(dtype: torch.dtype) -> None:
    x, y = data()
    model = NDPModel(process()[0], x.to(dtype), y.to(dtype))
    noise = torch.randn(4, 2, 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)

    def total(at: Tensor) -> Tensor:
        return model.posterior(at).rsample_from_base_samples(torch.Size((4,)), noise).sum()

    at = torch.tensor([[0.1, -0.2], [0.4, 0.3]], dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(total(at), at)
    assert slope.dtype == dtype
    step = 1e-3
    for index in ((0, 0), (1, 1)):
        moved = torch.zeros_like(at)
        moved[index] = step
        with torch.no_grad():
            expected = (total(at + moved) - total(at - moved)) / (2 * step)
        assert slope[index].item() == pytest.approx(expected.item(), rel=0.02, abs=0.02)


def test_new_observations_are_those_of_a_new_model() -> None:
    ndp = process()[0]
    x, y = data(7)
    grown = NDPModel(ndp, x[:4], y[:4]).condition_on_observations(x[4:], y[4:])
    torch.testing.assert_close(grown.posterior(x + 0.1).mean, NDPModel(ndp, x, y).posterior(x + 0.1).mean)


BOUNDS = torch.tensor([[-1.0, -1.0], [1.0, 1.0]], dtype=torch.float64)


@pytest.mark.filterwarnings("ignore:Optimization failed")  # of a line search that can do no better: scipy says ABNORMAL
@pytest.mark.parametrize("name", ["qLogEI", "qLogNEI", "qUCB"])
def test_acquisitions_are_maximised_by_gradients(name: str) -> None:
    """What `optimize_acqf` finds is better than the best of a grid; by an upper bound with no width, it is the bowl's top."""
    torch.manual_seed(0)  # which BoTorch takes its starting points from
    x, y = data(20)
    model = NDPModel(process(noise=0.05)[0], x, y, bounds=BOUNDS)
    sampler = IIDNormalSampler(torch.Size((64,)), seed=0)
    acquisition = {
        "qLogEI": lambda: qLogExpectedImprovement(model, best_f=y.max(), sampler=sampler),
        "qLogNEI": lambda: qLogNoisyExpectedImprovement(
            model, X_baseline=x, prune_baseline=False, cache_root=False, sampler=sampler
        ),
        "qUCB": lambda: qUpperConfidenceBound(model, beta=0.01, sampler=sampler),
    }[name]()
    options = {"batch_limit": 4, "maxiter": 25}
    found, value = optimize_acqf(acquisition, BOUNDS, q=1, num_restarts=3, raw_samples=32, options=options)
    axis = torch.linspace(-1, 1, 9, dtype=torch.float64)
    with torch.no_grad():
        grid = acquisition(torch.cartesian_prod(axis, axis)[:, None])
    assert value.item() >= grid.max().item() - 0.05
    if name == "qUCB":
        assert (found - 0.3).abs().max() < 0.2


def test_a_batch_with_a_pending_point_is_worth_what_it_adds() -> None:
    """The same point again adds nothing, another one does."""
    model = NDPModel(process()[0], *data(), bounds=BOUNDS)
    sampler = IIDNormalSampler(torch.Size((1024,)), seed=0)
    acquisition = qLogExpectedImprovement(model, best_f=torch.tensor(-0.2, dtype=torch.float64), sampler=sampler)
    point = torch.tensor([[[0.6, -0.6]]], dtype=torch.float64)
    with torch.no_grad():
        alone = acquisition(point).item()
        acquisition.set_X_pending(point[0])
        again = acquisition(point).item()
        acquisition.set_X_pending(torch.tensor([[-0.9, 0.9]], dtype=torch.float64))
        with_another = acquisition(point).item()
    assert again == pytest.approx(alone, abs=0.15)
    assert with_another > max(alone, again) + 0.2


def test_knowledge_is_worth_something() -> None:
    """After one more observation the best posterior mean is higher than it is now, and not above the bowl's top."""
    torch.manual_seed(0)
    model = NDPModel(process(noise=0.05)[0], *data(6), bounds=BOUNDS)
    options = {"maxiter": 6}
    acquisition = qKnowledgeGradient(model, num_fantasies=4)
    _, value = optimize_acqf(acquisition, BOUNDS, q=1, num_restarts=2, raw_samples=8, options=options)
    axis = torch.linspace(-1, 1, 9, dtype=torch.float64)
    now = model.posterior(torch.cartesian_prod(axis, axis)[:, None]).mean.max().item()
    assert now + 0.02 < value.item() < 0.1


def test_imagined_observations_are_conditioned_on() -> None:
    model = NDPModel(process()[0], *data(), bounds=BOUNDS)
    at = torch.tensor([[0.6, -0.6]], dtype=torch.float64)
    imagined = model.fantasize(at, IIDNormalSampler(torch.Size((3,)), seed=0))
    assert imagined.batch_shape == torch.Size((3,))
    known = imagined.train_targets[:, -1]
    assert known.std() > 0.01
    torch.testing.assert_close(imagined.posterior(at).mean[:, 0, 0], known, atol=0.02, rtol=0)


def test_thompson_sampling_through_botorch() -> None:
    x, y = data(20)
    model = NDPModel(process(noise=0.05)[0], x, y)
    candidates = 2 * torch.rand(64, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64) - 1
    chosen = MaxPosteriorSampling(model, replacement=True)(candidates, num_samples=128)
    away = (candidates - 0.3).norm(dim=-1)
    assert (chosen - 0.3).norm(dim=-1).median() < away.quantile(0.25), "draws are highest near the bowl's top"


def test_a_simple_regret_is_the_mean_of_draws() -> None:
    model = NDPModel(process()[0], *data())
    at = torch.tensor([[[0.1, 0.2]]], dtype=torch.float64)
    assert qSimpleRegret(model)(at).item() == pytest.approx(model.posterior(at[0]).mean.item(), abs=0.15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_Y": torch.zeros(5)}, "train_X must be"),
        ({"train_Y": torch.full((5, 1), float("nan"))}, "NaN or infinity"),
        ({"bounds": torch.zeros(2, 3)}, r"bounds must be \[2, 2\]"),
        ({"bounds": BOUNDS.flip(0)}, "below its upper bound"),
    ],
)
def test_user_errors(change: dict[str, Tensor], message: str) -> None:
    x, y = data()
    with pytest.raises(ValueError, match=message):
        NDPModel(process()[0], **({"train_X": x, "train_Y": y} | change))


def test_a_model_for_other_dimensions_is_refused() -> None:
    ndp = NDP(GPOracle(process()[1]), input_dims=(3, 4))
    with pytest.raises(
        ValueError, match=r"trained for functions of 3, 4 inputs, and train_X has 2; trained for 2: .*matern52"
    ):
        NDPModel(ndp, *data())
