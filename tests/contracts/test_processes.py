"""What every process and every posterior must do, whatever it is made of."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ndp
from ndp.core.randomness import noise_from
from ndp.diffusion.solvers import ancestral
from ndp.gp.named import marginalised_gp
from ndp.networks.bidimensional import BiDimensionalAttention
from ndp.networks.joint import JointAttention
from ndp.priors.step import Step
from ndp.processes.neural_process import NeuralProcess
from ndp.processes.refitted_gp import RefittedGP


def small_network(dtype: torch.dtype, units: Any = None, **options: Any) -> ndp.NDP:
    """An untrained network with a random output layer: not a good posterior, but one that must keep the contract."""
    torch.manual_seed(0)
    network = BiDimensionalAttention(width=16, heads=2, blocks=2, level_width=8, **options).to(dtype)
    torch.nn.init.normal_(network.out.weight, std=0.1)
    return ndp.NDP(network.requires_grad_(False), noise_floor=0.05, units=units)


def small_joint_network() -> ndp.NDP:
    """The same of inputs and outputs, whose values at known inputs must keep the contract."""
    torch.manual_seed(0)
    network = JointAttention(width=8, heads=2, blocks=2, level_width=8, anchor_points=3).double()
    torch.nn.init.normal_(network.out.weight, std=0.1)
    return ndp.NDP(network.requires_grad_(False), noise_floor=0.05)


def small_neural_process(kind: str) -> NeuralProcess:
    options = {"width": 16, "dim_embedding": 16, "num_dec_layers": 2}
    model = NeuralProcess(kind, 1, options=options | ({"dim_lv": 4} if kind == "anp" else {"num_basis_functions": 8}))
    model.network.requires_grad_(False)
    return model


def smooth(x: Tensor) -> Tensor:
    return torch.sin(3 * x.sum(-1))


def steps_up(x: Tensor) -> Tensor:
    return (x[..., 0] > 0.3).to(x)


@dataclass(frozen=True)
class Case:
    """A process, how to condition it, and how to draw from the posterior quickly."""

    process: Any
    condition: Callable[..., Any]
    sample: dict[str, Any]
    values: Callable[[Tensor], Tensor] = smooth  # of a function that the process can be conditioned on
    dim: int = 2  # of the inputs of its batches
    has_prior: bool = True
    tolerance: float = 1e-9  # of answers that are the same but for rounding, or for the end of a fit

    def draws(self, posterior: Any, x: Any, count: int | None, seed: int = 0) -> Any:
        return posterior.sample(x, count, generator=torch.Generator().manual_seed(seed), **self.sample)


def cases() -> dict[str, Case]:
    gp, oracle = ndp.load("gp-matern52"), ndp.load("oracle-matern52")
    mixture, _ = marginalised_gp(nodes=5)
    rotary = small_network(torch.float64)
    joint = small_joint_network()
    raw = small_network(torch.float64, attention="per_dimension", inputs="raw")
    fixed = small_network(torch.float64, units=ndp.FixedUnits((5.0,), (0.1,), (1e6,), (30.0,)))
    of_context = small_network(torch.float64, units=ndp.ContextUnits())
    experts = small_network(torch.float64, units=ndp.ContextUnits(), experts=True, separates_noise=True)
    adaptive = small_network(torch.float64, units=ndp.ContextUnits(), experts="adaptive", separates_noise=True)
    steps, refitted = Step(), RefittedGP(domain=(-2.0, 2.0))
    gnp, anp = small_neural_process("gnp"), small_neural_process("anp")
    quick = {"steps": 6}
    return {
        "gp": Case(gp, gp.condition, {}),
        "gp-mixture": Case(mixture, mixture.condition, {}),
        "oracle": Case(oracle, oracle.condition, quick),
        "oracle-repaint": Case(oracle, oracle.repaint, {"steps": 6, "repeats": 2}),
        "network": Case(rotary, rotary.condition, quick),
        "joint": Case(joint, joint.condition, quick),
        "network-heun": Case(rotary, rotary.condition, {**quick, "solver": ndp.heun}),
        "network-ddim": Case(raw, raw.condition, {**quick, "solver": ndp.ddim}),
        "network-repaint": Case(raw, raw.repaint, {"steps": 6, "repeats": 2}),
        "fixed-units": Case(fixed, fixed.condition, quick, dim=1),
        "context-units": Case(of_context, of_context.condition, quick),
        "experts": Case(experts, experts.condition, quick),
        "adaptive-experts": Case(adaptive, adaptive.condition, quick, tolerance=1e-6),
        "step": Case(steps, steps.condition, {}, values=steps_up),
        "gnp": Case(gnp, gnp.condition, {}, dim=1, tolerance=1e-5),
        "anp": Case(anp, anp.condition, {}, dim=1, tolerance=1e-5),
        "refitted-gp": Case(refitted, refitted.condition, {}, has_prior=False, tolerance=1e-4),
    }


CASES = cases()
every_case = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
X = torch.linspace(-1.5, 1.5, 5, dtype=torch.float64)[:, None]
Y = smooth(X)
X_NEW = torch.linspace(-2, 2, 7, dtype=torch.float64)[:, None]


def batch(tasks: int, dim: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs of contexts, masks, and inputs of targets."""
    generator = torch.Generator().manual_seed(5)
    x = 4 * torch.rand(tasks, 5, dim, generator=generator, dtype=torch.float64) - 2
    mask = torch.rand(tasks, 5, generator=generator) > 0.3
    return x, mask, 4 * torch.rand(tasks, 6, dim, generator=generator, dtype=torch.float64) - 2


