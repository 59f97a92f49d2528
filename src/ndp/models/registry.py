"""Names of models to models, in one place.

gp-se, gp-matern52            the exact Gaussian processes of the paper's regression experiments
oracle-se, oracle-matern52    an NDP driven by the perfect denoiser of the same process, in place of a trained network
all others                    trained weights that come with the package, one folder each in `ndp/pretrained`: NDPs, and
                              as anp-... attentive neural processes to compare with (extra `baselines`)
"""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import gpytorch
from torch import Tensor

from ndp.core.devices import read_device
from ndp.gp.exact import GP, ScaledToDimension
from ndp.gp.mixture import GPMixture, log_normal_lengthscales
from ndp.gp.oracle import GPOracle
from ndp.models.checkpoint import WEIGHTS, architecture_of, read_config, read_hub_model, read_model, write_model
from ndp.processes.joint import JointNDP
from ndp.processes.ndp import NDP
from ndp.processes.neural_process import NeuralProcess

OBSERVATION_NOISE = 0.05
LENGTHSCALE = 0.25  # times sqrt(D)
# Matern-3/2 with a lengthscale that is log-normal about its median.
MARGINAL_NOISE = 1e-3
MEDIAN_LENGTHSCALE, LOG_STD_OF_LENGTHSCALE = 0.5, 0.5**0.5
# Matern-5/2 for Bayesian optimisation on [-1, 1]^D: one lengthscale, or in every dimension one that is log-normal.
OPTIMISATION_NOISE = 0.01
OPTIMISATION_LENGTHSCALE = 0.5
OPTIMISATION_MEDIAN, OPTIMISATION_LOG_STD = 1.0, 0.7
MINIMA_LENGTHSCALE = 0.15  # times D: functions on [-1, 1]^D with many minima


def matern32(**options: Any) -> gpytorch.kernels.Kernel:
    """A Matern-3/2 kernel of unit variance; `options` are GPyTorch's."""
    return gpytorch.kernels.MaternKernel(nu=1.5, **options)


def matern52(**options: Any) -> gpytorch.kernels.Kernel:
    """A Matern-5/2 kernel of unit variance; `options` are GPyTorch's."""
    return gpytorch.kernels.MaternKernel(nu=2.5, **options)


_KERNELS = {
    "se": gpytorch.kernels.RBFKernel,
    "matern52": matern52,
}


@dataclass(frozen=True)
class Shipped:
    """A trained model that comes with the package, as it describes itself."""

    name: str
    architecture: str
    input_dims: tuple[int, ...]
    about: dict[str, Any]
    size: int  # bytes


def names() -> list[str]:
    """All names that `load` knows."""
    return [model.name for model in shipped()] + [
        f"{kind}-{kernel}" for kind in ("gp", "oracle") for kernel in _KERNELS
    ]


def shipped() -> list[Shipped]:
    """The trained models that come with the package."""
    folders = sorted(path.parent for path in _pretrained().glob("*/config.json"))
    described = [(folder, read_config(folder)) for folder in folders]
    return [
        Shipped(
            name=folder.name,
            architecture=architecture_of(config),
            input_dims=tuple(config["input_dims"] or ()),
            about=config["about"],
            size=(folder / WEIGHTS).stat().st_size,
        )
        for folder, config in described
    ]


def models_for(dim: int) -> str:
    """In words, which of the models that `load` knows are for functions of `dim` inputs."""
    fitting = [model.name for model in shipped() if dim in model.input_dims]
    exact = ", ".join(f"gp-{kernel}" for kernel in _KERNELS)
    trained = f"trained for {dim}: {', '.join(fitting)}" if fitting else f"no shipped network is trained for {dim}"
    return f"{trained}; for any number: {exact}"


def load(name: str = "universal") -> GP | NDP | JointNDP | NeuralProcess:
    """A model by its name, from the folder of a run or of saved weights, or from the Hugging Face hub (`owner/name`).

    The default is the one for anybody's data: any function of one to ten inputs, in any units, with unknown noise.
    """
    family, _, kernel = name.partition("-")
    if family == "gp" and kernel in _KERNELS:
        return regression_gp(kernel)
    if family == "oracle" and kernel in _KERNELS:
        gp = regression_gp(kernel)
        return NDP(GPOracle(gp), noise_floor=gp.noise, about={"recipe": {"prior": kernel}})
    if name in {model.name for model in shipped()}:
        return read_model(shipped_folder(name))
    if Path(name).is_dir():
        return read_model(Path(name))
    if name.count("/") == 1 and not name.startswith((".", "/")):
        return read_hub_model(name, {})
    raise ValueError(f"there is no model and no folder named {name!r}; the models are: {', '.join(names())}")


