"""The score of training: zero for the oracle, the nats that a wrong denoiser costs for others."""

import pytest
import torch

from ndp.diffusion.objective import Objective
from ndp.diffusion.prediction import Prediction
from ndp.gp.exact import GP
from ndp.gp.named import regression_gp
from ndp.gp.oracle import GPOracle
from ndp.priors.tasks import Synthetic
from ndp.processes.validation import HELD_OUT_LOSS, NATS_LOST, Validation
from ndp.training.build import make_model, make_validation
from ndp.training.config import Recipe

CPU = torch.device("cpu")


def validation(gp: GP, exact: GP | None) -> Validation:
    source = Synthetic(gp, targets=20, most_context=5)
    return Validation.of([source], CPU, Objective(), prediction=Prediction.V, exact=exact, tasks=64)


class InDouble:
    """An oracle that takes the float32 points of a validation."""

    translation_equivariant = False
    encodes_context = False

    def __init__(self, gp: GP) -> None:
        self.oracle = GPOracle(gp)

    def __call__(self, x, y_t, level, mask=None, *, num_context=0):
        return self.oracle(x.double(), y_t.double(), level.double(), mask, num_context=num_context).float()


def test_the_exact_denoiser_loses_nothing() -> None:
    gp = regression_gp("se")
    assert validation(gp, gp)(InDouble(gp)) < 1e-5


def test_a_wrong_denoiser_loses_the_divergence_of_its_process() -> None:
    """The denoiser of another GP costs the Kullback-Leibler divergence between the posteriors, in nats a point."""
    gp, wrong = regression_gp("matern52"), regression_gp("matern52")
    wrong.noise = 0.1
    checked = validation(gp, gp)
    (batch,) = checked.tasks
    x, y = batch.x[:, batch.num_context :].double(), batch.y[:, : batch.num_context].double()
    known, mask = batch.x[:, : batch.num_context].double(), batch.mask[:, : batch.num_context]
    posteriors = [one.condition(known, y, mask=mask).gaussian(x, observation_noise=True) for one in (gp, wrong)]
    true, other = (torch.distributions.MultivariateNormal(mean[..., 0], covariance) for mean, covariance in posteriors)
    expected = torch.distributions.kl_divergence(true, other).mean().item() / x.shape[1]
    assert checked(InDouble(wrong)) == pytest.approx(expected, rel=0.1)
    assert expected > 0.05


def test_the_score_is_the_same_at_every_call_and_named() -> None:
    recipe = Recipe(prior="step", network={"width": 16, "heads": 2, "blocks": 1, "level_width": 8})
    network = make_model(recipe).network
    checked = make_validation(recipe, make_model(recipe), CPU)
    assert checked.unit == HELD_OUT_LOSS
    assert checked(network) == checked(network) == make_validation(recipe, make_model(recipe), CPU)(network)
    assert make_validation(Recipe(prior="se"), make_model(Recipe(prior="se")), CPU).unit == NATS_LOST


def test_without_context_all_points_are_targets() -> None:
    recipe = Recipe(prior="se", use_context=False)
    assert all(batch.num_context == 0 for batch in make_validation(recipe, make_model(recipe), CPU).tasks)
