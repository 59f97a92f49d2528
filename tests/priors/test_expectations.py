"""Posterior means: against the oracle, against counting and, for the universal prior, against what posterior means obey."""

import pytest
import torch
from torch import Tensor

from ndp.diffusion.levels import alpha, sigma
from ndp.diffusion.objective import draw_levels, hold_context
from ndp.diffusion.prediction import Prediction
from ndp.gp.oracle import GPOracle
from ndp.priors.expectations import GPExpectation, Noised
from ndp.priors.registry import PRIORS
from ndp.priors.tasks import Batch
from ndp.priors.universal import Universal
from ndp.training.batches import TrainingInputs
from ndp.training.build import make_sources
from ndp.training.config import Recipe

CPU = torch.device("cpu")


def noised(batch: Batch, generator: torch.Generator, noisy_share: float = 0.5) -> tuple[Tensor, Tensor]:
    """Noisy values of a batch, and their levels."""
    tasks, points = batch.mask.shape
    asked = points - batch.num_context
    level = draw_levels(tasks * asked if batch.independent else tasks, generator=generator)
    level = level.unflatten(0, (tasks, -1)) if batch.independent else level
    level = hold_context(level, points, batch.num_context, generator=generator, noisy_share=noisy_share)
    eps = torch.randn(batch.y.shape, generator=generator, dtype=torch.float64)
    return alpha(level)[..., None] * batch.y + sigma(level)[..., None] * eps, level


def a_batch(prior: str, tasks: int, kind: int, dim: int = 1) -> tuple[Batch, torch.Generator]:
    generator = torch.Generator().manual_seed(kind)
    recipe = Recipe.from_dict({"prior": prior, "dims": (dim,), "most_context": 6, "targets": 9})
    return make_sources(recipe, CPU)[kind].draw(tasks, generator=generator), generator


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("prior", ["se", "matern32-marginal", "bo-marginal"])
def test_the_posterior_mean_of_a_gp_is_that_of_the_oracle(prior: str, kind: int) -> None:
    batch, generator = a_batch(prior, 7, kind, dim=2)
    y_t, level = noised(batch, generator)
    assert isinstance(batch.expectation, GPExpectation)
    output = GPOracle(batch.expectation.gp)(batch.x, y_t, level, batch.mask)
    exact = Prediction.V.y0_hat(output, y_t, level)[:, batch.num_context :]
    found = batch.posterior_mean(y_t, level)[:, batch.num_context :]
    asked = batch.mask[:, batch.num_context :]
    torch.testing.assert_close(found[asked], exact[asked], atol=1e-5, rtol=1e-5)


def test_independent_targets_do_not_see_each_other() -> None:
    batch, generator = a_batch("se", 5, 0)
    y_t, level = noised(batch, generator)
    assert batch.expectation is not None
    known = batch.num_context
    found = batch.expectation(Noised(batch.x, y_t, level, batch.mask, known, independent=True))
    for target in range(known, batch.x.shape[1]):
        seen = torch.cat([torch.arange(known), torch.tensor([target])])
        x, y, levels, mask = (t[:, seen] for t in (batch.x, y_t, level, batch.mask))
        one = batch.expectation(Noised(x, y, levels, mask, known, independent=False))
        torch.testing.assert_close(found[:, target], one[:, -1])


