"""Names of models to models, in one place.

gp-se, gp-matern52            the exact Gaussian processes of the paper's regression experiments
oracle-se, oracle-matern52    an NDP driven by the perfect denoiser of the same process, in place of a trained network
all others                    trained weights that come with the package, one folder each in `ndp/models/pretrained`
"""

from dataclasses import dataclass
from importlib.resources import files
from os.path import isdir
from pathlib import Path
from typing import Any, TypeAlias

from ndp.core.devices import read_device
from ndp.core.io.checkpoint import CONFIG, WEIGHTS, ModelNotFoundError, read_checkpoint, read_config, write_checkpoint
from ndp.core.messages import did_you_mean, first_line, short
from ndp.gp.exact import GP
from ndp.gp.named import KERNELS, exact_process, regression_gp
from ndp.gp.oracle import GPOracle
from ndp.processes.ndp import NDP
from ndp.processes.neural_process import NeuralProcess

TrainedModel: TypeAlias = NDP | NeuralProcess

# Kinds of models in a checkpoint. "joint" is what the first release called an NDP of inputs and values.
_KINDS: dict[str, Any] = {"ndp": NDP, "joint": NDP, "neural_process": NeuralProcess}


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
    return [folder.name for folder in _shipped_folders()] + [
        f"{kind}-{kernel}" for kind in ("gp", "oracle") for kernel in KERNELS
    ]


def shipped() -> list[Shipped]:
    """The trained models that come with the package."""
    described = [(folder, read_config(folder)) for folder in _shipped_folders()]
    return [
        Shipped(
            name=folder.name,
            architecture=_KINDS[config.get("process", "ndp")].architecture(config),
            input_dims=tuple(config["input_dims"] or ()),
            about=config["about"],
            size=(folder / WEIGHTS).stat().st_size,
        )
        for folder, config in described
    ]


def models_for(dim: int) -> str:
    """In words, which of the models that `load` knows are for functions of `dim` inputs."""
    fitting = [model.name for model in shipped() if dim in model.input_dims]
    exact = ", ".join(f"gp-{kernel}" for kernel in KERNELS)
    trained = f"trained for {dim}: {', '.join(fitting)}" if fitting else f"no shipped network is trained for {dim}"
    return f"{trained}; for any number: {exact}"


def load(name: str | Path = "universal") -> GP | NDP | NeuralProcess:
    """A model by its name, from the folder of a run or of saved weights, or from the Hugging Face hub (`owner/name`).

    The default is for any table: functions of one to ten inputs, in any units, with unknown noise. A `Path` is a folder.
    """
    if isinstance(name, Path):
        return _of_folder(name)
    if not isinstance(name, str):
        raise ValueError(f"a model is named by text or by the path of its folder, not by {short(name)}")
    family, _, kernel = name.partition("-")
    if family == "gp" and kernel in KERNELS:
        return regression_gp(kernel)
    if family == "oracle" and kernel in KERNELS:
        gp = regression_gp(kernel)
        return NDP(GPOracle(gp), noise_floor=gp.noise, about={"recipe": {"prior": kernel}})
    if name in {folder.name for folder in _shipped_folders()}:
        return read_model(shipped_folder(name))
    owner, slash, _ = name.partition("/")
    if name and (isdir(name) or (slash and isdir(owner)) or name.count("/") > 1 or name.startswith((".", "/", "~"))):
        return _of_folder(Path(name))
    if slash:
        return _of_hub(name)
    raise ValueError(
        f"there is no model and no folder named {short(name)}; {did_you_mean(name, names())}"
        f"the models are: {', '.join(names())}"
    )


def _of_folder(folder: Path) -> TrainedModel:
    if isdir(folder):
        return read_model(folder)
    beside = sorted(path.name for path in folder.parent.iterdir() if path.is_dir()) if isdir(folder.parent) else []
    found = f"; {did_you_mean(folder.name, beside)}{folder.parent} has: {', '.join(beside[:9])}" if beside else ""
    raise ValueError(f"there is no folder {first_line(folder)}{first_line(found)}")


def _of_hub(name: str) -> TrainedModel:
    try:
        return read_model(name)
    except ModelNotFoundError as error:
        raise ModelNotFoundError(
            f"there is no folder {first_line(name)} here, so the hub was asked: {error}"
        ) from error


def read_model(model_id: str | Path) -> TrainedModel:
    """The model of a folder or of a repository on the hub, checked against its configuration."""
    checkpoint = read_checkpoint(model_id)
    if checkpoint.process not in _KINDS:
        raise ValueError(
            f"{checkpoint.path.parent} holds a {short(checkpoint.process)}, which this version of ndp does not know"
        )
    return checkpoint.build(_KINDS[checkpoint.process].from_config)


def write_model(model: TrainedModel, folder: Path, *, half: bool = False) -> None:
    """Save a model of weights to a folder, from which `load` reads it."""
    process = next(name for name, kind in _KINDS.items() if isinstance(model, kind))
    write_checkpoint(folder, process, model.config(), model.network, model.about, half=half)


def export(name: str | Path, folder: Path, *, half: bool) -> int:
    """Write a model of weights to a new folder; returns the bytes that they take."""
    model = load(name)
    if isinstance(model, GP):
        raise ValueError(f"{name} is exact: it has no weights to export")
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty")
    write_model(model, folder, half=half)
    return (folder / WEIGHTS).stat().st_size


def load_ndp(name: str | Path, device: str = "cpu") -> NDP:
    """An NDP by its name, on a device."""
    model = load(name)
    if isinstance(model, GP):
        raise ValueError(f"{name} is an exact Gaussian process; name a diffusion model, such as universal")
    if not isinstance(model, NDP):
        raise ValueError(f"{name} is a neural process; name a diffusion model, such as universal")
    return model.to(read_device(device))


def prior_of(model: TrainedModel) -> str:
    """The name of the prior that a model was trained on; empty for a table of functions."""
    return model.about.get("recipe", {}).get("prior", "")


def exact_process_of(model: NDP, name: str) -> GP:
    """The Gaussian process that a regression model was trained on."""
    process = exact_process(prior_of(model))
    if process is None:
        raise ValueError(f"{name} was not trained on a Gaussian process with an exact posterior")
    return process


def shipped_folder(name: str) -> Path:
    """The folder of a model that comes with the package."""
    return _pretrained() / name


def _shipped_folders() -> list[Path]:
    return sorted(path.parent for path in _pretrained().glob(f"*/{CONFIG}"))


def _pretrained() -> Path:
    return Path(str(files("ndp") / "models" / "pretrained"))