@every_case
def test_protocols(case: Case) -> None:
    assert isinstance(case.process, ndp.Process)
    assert isinstance(case.process, ndp.Prior)
    assert isinstance(case.condition(X, case.values(X)), ndp.Posterior)


@every_case
def test_a_seed_decides_a_draw_and_another_seed_gives_another(case: Case) -> None:
    posterior = case.condition(X, case.values(X))
    first, again, other = (case.draws(posterior, X_NEW, 3, seed) for seed in (0, 0, 1))
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert (first - other).abs().max() > 1e-3
    assert (first[0] - first[1]).abs().max() > 1e-3, "draws differ from each other"
    if case.values is not steps_up:
        assert (first - other).abs().min() > 0


@every_case
def test_the_global_generator_is_left_alone(case: Case) -> None:
    before = torch.random.get_rng_state()
    case.condition(X, case.values(X)).sample(X_NEW, 2, **case.sample)
    assert torch.equal(before, torch.random.get_rng_state())


@every_case
def test_without_a_generator_draws_are_fresh(case: Case) -> None:
    posterior = case.condition(X, case.values(X))
    count = 2 if case.values is smooth else 64  # steps often agree at all points
    first, second = (posterior.sample(X_NEW, count, **case.sample) for _ in range(2))
    assert (first - second).abs().max() > 1e-3


@every_case
def test_conditioning_changes_nothing_but_the_posterior(case: Case) -> None:
    def prior() -> Any:
        return case.process.sample(X_NEW, 2, generator=torch.Generator().manual_seed(0)) if case.has_prior else X_NEW

    before = prior()
    x, y = X.clone(), case.values(X)
    posterior = case.condition(x, y)
    drawn = case.draws(posterior, X_NEW, 2)
    assert torch.equal(x, X)
    assert torch.equal(y, case.values(X))
    case.draws(case.condition(X + 0.1, case.values(X + 0.1)), X_NEW, 2)
    torch.testing.assert_close(case.draws(posterior, X_NEW, 2), drawn, rtol=0, atol=0)
    torch.testing.assert_close(prior(), before, rtol=0, atol=0)


@every_case
def test_a_posterior_keeps_its_context_when_the_callers_array_changes(case: Case) -> None:
    x, y = X.clone(), case.values(X)
    posterior = case.condition(x, y)
    before = case.draws(posterior, X_NEW, 2)
    x += 1.0
    y += 1.0
    torch.testing.assert_close(case.draws(posterior, X_NEW, 2), before, rtol=0, atol=0)


