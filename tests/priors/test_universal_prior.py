"""The universal prior: every family against its textbook formula, units set by the context, and both kinds of targets."""

import math

import pytest
import torch

from ndp.core.units import centre_and_spread
from ndp.priors.kernel_family import FAMILIES, LONGEST, SHARES, SHORTEST, Kernels, draw_kernels
from ndp.priors.observation import draw_noise_sizes
from ndp.priors.universal import FARTHEST_INPUT, FARTHEST_VALUE, Universal, draw_functions

TEXTBOOK = {
    "squared exponential": lambda r: torch.exp(-(r**2) / 2),
    "Matern-1/2": lambda r: torch.exp(-r),
    "Matern-3/2": lambda r: (1 + math.sqrt(3) * r) * torch.exp(-math.sqrt(3) * r),
    "Matern-5/2": lambda r: (1 + math.sqrt(5) * r + 5 / 3 * r**2) * torch.exp(-math.sqrt(5) * r),
    "rational quadratic": lambda r: (1 + r**2 / (2 * 0.7)) ** -0.7,
}


def kernels(family: str, dim: int) -> Kernels:
    ones = torch.ones(1, 1, dim, dtype=torch.float64)
    return Kernels(
        coefficients=torch.tensor([FAMILIES[family]], dtype=torch.float64),
        exponent=torch.full((1, 1, 1), 0.7, dtype=torch.float64),
        inverse_lengthscale=ones / 0.5,
        period=0.8 * ones,
        centre=0.3 * ones,
    )


