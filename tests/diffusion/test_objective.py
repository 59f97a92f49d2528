"""The objective: what it counts, what it holds clean, and that the oracle is its minimiser."""

import pytest
import torch
from torch import Tensor

from ndp.diffusion.levels import CLEAN, cosine, log_uniform
from ndp.diffusion.objective import Error, denoising_loss, draw_levels, draw_levels_from, hold_context
from ndp.diffusion.prediction import Prediction
from ndp.gp.named import regression_gp
from ndp.gp.oracle import GPOracle
from ndp.priors.tasks import Synthetic

BATCH, CONTEXT = 1024, 4


class Perturbed:
    """The oracle plus a smooth function of everything that a network sees, times `size`."""

    translation_equivariant = False

    def __init__(self, oracle: GPOracle, kind: int, size: Tensor) -> None:
        self.oracle, self.kind, self.size = oracle, kind, size

    def __call__(
        self, x: Tensor, y_t: Tensor, level: Tensor, mask: Tensor | None = None, *, num_context: int = 0
    ) -> Tensor:
        neighbour = y_t.roll(1, dims=1)
        extra = [torch.ones_like(y_t), y_t, torch.tanh(neighbour), torch.sin(3 * x), torch.sin(level)[..., None]]
        return self.oracle(x, y_t, level, mask) + self.size * extra[self.kind]


@pytest.fixture(scope="module")
def batch() -> dict[str, Tensor]:
    """Tasks with some context clean, some noisy, some missing."""
    generator = torch.Generator().manual_seed(0)
    source = Synthetic(regression_gp("matern52"), targets=6, most_context=CONTEXT)
    tasks = source.draw(BATCH, generator=generator)
    level = draw_levels(BATCH, generator=generator)
    return {
        "x": tasks.x,
        "y0": tasks.y,
        "level": hold_context(level, tasks.x.shape[1], CONTEXT, generator=generator, noisy_share=0.5),
        "eps": torch.randn(tasks.y.shape, generator=generator, dtype=torch.float64),
        "mask": tasks.mask,
    }


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("prediction", [Prediction.V, Prediction.EPS])
@pytest.mark.parametrize("error", list(Error))
def test_the_oracle_minimises_the_objective_on_gp_data(
    batch: dict[str, Tensor], prediction: Prediction, error: Error, kind: int
) -> None:
    """For Gaussian data the mean is the median, so the L1 minimiser is the same. The slope at the oracle is zero."""
    oracle = GPOracle(regression_gp("matern52"), prediction)

    def loss(size: Tensor | float, rows: slice = slice(None)) -> Tensor:
        network = Perturbed(oracle, kind, torch.as_tensor(size, dtype=torch.float64))
        tasks = {name: value[rows] for name, value in batch.items()}
        return denoising_loss(network, **tasks, num_context=CONTEXT, prediction=prediction, error=error).mean()

    chunks = [slice(start, start + 64) for start in range(0, BATCH, 64)]
    slopes = []
    for rows in chunks:
        size = torch.zeros((), dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(loss(size, rows), size)
        slopes.append(slope)
    slope = torch.stack(slopes)
    assert slope.mean().abs() < 4.5 * slope.std() / len(slope) ** 0.5
    best = loss(0.0)
    for size in (-0.5, 0.5):
        assert best < loss(size)


def test_only_real_targets_count_and_every_task_counts_the_same() -> None:
    x, eps, level = torch.zeros(2, 4, 1), torch.ones(2, 4, 1), torch.zeros(2, 4)
    y0 = torch.tensor([[[1.0], [2.0], [3.0], [4.0]], [[1.0], [5.0], [6.0], [7.0]]])
    mask = torch.tensor([[True, True, True, False], [False, True, True, True]])

    def nothing(x: Tensor, y_t: Tensor, level: Tensor, mask: Tensor | None = None, *, num_context: int = 0) -> Tensor:
        return torch.zeros_like(y_t)

    nothing.translation_equivariant = False  # type: ignore[attr-defined]
    loss = denoising_loss(nothing, x, y0, level, eps, num_context=1, mask=mask, prediction=Prediction.Y0)
    assert loss.tolist() == pytest.approx([(4 + 9) / 2, (25 + 36 + 49) / 3])


def test_context_is_held_clean_or_at_a_noise_of_its_own() -> None:
    generator = torch.Generator().manual_seed(0)
    level = torch.full((20_000,), -1.0, dtype=torch.float64)
    levels = hold_context(level, 5, 2, generator=generator, noisy_share=0.25, smallest=0.01, largest=1.0)
    assert (levels[:, 2:] == -1.0).all()
    of_each = torch.tensor([[-3.0, 0.0, 2.0]], dtype=torch.float64)
    assert hold_context(of_each, 5, 2, generator=generator).tolist() == [[CLEAN, CLEAN, -3.0, 0.0, 2.0]]
    clean = (levels[:, :2] == CLEAN).all(1)
    assert clean.double().mean().item() == pytest.approx(0.75, abs=0.014)
    log_ratio = -levels[~clean][:, :2] / 2
    low = torch.log(torch.tensor(0.01)).item()
    assert low <= log_ratio.min()
    assert log_ratio.max() <= 0
    assert log_ratio.mean().item() == pytest.approx(low / 2, abs=0.06)


def test_levels_are_drawn_from_the_stated_law() -> None:
    """80 % N(-1.7, 1.5^2) and 20 % uniform in log(sigma / alpha), so stratified that the batch's share is exact."""
    log_ratio = -draw_levels(4000, generator=torch.Generator().manual_seed(0)) / 2
    normal = torch.distributions.Normal(-1.7, 1.5)
    low, high = torch.log(torch.tensor([0.004, 80.0]))
    for value in torch.tensor([-4.0, -2.0, 0.0, 2.0, 4.0]):
        expected = 0.8 * normal.cdf(value) + 0.2 * (value - low) / (high - low)
        assert (log_ratio <= value).double().mean().item() == pytest.approx(expected.item(), abs=0.001)


def test_discrete_levels_are_drawn_uniformly_from_the_schedule() -> None:
    schedule = cosine(10)
    drawn = draw_levels_from(schedule, 20_000, generator=torch.Generator().manual_seed(0))
    shares = torch.stack([(drawn == level).double().mean() for level in schedule])
    assert (shares - 0.1).abs().max() < 4.5 * (0.09 / 20_000) ** 0.5


def test_the_loss_of_the_oracle_is_what_theory_says() -> None:
    """At one level the best L2 v-loss is known: tr(S - alpha^2 S (alpha^2 S + sigma^2)^-1 S) / sigma^2 a point."""
    gp = regression_gp("se")
    generator = torch.Generator().manual_seed(1)
    x = torch.linspace(-1, 1, 8, dtype=torch.float64)[None, :, None]
    covariance = gp.covariance(x)[0]
    level = log_uniform(3)[1]
    a2, s2 = torch.sigmoid(level), torch.sigmoid(-level)
    eye = torch.eye(8, dtype=torch.float64)
    left = covariance - a2 * covariance @ torch.linalg.solve(a2 * covariance + s2 * eye, covariance)
    expected = left.trace() / 8 / s2
    y0 = torch.as_tensor(gp.sample(x, 20_000, generator=generator))[:, 0]
    eps = torch.randn(y0.shape, generator=generator, dtype=torch.float64)
    losses = denoising_loss(GPOracle(gp), x.expand(20_000, -1, -1), y0, level.expand(20_000, 8), eps)
    assert losses.mean().item() == pytest.approx(expected.item(), rel=0.02)