@every_case
def test_a_masked_point_is_one_that_was_never_there(case: Case) -> None:
    mask, y, tolerance = torch.tensor([True, False, True, True, False]), case.values(X), case.tolerance
    masked = case.condition(X, torch.where(mask, y, torch.nan), mask=mask)
    without = case.condition(X[mask], y[mask])
    if "repeats" in case.sample:  # RePaint draws noise for masked points too: compare what does not sample
        found, expected = (posterior.log_prob(X_NEW, case.values(X_NEW)) for posterior in (masked, without))
    else:
        found, expected = (case.draws(posterior, X_NEW, 2) for posterior in (masked, without))
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@every_case
def test_the_order_of_context_does_not_matter(case: Case) -> None:
    order, y = torch.tensor([3, 1, 4, 0, 2]), case.values(X)
    if "repeats" in case.sample:
        pytest.skip("RePaint's noise is tied to the order of its context")
    shuffled = case.draws(case.condition(X[order], y[order]), X_NEW, 2)
    torch.testing.assert_close(
        shuffled, case.draws(case.condition(X, y), X_NEW, 2), rtol=case.tolerance, atol=case.tolerance
    )


@every_case
@pytest.mark.parametrize("joint", [True, False])
def test_the_first_draws_are_the_same_however_many_are_made(case: Case, joint: bool) -> None:
    """Also where draws times points is no multiple of what torch makes at once."""
    if "repeats" in case.sample and not joint:
        pytest.skip("RePaint draws all targets together")
    posterior, at = case.condition(X, case.values(X)), torch.linspace(-2, 2, 50, dtype=torch.float64)[:, None]
    few, more = (
        posterior.sample(at, count, joint=joint, generator=torch.Generator().manual_seed(0), **case.sample)
        for count in (3, 5)
    )
    torch.testing.assert_close(few, more[:3], rtol=case.tolerance, atol=case.tolerance)


@every_case
def test_a_batch_equals_a_loop(case: Case) -> None:
    """Densities and moments of a task do not depend on what else is in its batch."""
    x, mask, x_new = batch(3, case.dim)
    y, values = case.values(x)[..., None], case.values(x_new)[..., None]
    together = case.condition(x, y, mask=mask).log_prob(x_new, values)
    each = [slice(task, task + 1) for task in range(3)]
    alone = [case.condition(x[one], y[one], mask=mask[one]).log_prob(x_new[one], values[one]) for one in each]
    torch.testing.assert_close(together, torch.cat(alone), rtol=case.tolerance, atol=case.tolerance)


@every_case
def test_nothing_observed_is_the_prior(case: Case) -> None:
    if not case.has_prior:
        with pytest.raises(ValueError, match="at least one observation"):
            case.condition(X[:0], X[:0, 0])
        with pytest.raises(ValueError, match="at least one observation"):
            case.process.sample(X_NEW)
        return
    nothing = case.condition(X[:0], X[:0, 0])
    if "repeats" in case.sample or "solver" in case.sample:
        drawn = case.draws(nothing, X_NEW, 2)
        assert torch.isfinite(drawn).all()
    else:
        prior = case.process.sample(X_NEW, 2, generator=torch.Generator().manual_seed(0), **case.sample)
        torch.testing.assert_close(case.draws(nothing, X_NEW, 2), prior, rtol=0, atol=0)


@every_case
def test_numpy_in_is_numpy_out_with_the_same_numbers(case: Case) -> None:
    posterior = case.condition(X.numpy(), case.values(X).numpy())
    drawn = case.draws(posterior, X_NEW.numpy(), 3)
    assert isinstance(drawn, np.ndarray)
    np.testing.assert_allclose(
        drawn, case.draws(case.condition(X, case.values(X)), X_NEW, 3).numpy(), rtol=1e-12, atol=1e-12
    )
    assert drawn.shape == (3, 7)
    assert case.draws(posterior, X_NEW.numpy(), None).shape == (7,)
    log_p = posterior.log_prob(X_NEW.numpy(), case.values(X_NEW).numpy())
    assert np.ndim(log_p) == 0
    assert np.isfinite(log_p)


