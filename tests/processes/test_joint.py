"""A joint NDP at its public edge: forms and shapes, seeds, mistakes that are named, and models on disk."""

from pathlib import Path

import numpy as np
import pytest
import torch

import ndp
from ndp.models.registry import load_ndp, read_model, write_model
from ndp.networks.joint import JointAttention
from ndp.training.build import make_model, make_sources
from ndp.training.config import Recipe


def model(**options: object) -> ndp.NDP:
    torch.manual_seed(0)
    network = JointAttention(width=16, heads=2, blocks=1, level_width=8, anchor_points=6).double()
    for out in (network.out, network.out_of_inputs):
        torch.nn.init.normal_(out.weight, std=0.1)
    return ndp.NDP(network.requires_grad_(False), noise_floor=0.05, about={"trained_on": "nothing"}, **options)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


X, Y = torch.tensor([[-0.5], [0.1], [0.7]], dtype=torch.float64), torch.tensor([1.0, -0.3, 0.2], dtype=torch.float64)
QUICK = {"steps": 5}


@pytest.mark.parametrize("how", ["condition", "repaint"])
def test_forms_of_answers_follow_those_of_questions(how: str) -> None:
    one = getattr(model(), how)(X, Y)
    assert one.sample_inputs(-1.0, 4, **QUICK).shape == (4, 1)
    assert one.sample_inputs(-1.0, **QUICK).shape == (1,)
    assert one.sample_inputs(torch.tensor([-1.0, 0.5]), 4, **QUICK).shape == (4, 2, 1)
    x, y = one.sample_joint(3, 4, **QUICK)
    assert (x.shape, y.shape) == ((4, 3, 1), (4, 3))
    assert one.sample(X, 4, **QUICK).shape == (4, 3)
    several = getattr(model(), how)(X.expand(2, -1, -1), Y.expand(2, -1)[..., None])
    assert several.sample_inputs(-1.0, 4, **QUICK).shape == (4, 2, 1)
    assert several.sample_inputs(torch.tensor([[-1.0], [0.5]]), 4, **QUICK).shape == (4, 2, 1, 1)
    x, y = several.sample_joint(3, 4, **QUICK)
    assert (x.shape, y.shape) == ((4, 2, 3, 1), (4, 2, 3, 1))
    by_numpy = getattr(model(), how)(X.numpy(), Y.numpy())
    assert isinstance(by_numpy.sample_inputs(-1.0, 4, **QUICK), np.ndarray)
    two_inputs = getattr(model(), how)(X.expand(-1, 2), Y)
    assert two_inputs.sample_inputs(-1.0, 4, **QUICK).shape == (4, 2)


@pytest.mark.parametrize("how", ["condition", "repaint"])
def test_a_seed_decides_a_draw_and_draws_lie_in_the_box(how: str) -> None:
    posterior = getattr(model(), how)(X, Y)
    first, again, other = (posterior.sample_inputs(0.0, 50, generator=seeded(s), **QUICK) for s in (0, 0, 1))
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert (first - other).abs().max() > 1e-3
    assert first.abs().max() <= 1


def test_a_draw_does_not_depend_on_how_many_are_drawn_with_it_nor_on_other_tasks() -> None:
    made = model()
    many = made.condition(X, Y).sample_inputs(0.3, 8, generator=seeded(), **QUICK)
    few = made.condition(X, Y).sample_inputs(0.3, 3, generator=seeded(), **QUICK)
    torch.testing.assert_close(few, many[:3])
    batch = made.condition(torch.stack([X, -X]), torch.stack([Y, Y])[..., None])
    alone = made.condition(X, Y)
    x = batch.sample_inputs(torch.tensor([[0.3], [0.1]]), 1, generator=seeded(), **QUICK)
    torch.testing.assert_close(x[0, 0, 0], alone.sample_inputs(0.3, 1, generator=seeded(), **QUICK)[0])


