"""Image regression: errors that are known in closed form, bars that are reported as met or not, and the whole command."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from PIL import Image
from typer.testing import CliRunner

import ndp
from benchmarks import images, images_report
from benchmarks.__main__ import app
from benchmarks.image_scaling import GROWTH, growth, images_a_second
from benchmarks.image_scaling import measure as measure_cost
from benchmarks.images import AIMS, FRACTIONS, Method, Score, Sizes, as_functions, bits_per_value, measure
from benchmarks.images_report import better_by, judged
from image_data import bars, write_npz
from ndp.apps.cli import app as ndp_app
from ndp.apps.completing import complete, read_mask
from ndp.core.io.images import read_picture
from ndp.models.registry import write_model
from ndp.priors.image import units_of_images
from ndp.priors.registry import IMAGE_SETS
from ndp.processes.ndp import NDP
from ndp.training.build import make_ndp
from ndp.training.config import Recipe

PICTURES = torch.from_numpy(bars(6, size=10))
SMALL = Sizes(images=6, steps=2, repaint_images=3, repaint_levels=2, bits_images=2, probes=1, repaint_repeats=1)


def knowing(truth: torch.Tensor, off: float):
    """A method that knows the picture whose values it is given, and is off by the same at every pixel and draw."""

    def draw(x, y, x_new, draws, generator):
        places, values = as_functions(truth)
        answers = []
        for context_x, context_y, new in zip(x, y, x_new, strict=True):
            at = torch.cdist(context_x, places).argmin(1)
            (which,) = (values[:, at] == context_y).all(2).all(1).nonzero()[0]
            answers.append(values[which][torch.cdist(new, places).argmin(1)])
        return (torch.stack(answers) * (1 - 2 * off) + off).expand(draws, -1, -1, -1)

    return draw


def test_errors_are_those_of_the_mean_over_all_pixels_and_over_unknown_ones() -> None:
    black = torch.zeros_like(PICTURES)
    scores = list(measure([Method("ours", 7, 4, knowing(black, 0.1))], black, SMALL, lambda text: None))
    assert [score.fraction for score in scores] == list(FRACTIONS)
    for score in scores:
        assert score.images == 4
        assert score.unknown.mean == pytest.approx(0.01)
        assert score.whole.mean == pytest.approx(0.01 * (1 - round(100 * score.fraction) / 100))
    exact = measure([Method("ours", 7, 6, knowing(PICTURES, 0.0))], PICTURES, SMALL, lambda text: None)
    assert max(score.whole.mean for score in list(exact)[1:]) < 1e-30, "ten pixels distinguish these pictures"


def score(method: str, fraction: float, error: float, calls: int = 50) -> Score:
    number = images.Number(error, 0.001)
    return Score(method, calls, fraction, 3, number, number, (error,) * 3)


def test_bars_are_met_or_not() -> None:
    good = [score("ours", fraction, 0.9 * AIMS["mnist"].get(fraction, 0.001)) for fraction in FRACTIONS]
    worse = [score("paper", one.fraction, 1.5 * one.whole.mean, 2500) for one in good]
    assert [bar.verdict for bar in judged("mnist", good, 20.0)] == ["met"] * 4 + ["not measured", "met"]
    assert {bar.verdict for bar in judged("mnist", good + worse, 20.0)} == {"met"}
    worse[2] = score("paper", 0.2, 0.5 * good[2].whole.mean, 2500)
    bad = [score("ours", 0.05, 0.046), *good[1:]]
    verdicts = [bar.verdict for bar in judged("mnist", bad + worse, 31.0)]
    assert verdicts == ["NOT met", "met", "met", "met", "NOT met", "NOT met"]
    assert better_by(good[2], worse[2]).mean < 0


def test_bits_are_those_of_white_noise_for_a_model_that_knows_nothing() -> None:
    """A network that predicts no noise away answers with a standard normal in model units."""
    pictures = torch.from_numpy(bars(16, size=6, channels=1))

    class Nothing:
        translation_equivariant = False
        encodes_context = False

        def __call__(self, x, y_t, level, mask=None, *, num_context=0):
            return torch.zeros_like(y_t)

    units = units_of_images(pictures)
    model = NDP(Nothing(), units=units, input_dims=(2,))
    found = bits_per_value(model, pictures, probes=1)
    noise = 1.01 * 0.004
    values = units.on().to_model_y(as_functions(pictures)[1])
    normal = torch.distributions.Normal(0.0, 1.0)
    log_ratio = normal.log_prob(values).mean() + torch.distributions.Normal(0.0, noise).entropy()
    expected = -(log_ratio / math.log(2)).item()
    assert found.mean == pytest.approx(expected, rel=0.02)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with pictures of 8 x 8 in place of MNIST's, and models of ours and of the paper that have hardly seen them."""
    folder = tmp_path_factory.mktemp("images")
    write_npz(folder / "data" / "mnist", size=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(IMAGE_SETS, "mnist", replace(IMAGE_SETS["mnist"], size=8))
        yield train_both(folder)


def train_both(folder: Path) -> Path:
    small = {"width": 16, "heads": 2, "blocks": 1, "level_width": 8}
    data_dir = str(folder / "data" / "mnist")
    network = "".join(f"{name} = {value}\n" for name, value in small.items())
    (folder / "ours.toml").write_text(f'prior = "mnist"\nsteps = 2\nbatch = 1\n[network]\n{network}')
    options = f"--config {folder}/ours.toml --data-dir {data_dir} --out {folder}/ours --device cpu"
    done = CliRunner().invoke(ndp_app, ["train", *options.split()])
    assert done.exit_code == 0, done.output
    settings = {"prior": "mnist", "model": "ndp-paper", "data_dir": data_dir, "network": small}
    paper = make_ndp(Recipe.from_dict(settings))
    paper.about = {"recipe": {"prior": "mnist"}}
    write_model(paper, folder / "paper")
    return folder


def test_the_command_measures_draws_and_judges(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_report, "QUICK", SMALL)
    monkeypatch.setattr(images, "COMPLETIONS", 2)
    options = f"--set mnist --data-dir {trained}/data --model {trained}/ours --paper {trained}/paper"
    rest = f"--quick --device cpu --out {trained}/results"
    done = CliRunner().invoke(app, ["images", *options.split(), *rest.split()], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert re.search(r"error at 5% known +at most 0.045 +0\.\d+ ± 0\.\d+ +(NOT )?met", done.stdout)
    assert "With 6 pictures that says little" in done.stdout.replace("\n", " ")
    numbers = json.loads((trained / "results" / "images-mnist.json").read_text())
    assert [one["images"] for one in numbers["scores"]] == [6] * 6 + [3] * 6
    assert numbers["bits_per_value"]["mean"] > 0
    assert imread(trained / "results" / "images-mnist.png")[..., :3].std() > 0.05


def test_a_trained_model_says_what_it_knows_and_not_where_its_pictures_were(trained: Path) -> None:
    model = ndp.load(str(trained / "ours"))
    assert isinstance(model, NDP)
    assert model.about["recipe"]["data_dir"] == "mnist"
    assert str(trained) not in (trained / "ours" / "config.json").read_text()
    assert "28 x 28" in model.about["trained_on"]
    assert model.units is not None
    x = torch.tensor([[[0.3, -1.0], [0.1, 0.7]]], dtype=torch.float64)
    prior = torch.as_tensor(model.sample(x, 3, steps=2, generator=torch.Generator().manual_seed(0)))
    assert prior.shape == (3, 1, 2, 1)
    assert torch.isfinite(prior).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--set digits", "no set of pictures named 'digits'; there are: mnist, celeba32"),
        ("--model somewhere", "name it with --set"),
        ("--set celeba32 --model {ours} --data-dir {data}", "was not trained on celeba32, but on MNIST"),
        ("--set mnist --model {ours}", "mnist needs its pictures: --data-dir FOLDER"),
        ("--set mnist --model step --data-dir {data}", "step was not trained on mnist, but on steps"),
    ],
)
def test_a_mistake_is_one_line(trained: Path, options: str, message: str) -> None:
    filled = options.format(ours=trained / "ours", data=trained / "data")
    done = CliRunner().invoke(app, ["images", *filled.split(), "--device", "cpu"])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_completing_keeps_what_is_known(trained: Path) -> None:
    Image.fromarray(bars(1)[0, ..., 0]).save(trained / "mine.png")
    mask = np.zeros((28, 28), dtype=np.uint8)
    mask[:, 20:] = 255
    Image.fromarray(mask).save(trained / "mask.png")
    picture = read_picture(trained / "mine.png", size=28, channels=1)
    model = ndp.load(str(trained / "ours"))
    assert isinstance(model, NDP)
    shares = {}
    for name in ("upper", "lower", "left", "right", "random:0.25", str(trained / "mask.png")):
        known = read_mask(name, 28, seed=0).numpy()
        shares[name.rpartition("/")[2]] = known.mean()
    assert shares == {
        "upper": 0.5,
        "lower": 0.5,
        "left": 0.5,
        "right": 0.5,
        "random:0.25": 0.25,
        "mask.png": pytest.approx(8 / 28),
    }
    known = read_mask("upper", 28, seed=0).numpy()
    assert known[0].all()
    assert not known[-1].any()
    drawn = complete(model, picture, known, 2, steps=2)
    assert drawn.shape == (2, 28, 28, 1)
    assert (drawn[:, known] == picture[known]).all()
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    assert (drawn[0] != drawn[1]).any()