@pytest.mark.parametrize("family", list(FAMILIES))
def test_one_formula_is_every_family(family: str) -> None:
    x = torch.randn(1, 12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = kernels(family, 3).covariance(x)[0]
    difference = x[0, :, None] - x[0, None]
    if family == "periodic":
        expected = torch.exp(-2 * (torch.sin(math.pi * difference / 0.8) / 0.5).square().sum(-1))
    elif family == "linear":
        centred = (x[0] - 0.3) / 0.5
        expected = (1 + centred @ centred.mT) / 2
    else:
        expected = TEXTBOOK[family]((difference / 0.5).norm(dim=-1))
    torch.testing.assert_close(found, expected, atol=1e-7, rtol=1e-7)
    assert sum(SHARES) == pytest.approx(1)


@pytest.mark.parametrize("dim", [1, 5])
def test_lengthscales_are_as_often_short_as_long_and_differ_between_inputs(dim: int) -> None:
    generator = torch.Generator().manual_seed(0)
    relevant = torch.rand(4000, dim, generator=generator) < 0.6
    relevant[:, 0] = True
    inverse = draw_kernels(4000, dim, relevant, generator).inverse_lengthscale[:, 0]
    assert torch.equal(inverse > 0, relevant)
    count = relevant.sum(1)
    logs = torch.where(relevant, -inverse.log(), 0.0)
    mean = logs.sum(1) / count
    log_shared = mean - 0.5 * count.log()
    share = (log_shared - math.log(SHORTEST)) / math.log(LONGEST / SHORTEST)  # of the way from short to long
    quantiles = torch.linspace(0.1, 0.9, 9, dtype=torch.float64)
    torch.testing.assert_close(torch.quantile(share, quantiles), quantiles, atol=0.03, rtol=0)
    apart = torch.where(relevant, logs - mean[:, None], 0.0)
    assert (apart.abs().max() < 2 * math.log(4)) & ((apart.abs().max() > math.log(2)) | (dim == 1))


@pytest.mark.parametrize("dim", [1, 4, 10])
def test_tasks_are_in_the_units_of_their_context_and_ask_for_both_kinds(dim: int) -> None:
    batch = Universal(dim, most_context=24, targets=12).draw(300, generator=torch.Generator().manual_seed(1))
    assert batch.of_function is not None
    assert 0.3 < batch.of_function.double().mean() < 0.7
    x, y, mask = batch.context
    sizes = mask.sum(1)
    assert sizes.min() == 0
    assert sizes.max() == 24
    for values in (x, y):
        centre, spread = centre_and_spread(values, mask)
        assert centre[sizes > 1].abs().max() < 1e-9
        moved = spread[sizes > 1]
        assert ((moved - 1).abs() < 1e-9)[moved > 0].all()
    assert (y**3).sum(1).min() > -1e-6  # mirror images of tasks are the same task
    assert (x * y).sum(1).min() > -1e-6
    targets, real = batch.y[:, 24:, 0], batch.mask[:, 24:]
    assert real[:, 0].double().mean() > 0.85
    assert 1 <= real.sum(1).max() == 12
    assert 0.2 < real.double().mean() < 0.6  # from one target to all, as many from 1 to 3 as from 4 to 12
    assert torch.isfinite(batch.y).all()
    assert targets.abs().max() < FARTHEST_VALUE
    assert batch.x[:, 24:].abs().max() < FARTHEST_INPUT
    assert 0.8 < targets[real].std() < 1.6


def test_targets_that_are_asked_for_alone_are_all_there_and_a_context_has_the_least_that_is_asked_for() -> None:
    source = Universal(2, most_context=24, targets=12, least_context=7, independent=True)
    batch = source.draw(300, generator=torch.Generator().manual_seed(1))
    assert batch.independent
    assert batch.mask[:, 24:].double().mean() > 0.85
    sizes = batch.context[2].sum(1)
    assert (sizes.min(), sizes.max()) == (7, 24)


def test_a_batch_is_a_function_of_its_generator() -> None:
    first, again, other = (
        Universal(2, 8, 4).draw(5, generator=torch.Generator().manual_seed(seed)).y for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_functions_have_about_unit_variance_and_noise_every_size_it_should() -> None:
    x = torch.randn(3000, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    of_any_kind = torch.zeros(3000, 1, dtype=torch.bool)
    f = draw_functions(x, of_any_kind, torch.Generator().manual_seed(2)).values
    assert 0.7 < f.std() < 1.6
    noise = draw_noise_sizes(x, of_any_kind, torch.Generator().manual_seed(3))
    size = noise.median(dim=1).values
    assert 0.02 < (size == 0).double().mean() < 0.08
    quantiles = size.quantile(torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64))
    assert quantiles[0] < 0.005
    assert 0.05 < quantiles[1] < 0.2
    assert quantiles[2] > 0.3
    assert (noise.amax(1) / size)[size > 0].max() > 10  # heavy tails


def test_plain_tasks_are_gaussian_processes_with_normal_noise_of_one_size_and_so_are_a_share_of_all() -> None:
    x = torch.randn(2000, 6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    plain = torch.arange(2000)[:, None] % 2 == 0
    functions = draw_functions(x, plain, torch.Generator().manual_seed(2))
    noise = draw_noise_sizes(x, plain, torch.Generator().manual_seed(3))
    assert (functions.mean[plain[:, 0]] == 0).all()  # no jumps
    assert functions.gaussian[plain[:, 0]].double().mean() > 0.85  # but for linear ones that leave the range
    assert functions.gaussian[~plain[:, 0]].double().mean() < 0.65  # a third is warped
    even = (noise.amax(1) - noise.amin(1)) <= 1e-12 * noise.amax(1)
    assert even[plain[:, 0]].all()
    assert 0.35 < even[~plain[:, 0]].double().mean() < 0.55
    # Values of plain functions at one place are draws of N(0, variance): whitened by it, they have the normal's kurtosis.
    whitened = (functions.values / functions.covariance.diagonal(dim1=-2, dim2=-1).sqrt())[
        functions.gaussian & plain[:, 0], 0
    ]
    assert whitened.var() == pytest.approx(1, abs=0.15)
    assert (whitened**4).mean() == pytest.approx(3, abs=0.9)