@pytest.mark.parametrize("kind", [0, 1, 3])
def test_the_posterior_mean_of_steps_is_what_counting_gives(kind: int) -> None:
    batch, generator = a_batch("step", 6, kind)
    assert batch.independent == (kind == 3)
    y_t, level = noised(batch, generator)
    found = batch.posterior_mean(y_t, level)[..., 0]
    jump = torch.linspace(-1, 1, 200_001, dtype=torch.float64)
    for task in range(6):
        places, value, mask = batch.x[task, :, 0], y_t[task, :, 0], batch.mask[task]
        steps = torch.where(places[:, None] > jump, 1.0, -1.0).double()
        a, s = alpha(level[task])[:, None], sigma(level[task])[:, None]
        each = -((value[:, None] - a * steps).square()) / (2 * s.square()) * mask[:, None]
        context = each[: batch.num_context].sum(0)
        for target in range(batch.num_context, len(places)):
            if mask[target]:
                seen = context + (each[target] if batch.independent else each[batch.num_context :].sum(0))
                exact = (seen.softmax(0) * steps[target]).sum()
                assert abs(found[task, target] - exact) < 2e-3, (task, target)


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("dim", [1, 5])
def test_residuals_of_the_universal_posterior_mean_cannot_be_predicted(dim: int, independent: bool) -> None:
    """Values minus their posterior mean have mean zero and are uncorrelated with everything that was seen."""
    generator = torch.Generator().manual_seed(dim)
    batch = Universal(dim, 12, 8, independent=independent).draw(6000, generator=generator)
    y_t, level = noised(batch, generator, noisy_share=0.1)
    targets = slice(batch.num_context, None)
    mask = batch.mask[:, targets]
    expected = batch.posterior_mean(y_t, level)[:, targets, 0]
    drawn, noisy, level = batch.y[:, targets, 0], y_t[:, targets, 0], level[:, targets]
    left = torch.where(mask, (drawn - expected) / sigma(level), 0.0)  # in units of what a network learns
    known = (left != 0).any(1)
    assert 0.55 < known.double().mean() < 0.8  # all plain tasks but a few, and half of the others
    outputs = (alpha(level) * noisy - expected) / sigma(level)
    for seen in (torch.ones_like(noisy), noisy, outputs.clamp(-5, 5), torch.tanh(expected)):
        product = ((left * seen * mask).sum(1) / mask.sum(1).clamp(min=1))[known]
        assert product.mean().abs() < 4 * product.std() / len(product) ** 0.5
    around_drawn = (left.square().sum(1) / mask.sum(1).clamp(min=1))[known].mean()
    assert around_drawn > 0.4  # this much less scatters what is learned


def test_training_regresses_on_the_posterior_mean_if_the_recipe_says_so() -> None:
    for prior in ("se", "step", "universal"):
        settings = {"prior": prior, "batch": 2, "most_context": 5, "targets": 4}
        drawn, expected = (
            TrainingInputs(make_sources(recipe, CPU), recipe, CPU, rank=0).chunk(0, 0)[0]
            for recipe in (Recipe.from_dict(settings | {"posterior_mean": choice}) for choice in (False, True))
        )
        assert torch.equal(drawn.y0, expected.y0)
        assert drawn.posterior_mean is None
        assert expected.posterior_mean is not None
        assert not torch.equal(expected.posterior_mean, expected.y0)


def test_recipes_without_a_known_posterior_mean_are_refused() -> None:
    for settings, reason in (
        ({"prior": "sawtooth"}, "whose posterior mean is known: se, matern52"),
        ({"prior": "mnist"}, "whose posterior mean is known"),
        ({"data": "curves.csv"}, "whose posterior mean is known"),
        ({"prior": "se", "error": "l1"}, "squared errors"),
        ({"prior": "minima", "model": "joint"}, "squared errors"),
    ):
        with pytest.raises(ValueError, match=reason):
            Recipe.from_dict(settings | {"posterior_mean": True})


@pytest.mark.parametrize("prior", PRIORS)
def test_the_registry_of_priors_says_which_have_a_posterior_mean(prior: str) -> None:
    recipe = Recipe.from_dict({"prior": prior, "dims": (3,) if prior.startswith("bo") else (1,), "most_context": 3})
    batch = make_sources(recipe, CPU)[0].draw(2, generator=torch.Generator().manual_seed(0))
    assert (batch.expectation is not None) == PRIORS[prior].has_posterior_mean
    if batch.expectation is None:
        with pytest.raises(ValueError, match="not known"):
            batch.posterior_mean(batch.y, batch.x[..., 0])
