"""Pictures as functions: where pixels are, what lies between them, and which of them a task knows."""

from pathlib import Path

import pytest
import torch

from image_data import bars, write_npz
from ndp.diffusion.levels import CLEAN
from ndp.diffusion.objective import denoising_loss
from ndp.priors.image import (
    ImageSource,
    draw_known,
    interpolate,
    pixel_grid,
    read_training_set,
    units_of_images,
)
from ndp.priors.tasks import Source
from ndp.training.batches import TrainingInputs
from ndp.training.build import make_model, make_sources, make_validation
from ndp.training.config import Recipe
from ndp.training.data import read_data

CPU = torch.device("cpu")
PICTURES = torch.from_numpy(bars(40, size=8, channels=3))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_pixels_are_centres_of_equal_parts_and_twice_the_resolution_halves_them() -> None:
    grid = pixel_grid(2, 4)
    assert grid.tolist()[:5] == [[-1, -1.5], [-1, -0.5], [-1, 0.5], [-1, 1.5], [1, -1.5]]
    fine = pixel_grid(4, 8).reshape(2, 2, 4, 2, 2)
    torch.testing.assert_close(fine.mean((1, 3)).reshape(-1, 2), grid)


def test_interpolation_is_exact_at_pixels_and_linear_between_them() -> None:
    grid = pixel_grid(8, 8).float().expand(40, -1, -1)
    values = PICTURES.flatten(1, 2) / 255
    torch.testing.assert_close(interpolate(PICTURES, grid), values)
    between = (grid[:, :-1] + grid[:, 1:]) / 2
    inside = torch.arange(63) % 8 != 7  # not from the end of a row to the start of the next
    torch.testing.assert_close(
        interpolate(PICTURES, between)[:, inside], ((values[:, :-1] + values[:, 1:]) / 2)[:, inside]
    )


def test_tasks_are_pictures_in_model_units_and_a_function_of_the_seed() -> None:
    units = units_of_images(PICTURES)
    assert len(set(units.y_scale)) == 1
    source = ImageSource(PICTURES, units)
    assert isinstance(source, Source)
    batch = source.draw(300, generator=generator())
    assert batch.y.mean().abs() < 0.1
    assert batch.y.std().item() == pytest.approx(1, abs=0.1)
    originals = (PICTURES.flatten(1, 2) / 255)[None]
    distance = (units.on().from_model_y(batch.y)[:, None] - originals).abs().amax((2, 3)).amin(1)
    assert distance.max() < 1e-5, "every task is one of the pictures"
    assert torch.equal(batch.y, source.draw(300, generator=generator()).y)
    mirrored = ImageSource(PICTURES, units, mirrored=True).draw(300, generator=generator())
    flipped = (units.on().from_model_y(mirrored.y)[:, None] - originals).abs().amax((2, 3)).amin(1) > 1e-5
    assert 0.1 < flipped.float().mean() < 0.7, "some are mirror images that are not in the set"


def test_places_anywhere_lie_in_windows_and_hold_what_is_interpolated() -> None:
    units = units_of_images(PICTURES)
    batch = ImageSource(PICTURES, units, points=30).draw(200, generator=generator())
    assert batch.x.abs().max() <= 2
    sides = (batch.x.amax(1) - batch.x.amin(1)).amax(-1)
    assert sides.min() < 1.3
    assert sides.max() > 3.5
    values = units.on().from_model_y(batch.y)
    assert values.min() > -1e-5
    assert values.max() < 1 + 1e-5
    assert len(torch.unique((values * 255).round() / 255 - values > 1e-3)) == 2, "some lie between pixels"


def test_contexts_are_shares_boxes_and_nothing() -> None:
    x = pixel_grid(12, 12).float().expand(4000, -1, -1)
    known = draw_known(x, generator())
    share = known.float().mean(1)
    assert 0.1 < (share == 0).float().mean() < 0.16, "one in ten by design, and boxes without a pixel"
    assert ((share > 0.9) & (share < 1)).any()
    assert 0.2 < share.mean() < 0.45
    halves = dict.fromkeys(("upper", "lower", "left", "right"), 0)
    grid = known.reshape(-1, 12, 12)
    for one in grid:
        rows, columns = one.all(1), one.all(0)
        if 0 < one.sum() == 12 * rows.sum() < 144:
            halves["upper" if rows[0] and not rows[-1] else "lower"] += 1
        if 0 < one.sum() == 12 * columns.sum() < 144:
            halves["left" if columns[0] and not columns[-1] else "right"] += 1
    assert min(halves.values()) > 20, halves


class WrongWhereKnown:
    """A network that predicts nothing, and something absurd where there is nothing to predict."""

    translation_equivariant = False

    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x, y_t, level, mask=None, *, num_context=0):
        return torch.where(level[..., None] == CLEAN, self.by, 0.0).expand_as(y_t)


def test_known_points_are_clean_and_do_not_count(tmp_path: Path) -> None:
    folder = str(write_npz(tmp_path / "bars"))
    small = {"width": 16, "heads": 2, "blocks": 1, "level_width": 8}
    recipe = Recipe.from_dict({"prior": "mnist", "data_dir": folder, "batch": 2, "network": small})
    drawing = TrainingInputs(make_sources(recipe, CPU), recipe, CPU, rank=0)
    inputs = drawing.chunk(0, 0)[:12]
    assert inputs[0].mask is None
    assert inputs[0].num_context == 0
    assert drawing.chunk(3, 0)[0].x.shape[1] == 28 * 28 // 4, "every fourth step is of fewer places, anywhere"
    clean = torch.stack([one.level == CLEAN for one in inputs])
    assert clean.any()
    assert not clean.all()
    one = next(one for one in inputs if 0 < (one.level == CLEAN).sum() < one.level.numel())

    losses = [denoising_loss(WrongWhereKnown(by), one.x, one.y0, one.level, one.eps) for by in (0.0, 1e3)]
    torch.testing.assert_close(*losses)
    checked = make_validation(recipe, make_model(recipe), CPU)
    assert 0.3 < checked(make_model(recipe).network) < 3
    paper = Recipe.from_dict({"prior": "mnist", "data_dir": folder, "batch": 2, "model": "ndp-paper"})
    (source,) = make_sources(paper, CPU)
    step = TrainingInputs([source], paper, CPU, rank=0).chunk(0, 0)[0]
    assert step.mask is None
    assert (step.level == step.level[:, :1]).all(), "all pixels share the level, as in the paper"
    assert make_model(paper).network.config["ordered_dims"] == 2


def test_pictures_that_are_held_out_are_not_trained_on(tmp_path: Path) -> None:
    folder = str(write_npz(tmp_path / "bars", train=30))
    train, held_out = read_training_set("mnist", folder)
    assert (len(train), len(held_out)) == (27, 3)
    data = read_data(Recipe.from_dict({"prior": "mnist", "data_dir": folder}), CPU)
    assert all(torch.equal(source.pictures, train) for source in data.sources)
    assert [torch.equal(source.pictures, held_out) for source in data.held_out] == [True]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": "se", "data_dir": "somewhere"}, "goes with the priors mnist, celeba32"),
        ({"prior": "mnist", "model": "gnp", "data_dir": "x"}, "and not on images"),
        ({"prior": "digits"}, "there are: se, .*mnist, celeba32"),
    ],
)
def test_what_is_wrong_with_a_recipe_of_images_is_named(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe.from_dict(settings)
