"""`ndp complete`: completions of a picture, given some of its pixels."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndp.core.io.images import is_grey, read_picture
from ndp.core.plotting import check_ending, new_grid, plot_picture, save_figure
from ndp.diffusion.solvers import Solver, dpm_solver
from ndp.models.registry import load_ndp, prior_of
from ndp.priors.image import pixel_grid
from ndp.priors.registry import IMAGE_SETS
from ndp.processes.ndp import NDP

HALVES = {"upper": (0, -1), "lower": (0, 1), "left": (1, -1), "right": (1, 1)}


def complete_to_file(
    image: Path, mask: str, out: Path, *, model: str, draws: int, steps: int, size: int | None, seed: int
) -> None:
    """Read a picture, draw the pixels that the mask leaves out, and write the known pixels beside the completions."""
    check_ending(out)
    network = _load(model or _model_for(image))
    size = size or IMAGE_SETS[prior_of(network)].size
    truth = read_picture(image, size=size, channels=network.num_outputs)
    known = read_mask(mask, size, seed)
    completions = complete(network, truth, known.numpy(), draws, steps=steps, seed=seed)
    figure, axes = new_grid(1, 1 + draws, size=(1.7, 1.9))
    for ax, title, picture in zip(axes[0], ("known", *("",) * draws), (truth, *completions), strict=True):
        ax.grid(visible=False)
        plot_picture(ax, picture, known=known.numpy() if title else None)
        ax.set_title(title, fontsize=11)
    save_figure(figure, out)


def complete(
    model: NDP,
    picture: np.ndarray,
    known: np.ndarray,
    draws: int,
    *,
    steps: int = 20,
    seed: int = 0,
    solver: Solver = dpm_solver,
    base_noise: Tensor | None = None,
) -> np.ndarray:
    """Completions [S H W P] of a picture [H W P] of values from 0 to 1, of which the `known` [H W] pixels are kept.

    The noise of the draws comes from `seed`, or is given as `base_noise`, with one number for each value that is drawn.
    """
    if known.all():
        raise ValueError("every pixel is known: there is nothing to complete")
    height, width, channels = picture.shape
    x, y = pixel_grid(height, width), torch.from_numpy(picture.reshape(-1, channels)).double()
    of = torch.from_numpy(known.reshape(-1))
    posterior = model.condition(x[of][None], y[of][None])
    generator = torch.Generator().manual_seed(seed)
    found = posterior.sample(
        x[~of][None], draws, steps=steps, solver=solver, generator=generator, base_noise=base_noise
    )
    pictures = y.expand(draws, -1, -1).clone()
    pictures[:, ~of] = torch.as_tensor(found)[:, 0].double().cpu().clamp(0, 1)
    return pictures.reshape(draws, height, width, channels).numpy()


def read_mask(text: str, size: int, seed: int) -> Bool[Tensor, "{size} {size}"]:
    """Which pixels are known: a half, a random share of them, or the white ones of a picture."""
    x = pixel_grid(size, size)
    if text in HALVES:
        axis, side = HALVES[text]
        known = side * x[:, axis] > 0
    elif text.startswith("random:"):
        known = _random(text.removeprefix("random:"), x, seed)
    elif Path(text).suffix or Path(text).exists():
        known = torch.from_numpy(read_picture(Path(text), size=size, channels=1) >= 0.5).reshape(-1)
    else:
        raise ValueError(f"--mask is {', '.join(HALVES)}, random:SHARE, or a picture, and not {text!r}")
    return known.reshape(size, size)


def _random(share: str, x: Float[Tensor, "N 2"], seed: int) -> Bool[Tensor, "N"]:
    try:
        number = float(share)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1:
        raise ValueError(f"--mask random:SHARE takes a share from 0 to below 1, such as random:0.1, not {share!r}")
    order = torch.rand(len(x), generator=torch.Generator().manual_seed(seed)).argsort()
    return order < round(number * len(x))


def _model_for(image: Path) -> str:
    """The name of the shipped model for a picture."""
    if is_grey(image):
        return "mnist"
    raise ValueError(
        f"{image} has colours, and no model of colour pictures comes with the package. Name one with --model (docs/images.md "
        "says how to train it)"
    )


def _load(name: str) -> NDP:
    model = load_ndp(name)
    if prior_of(model) not in IMAGE_SETS:
        raise ValueError(f"{name} is not a model of images, but of {model.about.get('trained_on', 'something else')}")
    return model
