"""A model on disk: a folder with `model.safetensors` and `config.json`. No pickle is ever read or written."""

import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError
from torch import Tensor, nn

from ndp.core.io.files import whole_file
from ndp.core.units import read_units
from ndp.core.version import __version__
from ndp.diffusion.prediction import Prediction
from ndp.networks.registry import describe_network, make_network
from ndp.processes.architectures import Kind
from ndp.processes.joint import JointNDP
from ndp.processes.ndp import NDP
from ndp.processes.neural_process import NeuralProcess

SCHEMA = 1
NDP_PROCESS, JOINT_PROCESS, NEURAL_PROCESS = "ndp", "joint", "neural_process"
WEIGHTS, CONFIG = "model.safetensors", "config.json"


def write_model(model: NDP | JointNDP | NeuralProcess, folder: Path, *, half: bool = False) -> None:
    """Weights first, then the configuration that vouches for them: a half-written model is never a readable one.

    With `half` they take half the space, in float16; a model computes in float32 all the same once it is read.
    """
    described = _describe_neural_process(model) if isinstance(model, NeuralProcess) else _describe_ndp(model)
    assert isinstance(model.network, nn.Module)
    weights = {name: tensor.detach().contiguous().cpu() for name, tensor in model.network.state_dict().items()}
    if half:
        weights = {name: _halved(name, tensor) for name, tensor in weights.items()}
        described["stored_as"] = "float16"
    with whole_file(folder / WEIGHTS) as temporary:
        safetensors.torch.save_file(weights, temporary)
        digest = _digest(temporary)
    about = {"weights_sha256": digest, "about": model.about}
    config = {"schema": SCHEMA, "library": f"ndp {__version__}", **described, **about}
    with whole_file(folder / CONFIG) as temporary:
        temporary.write_text(json.dumps(config, indent=1) + "\n")


def _halved(name: str, weight: Tensor) -> Tensor:
    if not weight.is_floating_point():
        return weight
    if bool((weight.abs() > torch.finfo(torch.float16).max).any()):
        raise ValueError(f"{name} holds numbers too large for half precision; save this model in full")
    return weight.half()


def _describe_ndp(model: NDP | JointNDP) -> dict[str, Any]:
    scaling = model.scaling if isinstance(model, NDP) else None
    return {
        "process": NDP_PROCESS if isinstance(model, NDP) else JOINT_PROCESS,
        "network": describe_network(model.network),
        "prediction": str(model.prediction),
        "noise_floor": model.noise_floor,
        "num_outputs": model.num_outputs,
        "input_dims": model.input_dims,
        "trained_ratios": model.trained_ratios,
        "units": None if scaling is None else scaling.as_dict(),
    }


def _describe_neural_process(model: NeuralProcess) -> dict[str, Any]:
    network = {"kind": str(model.kind), "dim": model.dim, "options": model.options}
    return {"process": NEURAL_PROCESS, "network": network, "input_dims": model.input_dims}


def read_model(folder: Path) -> NDP | JointNDP | NeuralProcess:
    """The model in a folder, checked against what its configuration says."""
    return _build(_read_config(folder / CONFIG), folder / WEIGHTS)


def record_scores(folder: Path, evaluations: list[dict[str, Any]]) -> None:
    """Write evaluations into a model's configuration, in place of older ones of the same cell."""
    config = read_config(folder)
    kept = {_cell(one): one for one in (*config["about"].get("scores", {}).get("evaluations", []), *evaluations)}
    config["about"].setdefault("scores", {})["evaluations"] = [kept[cell] for cell in sorted(kept)]
    with whole_file(folder / CONFIG) as temporary:
        temporary.write_text(json.dumps(config, indent=1) + "\n")


def _cell(evaluation: dict[str, Any]) -> tuple[int, int]:
    return evaluation["dim"], evaluation["steps"]


def read_hub_model(model_id: str, options: dict[str, Any]) -> NDP | JointNDP | NeuralProcess:
    """The model of a folder or of a repository on the hub."""
    if Path(model_id).is_dir():
        return read_model(Path(model_id))
    download = {
        name: options[name] for name in ("revision", "cache_dir", "token", "local_files_only") if name in options
    }
    try:
        config = _read_config(Path(hf_hub_download(model_id, CONFIG, **download)))
        return _build(config, Path(hf_hub_download(model_id, WEIGHTS, **download)))
    except LocalEntryNotFoundError as error:
        raise ValueError(
            f"{model_id} is not on this machine and the hub cannot be reached; check the connection, or download the "
            "folder elsewhere and load it by its path"
        ) from error
    except HFValidationError as error:
        raise ValueError(f"{model_id!r} is neither a model's name, nor a folder, nor a hub id: {error}") from error
    except HfHubHTTPError as error:
        raise ValueError(f"the hub has no model {model_id}, or does not show it to you: {error}") from error


def read_config(folder: Path) -> dict[str, Any]:
    """What a model says of itself, without its weights."""
    return _read_config(folder / CONFIG)


def architecture_of(config: dict[str, Any]) -> str:
    """What kind of model a configuration describes, in words."""
    if config.get("process", NDP_PROCESS) == NEURAL_PROCESS:
        return Kind(config["network"]["kind"]).words
    if config.get("process") == JOINT_PROCESS:
        return "joint neural diffusion process"
    return "neural diffusion process"


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"{path.parent} holds no model: there is no {path.name}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    schema = config.get("schema") if isinstance(config, dict) else None
    if not isinstance(schema, int):
        raise ValueError(f"{path} is not the configuration of a model of this library")
    if schema > SCHEMA:
        raise ValueError(
            f"{path} was written by a newer version of ndp (schema {schema}, this one reads {SCHEMA}); update ndp"
        )
    return config


def _build(config: dict[str, Any], weights: Path) -> NDP | JointNDP | NeuralProcess:
    if not weights.exists():
        raise ValueError(f"there is no {weights}")
    if _digest(weights) != config.get("weights_sha256"):
        raise ValueError(
            f"{weights} is damaged or was changed: it is not the file that its configuration was written for"
        )
    try:
        tensors = safetensors.torch.load_file(weights)
        if config.get("process", NDP_PROCESS) == NEURAL_PROCESS:
            return _build_neural_process(config, tensors)
        network = make_network(**config["network"])
        network.load_state_dict(tensors)
        trained: Any = network.requires_grad_(False).eval()
        common: dict[str, Any] = {
            "prediction": Prediction(config["prediction"]),
            "noise_floor": config["noise_floor"],
            "num_outputs": config["num_outputs"],
            "input_dims": config["input_dims"],
            "trained_ratios": tuple(config["trained_ratios"]),
            "about": config["about"],
        }
        if config.get("process") == JOINT_PROCESS:
            return JointNDP(trained, **common)
        return NDP(trained, scaling=read_units(config["units"]), **common)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"the model of {weights} does not fit its configuration: {error}") from error


def _build_neural_process(config: dict[str, Any], tensors: dict[str, Tensor]) -> NeuralProcess:
    with torch.random.fork_rng(devices=[]):  # random weights are made first, and must not disturb the caller
        process = NeuralProcess(**config["network"], about=config["about"])
    process.network.load_state_dict(tensors)
    process.network.requires_grad_(False)
    return process


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