def export(name: str, folder: Path, *, half: bool) -> int:
    """Write a model of weights to a new folder; returns the bytes that they take."""
    model = load(name)
    if isinstance(model, GP):
        raise ValueError(f"{name} is exact: it has no weights to export")
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty")
    write_model(model, folder, half=half)
    return (folder / WEIGHTS).stat().st_size


def load_ndp(name: str, device: str = "cpu") -> NDP:
    """An NDP by its name, on a device; of a joint one, the NDP of its values."""
    model = load(name)
    if isinstance(model, JointNDP):
        return model.to(read_device(device)).regression
    if isinstance(model, GP):
        raise ValueError(f"{name} is exact; there is nothing to compare it with")
    if not isinstance(model, NDP):
        raise ValueError(f"{name} is a neural process; ndp reproduce regression scores those")
    return model.to(read_device(device))


def prior_of(model: NDP | JointNDP | NeuralProcess) -> str:
    """The name of the prior that a model was trained on; empty for a table of functions."""
    return model.about.get("recipe", {}).get("prior", "")


def exact_process_of(model: NDP, name: str) -> GP:
    """The Gaussian process that a regression model was trained on."""
    process = exact_process(prior_of(model))
    if process is None:
        raise ValueError(f"{name} was not trained on a Gaussian process with an exact posterior")
    return process


def exact_process(prior: str) -> GP | None:
    """The Gaussian process that a prior is by its name, if it is one."""
    if prior in _KERNELS:
        return regression_gp(prior)
    if prior == "minima":
        return minima_gp()
    return optimisation_gp() if prior == "bo-fixed" else None


def regression_gp(kernel: str) -> GP:
    """The paper's data: kernel "se" or "matern52" of lengthscale sqrt(D) / 4 and unit variance, noise 0.05."""
    if kernel not in _KERNELS:
        raise ValueError(f"there is no kernel named {kernel!r}; there are: {', '.join(_KERNELS)}")
    base = _KERNELS[kernel]()
    base.lengthscale = LENGTHSCALE
    return GP(ScaledToDimension(base), noise=OBSERVATION_NOISE)


def optimisation_gp() -> GP:
    """The paper's process for Bayesian optimisation: Matern-5/2 of lengthscale 0.5 in every dimension."""
    kernel = matern52()
    kernel.lengthscale = OPTIMISATION_LENGTHSCALE
    return GP(kernel, noise=OPTIMISATION_NOISE)


def minima_gp() -> GP:
    """Functions with many minima, to be found on [-1, 1]^D: Matern-5/2 of lengthscale 0.15 D, noise 0.05."""
    kernel = matern52()
    kernel.lengthscale = MINIMA_LENGTHSCALE
    return GP(ScaledToDimension(kernel, power=1.0), noise=OBSERVATION_NOISE)


def marginalised_optimisation_gp(nodes: int = 24) -> GPMixture:
    """The same with one lengthscale for all dimensions that is log-normal, on a grid of it."""
    mixture, _ = log_normal_lengthscales(
        matern52, median=OPTIMISATION_MEDIAN, log_std=OPTIMISATION_LOG_STD, noise=OPTIMISATION_NOISE, nodes=nodes
    )
    return mixture


def marginalised_gp(nodes: int = 60) -> tuple[GPMixture, Tensor]:
    """The exact process of the paper's marginalisation experiment, with its lengthscales on a grid, and these."""
    return log_normal_lengthscales(
        matern32, median=MEDIAN_LENGTHSCALE, log_std=LOG_STD_OF_LENGTHSCALE, noise=MARGINAL_NOISE, nodes=nodes
    )


def shipped_folder(name: str) -> Path:
    """Where the weights of that name are, if they come with the package."""
    return _pretrained() / name


def shipped_baseline(name: str) -> Path:
    """The same for models that are there to be compared with, which have no name for `load`."""
    return Path(__file__).parents[3] / "benchmarks" / "weights" / name


def _pretrained() -> Path:
    return Path(str(files("ndp") / "models" / "pretrained"))
