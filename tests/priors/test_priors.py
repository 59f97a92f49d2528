"""Priors against what is known of their laws, and the contract that they share."""

from functools import partial

import gpytorch
import pytest
import torch
from torch import Tensor

import ndp
from ndp.priors.drawing import FunctionPrior
from ndp.priors.hierarchical import HierarchicalGP, log_normal_lengthscale
from ndp.priors.mixture import Mixture
from ndp.priors.sawtooth import Sawtooth
from ndp.priors.step import Step

MATERN = log_normal_lengthscale(partial(gpytorch.kernels.MaternKernel, nu=1.5), median=0.5, log_std=0.5**0.5)


def noisy_line(x: Tensor, generator: torch.Generator) -> Tensor:
    slope = torch.randn(x.shape[0], 1, generator=generator, dtype=x.dtype)
    return slope * x[..., 0]


PRIORS = {
    "gp": ndp.load("gp-se"),
    "step": Step(),
    "sawtooth": Sawtooth(),
    "mixture": Mixture((Step(), Sawtooth()), (1.0, 3.0)),
    "function": FunctionPrior(noisy_line),
    "hierarchical": HierarchicalGP(MATERN, noise=1e-3),
}


def inputs(tasks: int, points: int, dim: int = 1) -> Tensor:
    return 2 * torch.rand(tasks, points, dim, generator=torch.Generator().manual_seed(9), dtype=torch.float64) - 1


@pytest.mark.parametrize("prior", PRIORS.values(), ids=list(PRIORS))
def test_contract(prior: ndp.Prior) -> None:
    """Shapes, a seed decides, tasks and draws differ, the global generator is left alone."""
    assert isinstance(prior, ndp.Prior)
    x = inputs(5, 7, 2)
    before = torch.random.get_rng_state()
    first, again, other = (prior.sample(x, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1))
    assert first.shape == (5, 7, 1)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    several = prior.sample(x, 40, generator=torch.Generator().manual_seed(0))
    assert several.shape == (40, 5, 7, 1)
    assert (several.std(0) > 0).any()
    prior.sample(x)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_step_is_a_step_at_a_uniform_place() -> None:
    x = torch.linspace(-1, 1, 21, dtype=torch.float64)[None, :, None]
    y = Step().sample(x, 8000, generator=torch.Generator().manual_seed(0))[:, 0, :, 0]
    assert set(y.unique().tolist()) == {0.0, 1.0}
    assert (y.diff(dim=1) >= 0).all()
    expected = (x[0, :, 0] + 1) / 2
    assert (y.mean(0) - expected).abs().max() < 4.5 * (0.25 / 8000) ** 0.5


def test_a_sawtooth_has_unit_variance_and_repeats() -> None:
    x = inputs(4000, 3)
    y = Sawtooth().sample(x, generator=torch.Generator().manual_seed(0))
    assert y.square().mean().item() == pytest.approx(1.0, abs=0.05)
    assert y.abs().max() <= 3**0.5
    wave = Sawtooth(low=1.0, high=1.0)
    first, later = (wave.sample(x + shift, generator=torch.Generator().manual_seed(0)) for shift in (0.0, 1.0))
    torch.testing.assert_close(first, later)


def test_a_mixture_takes_each_task_whole_from_one_prior_at_its_weight() -> None:
    y = PRIORS["mixture"].sample(inputs(8000, 9), generator=torch.Generator().manual_seed(0))
    steps = ((y == 0) | (y == 1)).all(1)[:, 0]
    assert steps.double().mean().item() == pytest.approx(0.25, abs=4.5 * (0.1875 / 8000) ** 0.5)
    assert not ((y == 0) | (y == 1))[~steps].any(), "no task is part step, part sawtooth"


def test_hierarchical_lengthscales_are_log_normal() -> None:
    kernel = MATERN(20_000, 1, torch.Generator().manual_seed(0))
    log = torch.log(kernel.lengthscale.detach().flatten())
    assert log.mean().item() == pytest.approx(torch.log(torch.tensor(0.5)).item(), abs=0.025)
    assert log.std().item() == pytest.approx(0.5**0.5, abs=0.02)


def test_hierarchical_draws_have_the_covariance_of_their_law() -> None:
    """At two points, the covariance is the kernel averaged over lengthscales."""
    x = torch.tensor([[[0.0], [0.4]]], dtype=torch.float64)
    y = PRIORS["hierarchical"].sample(x, 20_000, generator=torch.Generator().manual_seed(0))[:, 0, :, 0]
    scale = torch.exp(
        torch.log(torch.tensor(0.5)) + 0.5**0.5 * torch.randn(50_000, generator=torch.Generator().manual_seed(1))
    )
    r = 3**0.5 * 0.4 / scale
    expected = ((1 + r) * torch.exp(-r)).mean().item()
    product = y[:, 0] * y[:, 1]
    assert product.mean().item() == pytest.approx(expected, abs=4.5 * product.std().item() / 20_000**0.5)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, g: x.sum(), "must answer inputs"),
        (lambda x, g: x[:, :-1, 0], "must answer inputs"),
        (lambda x, g: x[..., 0] * float("nan"), "returned NaN"),
        (lambda x, g: 3.0, "must return a tensor, not float"),
    ],
)
def test_a_function_that_does_not_keep_the_contract_is_told_plainly(function, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FunctionPrior(function).sample(inputs(2, 3))


def test_mixtures_need_priors_and_weights() -> None:
    with pytest.raises(ValueError, match="at least one prior"):
        Mixture(())
    with pytest.raises(ValueError, match="one weight a prior"):
        Mixture((Step(),), (1.0, 2.0))


def test_lengthscales_of_one_task_are_the_same_in_all_dimensions_or_independent() -> None:
    draw = partial(log_normal_lengthscale, partial(gpytorch.kernels.MaternKernel, nu=2.5), median=1.0, log_std=0.7)
    generator = torch.Generator().manual_seed(0)
    assert draw()(500, 3, generator).lengthscale.shape == (500, 1, 1)
    logs = draw(in_each_dimension=True)(5000, 3, generator).lengthscale[:, 0].log()
    assert logs.shape == (5000, 3)
    assert (torch.corrcoef(logs.T) - torch.eye(3)).abs().max() < 0.05
    assert abs(logs.mean().item()) < 0.06
    assert abs(logs.std().item() - 0.7) < 0.05
    assert draw(in_each_dimension=True)(4, 1, generator).lengthscale.shape == (4, 1, 1)