def test_a_masked_observation_is_none() -> None:
    made = model()
    mask = torch.tensor([True, False, True])
    for how in (made.condition, made.repaint):
        masked = how(X, Y, mask=mask).sample_inputs(0.0, 5, generator=seeded(), **QUICK)
        if how == made.condition:  # RePaint draws noise for places that it does not use
            without = how(X[mask], Y[mask]).sample_inputs(0.0, 5, generator=seeded(), **QUICK)
            torch.testing.assert_close(masked, without)
        assert torch.isfinite(masked).all()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.sample_inputs(float("nan")), "y_star holds nan"),
        (lambda p: p.sample_inputs(torch.zeros(0)), "at least one value"),
        (lambda p: p.sample_inputs(0.0, 0), "num_samples must be"),
        (lambda p: p.sample_joint(0), "num_points must be at least 1, not 0"),
    ],
)
def test_what_is_wrong_with_a_question_is_named(ask, message: str) -> None:
    for posterior in (model().condition(X, Y), model().repaint(X, Y)):
        with pytest.raises(ValueError, match=message):
            ask(posterior)


def test_repeats_and_batches_of_values_are_checked() -> None:
    with pytest.raises(ValueError, match="repeats must be at least 1"):
        model().repaint(X, Y).sample_inputs(0.0, repeats=0)
    with pytest.raises(ValueError, match="hold at least one value a task"):
        model().condition(X[None], Y[None, :, None]).sample_inputs(torch.zeros(1))
    with pytest.raises(ValueError, match="supports 2"):
        model(input_dims=[2]).condition(X, Y)


def test_a_saved_model_is_the_same_and_its_values_are_an_ndp(tmp_path: Path) -> None:
    made = model(input_dims=[1])
    made.network.float()  # type: ignore[union-attr]
    write_model(made, tmp_path / "joint")
    again = ndp.load(str(tmp_path / "joint"))
    assert isinstance(again, ndp.NDP)
    assert again.about == {"trained_on": "nothing"}
    assert (again.input_dims, again.noise_floor, again.trained_ratios) == ((1,), 0.05, (0.004, 80.0))
    drawn = [m.condition(X, Y).sample_inputs(0.0, 4, generator=seeded()) for m in (made, again)]
    torch.testing.assert_close(*drawn, rtol=0, atol=0)
    values = [m.sample(X, 2, generator=seeded()) for m in (made, load_ndp(str(tmp_path / "joint")))]
    torch.testing.assert_close(*values, rtol=0, atol=0)
    assert isinstance(read_model(tmp_path / "joint"), ndp.NDP)


def test_recipes_of_joint_models() -> None:
    small = {"width": 16, "heads": 2, "blocks": 1, "level_width": 8}
    ours = Recipe.from_dict({"model": "joint", "prior": "minima", "dims": [1, 2], "network": small})
    made = make_model(ours)
    assert isinstance(made, ndp.NDP)
    assert made.input_dims == (1, 2)
    batches = [s.draw(2, generator=seeded()) for s in make_sources(ours, torch.device("cpu"))]
    assert [(b.x.shape[-1], b.independent) for b in batches] == [(1, True), (1, False), (2, True), (2, False)]
    paper = Recipe.from_dict({"model": "joint-paper", "prior": "minima"})
    assert (paper.schedule, paper.joint_share, paper.use_context, paper.error) == (2000, 1.0, False, "l1")
    (source,) = make_sources(paper, torch.device("cpu"))
    assert source.draw(2, generator=seeded()).x.shape == (2, 100, 1)
    assert Recipe.from_dict(paper.as_dict()) == paper
    for wrong, message in (
        ({"prior": "se"}, r"functions on \[-1, 1\]; se is not one of them: .*minima"),
        ({"prior": "minima", "joint_share": 2.0}, "from 0 to 1"),
        ({"data": "x.csv"}, "not on a table"),
    ):
        with pytest.raises(ValueError, match=message):
            Recipe.from_dict({"model": "joint", **wrong})
