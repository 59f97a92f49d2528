"""Neural processes in the form of every other process: trained on little, saved, loaded, conditioned."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

import ndp
from ndp.models.registry import read_model, write_model
from ndp.processes.architectures import Kind
from ndp.processes.neural_process import HeldOutLikelihood, NeuralProcess
from ndp.training.build import make_model, make_sources, make_validation
from ndp.training.config import Recipe
from ndp.training.loop import Progress, fit

SMALL: dict[str, dict[str, Any]] = {
    kind: {"width": 16, "dim_embedding": 16, "num_dec_layers": 2, **({"dim_lv": 4} if kind.latent else {})}
    for kind in (Kind.GNP, Kind.ANP, Kind.NP)
} | {
    kind: {"points_per_unit": 8, "unet_channels": (8, 8), **({"dim_lv": 2} if kind.latent else {})}
    for kind in (Kind.CONVCNP, Kind.CONVNP)
}
every_kind = pytest.mark.parametrize("kind", list(Kind))


def small(kind: Kind, dim: int = 1) -> NeuralProcess:
    options = SMALL[kind] | ({"num_basis_functions": 8} if kind is Kind.GNP else {})
    recipe = Recipe(model=str(kind), prior="se", dims=(dim,), network=options)
    model = make_model(recipe)
    assert isinstance(model, NeuralProcess)
    model.network.requires_grad_(False)
    return model


X, Y = np.array([[-1.0], [0.2], [1.1]]), np.array([0.5, -0.3, 0.1])
GRID = np.linspace(-2, 2, 9)[:, None]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@every_kind
def test_it_is_a_process(kind: Kind) -> None:
    model = small(kind)
    assert isinstance(model, ndp.Process)
    posterior = model.condition(X, Y)
    assert isinstance(posterior, ndp.Posterior)
    draws = posterior.sample(GRID, 5, generator=seeded())
    assert draws.shape == (5, 9)
    np.testing.assert_array_equal(draws, posterior.sample(GRID, 5, generator=seeded()))
    assert np.abs(np.asarray(draws) - np.asarray(posterior.sample(GRID, 5, generator=seeded(1)))).max() > 1e-3
    assert posterior.sample(GRID).shape == (9,)
    assert model.sample(GRID, 3).shape == (3, 9)
    assert np.isfinite(posterior.log_prob(GRID, np.zeros(9)))


@every_kind
def test_draws_have_the_moments_and_quantiles_that_it_claims(kind: Kind) -> None:
    posterior = small(kind).condition(X, Y)
    draws = np.asarray(posterior.sample(GRID, 4000, generator=seeded()))
    mean, std = (np.asarray(m) for m in posterior.moments(GRID))
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.12 * std.max())
    np.testing.assert_allclose(draws.std(0), std, rtol=0.12)
    low = np.asarray(posterior.quantiles(GRID, [0.1]))[0]
    assert abs((draws < low).mean() - 0.1) < 0.03


@pytest.mark.parametrize("kind", [Kind.GNP, Kind.CONVCNP])
def test_a_density_is_that_of_a_gaussian_with_its_moments(kind: Kind) -> None:
    """At one point the joint density is the marginal one."""
    posterior = small(kind).condition(X, Y)
    point = GRID[:1]
    mean, std = (float(np.asarray(m)[0]) for m in posterior.moments(point))
    expected = torch.distributions.Normal(mean, std).log_prob(torch.tensor(0.3)).item()
    assert float(posterior.log_prob(point, np.array([0.3]))) == pytest.approx(expected, abs=1e-4)


@every_kind
def test_a_ragged_batch_is_its_tasks_one_by_one(kind: Kind) -> None:
    model = small(kind, dim=2) if kind is not Kind.CONVNP else small(kind)
    dim = model.dim
    x = 2 * torch.rand(3, 4, dim, generator=seeded()).double() - 1
    y = torch.randn(3, 4, 1, generator=seeded(1)).double()
    mask = torch.tensor([[True, False, True, True], [False] * 4, [True] * 4])
    grid = 2 * torch.rand(3, 5, dim, generator=seeded(2)).double() - 1
    values = torch.randn(3, 5, 1, generator=seeded(3)).double()
    together = model.condition(x, y, mask=mask)
    if kind.latent:  # their likelihoods are averages over latent variables, which differ with the batch
        assert torch.isfinite(torch.as_tensor(together.log_prob(grid, values))).all()
        return
    for index in range(3):
        real = mask[index]
        alone = model.condition(x[index : index + 1, real], y[index : index + 1, real])
        one = slice(index, index + 1)
        found = torch.as_tensor(together.log_prob(grid, values))[one]
        torch.testing.assert_close(found, torch.as_tensor(alone.log_prob(grid[one], values[one])), rtol=1e-4, atol=1e-4)


@every_kind
def test_training_lowers_the_loss_and_the_model_comes_back_from_disk(kind: Kind, tmp_path: Path) -> None:
    options = SMALL[kind] | ({"num_basis_functions": 8} if kind is Kind.GNP else {})
    recipe = Recipe.from_dict(
        {
            "model": str(kind),
            "prior": "se",
            "network": options,
            "steps": 32,
            "batch": 8,
            "learning_rate": 3e-3,
            "warmup": 1,
        }
    )
    model = make_model(recipe)
    assert isinstance(model, NeuralProcess)
    device = torch.device("cpu")
    validation = make_validation(recipe, model, device)
    assert isinstance(validation, HeldOutLikelihood)
    before, seen = validation(model.network), []

    def report(progress: Progress) -> None:
        seen.append(progress.validation)

    fit(
        model,
        make_sources(recipe, device),
        recipe,
        fabric=Fabric(accelerator="cpu", devices=1),
        report=report,
        validate=validation,
    )
    assert seen[-1] < before - 0.01
    model.about = {"trained_on": "little"}
    write_model(model, tmp_path)
    again = read_model(tmp_path)
    assert isinstance(again, NeuralProcess)
    assert again.about == model.about
    np.testing.assert_array_equal(again.condition(X, Y).moments(GRID).mean, model.condition(X, Y).moments(GRID).mean)
    assert isinstance(ndp.load(str(tmp_path)), NeuralProcess)
    write_model(model, tmp_path / "half", half=True)
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (tmp_path / "half", tmp_path)]
    assert sizes[0] < 0.7 * sizes[1], "half of the numbers; their names take the rest"
    half = read_model(tmp_path / "half")
    for ours, full in zip(half.condition(X, Y).moments(GRID), model.condition(X, Y).moments(GRID), strict=True):
        np.testing.assert_allclose(ours, full, atol=0.01)


def test_mistakes_are_told_plainly() -> None:
    with pytest.raises(ValueError, match="convnp is infeasible for 3 input dimensions"):
        NeuralProcess("convnp", 3)
    with pytest.raises(ValueError, match="cannot be told their noise"):
        small(Kind.GNP).condition(X, Y, noise=0.1)
    with pytest.raises(ValueError, match="at one number of input dimensions"):
        Recipe(model="gnp", prior="se", dims=(1, 2))
    with pytest.raises(ValueError, match="there is no model named 'gpt'"):
        Recipe(model="gpt", prior="se")
    with pytest.raises(ValueError, match="this model supports 1"):
        small(Kind.GNP).condition(np.zeros((2, 2)), np.zeros(2))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Kind.GNP, {"width": 0}, "width must be at least 1, not 0"),
        (Kind.GNP, {"width": 20000}, "width must be from 0 to 4,096, not 20000"),
        (Kind.GNP, {"width": 4096}, "its configuration asks for more weights than there are"),
        (Kind.ANP, {"num_dec_layers": 4096}, "its configuration asks for more weights than there are"),
        (Kind.CONVCNP, {"points_per_unit": 1e300}, "points_per_unit must be from 0 to 4,096"),
        (Kind.CONVCNP, {"margin": 4000.0}, "these settings need a grid of 6.4e[+]04 points; it may have 16,384"),
        (Kind.CONVCNP, {"unet_strides": 256}, "these settings need a grid of 6.55e[+]04 points"),
        (Kind.CONVCNP, {"unet_channels": [4096, 4096]}, "its configuration asks for more weights than there are"),
        (Kind.GNP, {"likelihood": "guess"}, "the neural process gnp does not take these settings: .*guess"),
        (Kind.GNP, {"breadth": 3}, "the neural process gnp does not take these settings: .*breadth"),
        (Kind.GNP, {"transform": {"by": 1}}, "transform must be a number, text or a list of them"),
    ],
)
def test_a_configuration_cannot_make_a_network_that_the_weights_do_not_fill(
    kind: Kind, options: dict[str, Any], message: str
) -> None:
    model = small(kind)
    config = model.config() | {"about": {}}
    weights = model.network.state_dict()
    again = NeuralProcess.from_config(config, weights)
    assert all(torch.equal(ours, weights[name]) for name, ours in again.network.state_dict().items())
    config["network"] = config["network"] | {"options": model.options | options}
    with pytest.raises(ValueError, match=message):
        NeuralProcess.from_config(config, weights)


def test_the_global_generator_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    small(Kind.ANP).condition(X, Y).sample(GRID, 2)
    assert torch.equal(before, torch.random.get_rng_state())