@every_case
def test_quantiles_are_ordered_and_agree_with_moments(case: Case) -> None:
    options = {"num_samples": 64, "steps": 6} if case.sample else {}
    if "repeats" in case.sample:
        options |= {"repeats": 2, "generator": torch.Generator().manual_seed(0)}
    posterior = case.condition(X, case.values(X))
    low, middle, high = posterior.quantiles(X_NEW, [0.1, 0.5, 0.9], **options)
    mean, std = posterior.moments(X_NEW, **options)
    if case.values is steps_up:  # zeros and ones have no density
        assert bool(((low <= middle) & (middle <= high)).all())
        assert torch.equal(middle, (mean > 0.5).double())
        return
    assert (low < middle).all()
    assert (middle < high).all()
    assert ((middle - mean).abs() < 0.6 * std).all()


@pytest.mark.parametrize("inputs", ["rotary", "raw"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_a_draw_is_the_same_alone_and_in_a_batch_of_64(inputs: str, dtype: torch.dtype, tolerance: float) -> None:
    """Same noise, same draw: below 1e-5 in float32 and 1e-12 in float64."""
    model = small_network(dtype, inputs=inputs)
    x, mask, x_new = batch(64)
    y = smooth(x)[..., None]
    noise = torch.randn(2, 64, 6, 1, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    together = model.condition(x, y, mask=mask).sample(x_new, 2, base_noise=noise)
    for b in (0, 31, 63):
        one = slice(b, b + 1)
        alone = model.condition(x[one], y[one], mask=mask[one]).sample(x_new[one], 2, base_noise=noise[:, one])
        torch.testing.assert_close(alone, together[:, one], rtol=0, atol=tolerance)


def test_ancestral_sampling_of_a_posterior_reaches_its_moments() -> None:
    """The paper's sampler, as an option of every posterior, against the exact one: 4,000 draws, 4.5 standard errors."""
    generator = torch.Generator().manual_seed(0)
    solver = partial(ancestral, noise=noise_from(generator))
    posterior = ndp.load("oracle-matern52").condition(X, Y)
    draws = posterior.sample(X_NEW, 4000, steps=200, solver=solver, generator=generator)
    mean, std = ndp.load("gp-matern52").condition(X, Y).moments(X_NEW, observation_noise=True)
    assert ((draws.mean(0) - mean).abs() < 4.5 * std / 4000**0.5 + 0.005).all()
    assert ((draws.std(0) / std - 1).abs() < 4.5 / 8000**0.5 + 0.005).all()


def test_pieces_of_a_large_batch_do_not_change_a_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_network(torch.float64)
    x, mask, x_new = batch(8)
    y = smooth(x)[..., None]
    draw = partial(model.condition(x, y, mask=mask).sample, x_new, 3)
    whole = draw(generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr("ndp.processes.conditioning.TOKENS_PER_CALL", {"cpu": 50})
    torch.testing.assert_close(draw(generator=torch.Generator().manual_seed(0)), whole, rtol=0, atol=1e-12)


def test_noise_that_is_not_a_number_is_refused() -> None:
    noise = torch.full((1, 7), torch.nan)
    with pytest.raises(ValueError, match="base_noise holds NaN"):
        small_network(torch.float64).condition(X, Y).sample(X_NEW, 1, base_noise=noise)


def test_a_draw_is_differentiable_in_its_inputs() -> None:
    """Gradients with respect to x through the solver, against finite differences."""
    model = small_network(torch.float64)
    posterior = model.condition(X, Y)
    noise = torch.randn(1, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def total(x: Tensor) -> Tensor:
        return posterior.sample(x, 1, steps=4, base_noise=noise).square().sum()

    x = X_NEW.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(total(x), x)
    step = torch.zeros_like(X_NEW)
    step[2] = 1e-5
    difference = (total(X_NEW + step) - total(X_NEW - step)) / 2e-5
    assert gradient[2].item() == pytest.approx(difference.item(), rel=1e-5)


def test_a_rotary_network_does_not_mind_where_the_origin_is() -> None:
    """Inputs and context shifted by 100: in float32 the draw moves by less than 1e-4."""
    model = small_network(torch.float32)
    noise = torch.randn(4, 7, generator=torch.Generator().manual_seed(0))
    here = model.condition(X, Y).sample(X_NEW, 4, base_noise=noise)
    there = model.condition(X + 100, Y).sample(X_NEW + 100, 4, base_noise=noise)
    assert (here - there).abs().max() < 1e-4