def test_the_command_completes_a_picture_and_names_mistakes(trained: Path) -> None:
    Image.fromarray(bars(1)[0, ..., 0]).save(trained / "grey.png")

    def call(options: str):
        return CliRunner().invoke(ndp_app, ["complete", f"{trained}/grey.png", *options.split()])

    done = call(f"--mask random:0.3 --model {trained}/ours --draws 2 --steps 1 --size 14 --out {trained}/done.png")
    assert done.exit_code == 0, done.output
    assert imread(trained / "done.png")[..., :3].std() > 0.02
    for options, message in (
        ("--mask middle", "--mask is upper, lower, left, right, random:SHARE, or a picture, and not 'middle'"),
        ("--mask random:2", "takes a share from 0 to below 1"),
        ("--mask nowhere.png", "there is no file nowhere.png"),
        ("--out done.gif", "cannot draw done.gif"),
        ("--model se", "se is not a model of images"),
    ):
        model = "" if "--model" in options else f"--model {trained}/ours"
        done = call(f"{options} {model}")
        assert done.exit_code == 2
        assert message in done.stderr, done.stderr


def test_memory_does_not_grow_with_the_square_of_the_points() -> None:
    costs = list(measure_cost("cpu", (128, 512)))
    assert growth(costs) < GROWTH
    tokens = costs[-1].megabytes * 2**20 / 512
    assert tokens < 2 * 4 * 512 * 4 + 64 * 4 * 200, "maps of attention, 2 heads in 4 blocks, would take that much more"
    assert images_a_second("cpu", batch=1, size=4) > 0
