"""What `observation_noise` means in BoTorch's calls, with exact denoisers, and how often observations are encoded."""

from typing import Any

import gpytorch
import pytest
import torch
from botorch.sampling.normal import IIDNormalSampler
from jaxtyping import Float
from torch import Tensor

from ndp.gp.exact import GP, GPPosterior
from ndp.gp.oracle import GPOracle, KnownTargets, gaussian_denoiser
from ndp.models.registry import load_ndp
from ndp.optimise.botorch import NDPModel
from ndp.processes.ndp import NDP

NOISE = 0.3


class SeparatingOracle(GPOracle):
    """The perfect denoiser of a network that separates the function from its noise, as `universal` does."""

    separates_noise = True
    encodings = 0

    def encode_context(self, *args: Any) -> GPPosterior:
        self.encodings += 1
        return super().encode_context(*args)

    def encode_targets(
        self, context: GPPosterior, x: Float[Tensor, "B M D"], *, joint: bool = True, observation_noise: bool = True
    ) -> KnownTargets:
        mean, covariance = context.gaussian(x.double(), observation_noise=observation_noise)
        return KnownTargets(gaussian_denoiser(mean.to(x), covariance[:, None].to(x)), tasks=x.shape[0])


def process() -> GP:
    kernel = gpytorch.kernels.RBFKernel()
    kernel.lengthscale = 0.7
    return GP(kernel, noise=NOISE)


def data() -> tuple[Tensor, Tensor, Tensor]:
    """Observations, and points to ask about."""
    generator = torch.Generator().manual_seed(0)
    x, new = (2 * torch.rand(count, 2, generator=generator, dtype=torch.float64) - 1 for count in (12, 5))
    return x, x.sum(-1, keepdim=True).sin(), new


def model_of(network: GPOracle, **options: Any) -> NDPModel:
    x, y, _ = data()
    return NDPModel(NDP(network), x, y, standardise=False, steps=30, **options)


@pytest.mark.parametrize("noisy", [True, False])
def test_both_kinds_of_values_where_the_ndp_separates_noise(noisy: bool) -> None:
    x, y, new = data()
    exact = process().condition(x[None], y[None]).moments(new[None], observation_noise=noisy)
    found = model_of(SeparatingOracle(process())).posterior(new, observation_noise=noisy)
    torch.testing.assert_close(found.mean, torch.as_tensor(exact.mean)[0], atol=0.01, rtol=0.01)
    torch.testing.assert_close(found.variance.sqrt(), torch.as_tensor(exact.std)[0], atol=0.01, rtol=0.02)


def test_new_observations_vary_more_than_the_function_and_the_default_is_the_function() -> None:
    new = data()[2]
    model = model_of(SeparatingOracle(process()))
    variance, noisy = model.posterior(new).variance, model.posterior(new, observation_noise=True).variance
    assert (noisy > variance + 0.5 * NOISE**2).all()
    torch.testing.assert_close(variance, model.posterior(new, observation_noise=False).variance, rtol=0, atol=0)


def test_an_ndp_with_one_kind_of_values_has_one_posterior() -> None:
    x, y, new = data()
    model = NDPModel(NDP(GPOracle(process()), noise_floor=NOISE), x, y)
    default, noisy = model.posterior(new), model.posterior(new, observation_noise=True)
    torch.testing.assert_close(default.variance, noisy.variance, rtol=0, atol=0)
    assert (default.variance > 0.5 * NOISE**2).all(), "values carry the noise of the functions"


def test_universal_separates_noise() -> None:
    x, y, new = data()
    y = y + 0.3 * torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    model = NDPModel(load_ndp("universal"), x, y, steps=4)
    assert (model.posterior(new, observation_noise=True).variance > model.posterior(new).variance).all()


def test_variances_of_the_noise_are_refused() -> None:
    new = data()[2]
    model = model_of(SeparatingOracle(process()))
    with pytest.raises(ValueError, match="observation_noise must be True or False"):
        model.posterior(new, observation_noise=torch.full((5, 1), 0.1, dtype=torch.float64))
    with pytest.raises(ValueError, match="fantasies are observations"):
        model.fantasize(new, IIDNormalSampler(torch.Size((2,))), observation_noise=torch.ones(5, 1))
    with pytest.raises(ValueError, match="no noise variances of their own"):
        model.condition_on_observations(new, new[:, :1], noise=torch.ones(5, 1))


def test_fantasies_are_observations_with_noise() -> None:
    x, y, _ = data()
    model = model_of(SeparatingOracle(process()))
    fantasies = model.fantasize(x[:1], IIDNormalSampler(torch.Size((2000,)), seed=0)).train_targets[:, -1]
    exact = process().condition(x[None], y[None]).std(x[None, :1], observation_noise=True).item()
    assert fantasies.std().item() == pytest.approx(exact, rel=0.08)  # 5 standard errors of 2,000 draws


def test_observations_are_encoded_once_for_a_posterior() -> None:
    network = SeparatingOracle(process())
    posterior = model_of(network).posterior(data()[2])
    assert posterior.mean.shape == posterior.variance.shape == (5, 1)
    posterior.rsample(torch.Size((3,)))
    assert network.encodings == 1


def test_every_model_of_a_batch_has_units_of_its_own() -> None:
    x, y, new = data()
    network = NDP(GPOracle(process()), noise_floor=NOISE)
    bounds = torch.tensor([[-2.0, -1.0], [1.0, 3.0]], dtype=torch.float64)
    scaled = 1e6 + 100 * y.flip(0)
    both = NDPModel(network, x.expand(2, -1, -1), torch.stack([y, scaled]), bounds=bounds)
    found = both.posterior(new).mean
    for index, values in enumerate((y, scaled)):
        one = NDPModel(network, x, values, bounds=bounds).posterior(new).mean
        torch.testing.assert_close(found[index], one, rtol=1e-9, atol=1e-6)
    grown = both.condition_on_observations(new[:2], y[:2])
    assert grown.train_targets.shape == (2, 14)
    fantasies = both.fantasize(new[:2], IIDNormalSampler(torch.Size((3,)), seed=0))
    assert fantasies.posterior(new).mean.shape == (3, 2, 5, 1)
    assert (fantasies.posterior(new).mean[:, 1] > 9e5).all()


def test_large_offsets_lose_no_digits() -> None:
    x, y, new = data()
    network = NDP(GPOracle(process()), noise_floor=NOISE)
    here, there = NDPModel(network, x, y), NDPModel(network, x, 1e8 + y)
    torch.testing.assert_close(there.posterior(new).variance, here.posterior(new).variance, rtol=1e-5, atol=1e-7)
