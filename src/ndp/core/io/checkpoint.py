"""A model on disk or on the hub: a folder with `model.safetensors` and `config.json`. No pickle is ever read or written.

A configuration is a description of the model, as the model itself gives it, and the digest of its weights. What the description
means is the model's business (`NDP.from_config`, `NeuralProcess.from_config`).
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os.path import isdir
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError
from torch import Tensor, nn

from ndp.core.io.files import atomic_write
from ndp.core.messages import first_line, short
from ndp.core.version import __version__

SCHEMA = 1
WEIGHTS, CONFIG = "model.safetensors", "config.json"
SETTINGS_DIGEST = "settings_sha256"  # models of the first release have none
LARGEST_CONFIG = 2**20  # bytes
# A folder may be rewritten while it is read. Files that do not belong together are read again, at least and at most so many
# times, with so many seconds in between.
FEWEST_TRIES, TRIES, PAUSE = 3, 20, 0.05

Model = TypeVar("Model")


class ModelNotFoundError(ValueError):
    """A model that is neither in a folder nor on the hub."""


@dataclass(frozen=True)
class Checkpoint:
    """A configuration, and the bytes of the weights that it was written for."""

    config: dict[str, Any]
    weights: bytes
    path: Path

    @property
    def process(self) -> str:
        """The name of the kind of model."""
        return self.config.get("process", "ndp")

    def build(self, from_config: Callable[[Mapping[str, Any], Mapping[str, Tensor]], Model]) -> Model:
        """The model that `from_config` makes of the description and the weights. Global random numbers are not touched."""
        try:
            with torch.random.fork_rng(devices=[]):  # new networks draw random weights, which the checkpoint replaces
                model = from_config(self.config, safetensors.torch.load(self.weights))
        except KeyError as error:
            raise ValueError(f"the configuration of {self.path} lacks {first_line(error)}") from error
        except (SafetensorError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"the model of {self.path} does not fit its configuration: {first_line(error)}") from error
        if self.config.get(SETTINGS_DIGEST, (digest := _digest_of_settings(self.config))) != digest:
            raise ValueError(f"the configuration of {self.path} is damaged or was changed: its checksum does not match")
        return model


def load_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give a network the weights of a file. They need its names and shapes, and are finite numbers.

    The network may be on torch's device `meta`, where nothing was made for these weights to replace.
    """
    wanted = network.state_dict()
    for name in (*wanted, *weights):
        if name not in weights or name not in wanted:
            raise ValueError(f"the weights {'lack' if name in wanted else 'hold an unknown'} {short(name)}")
    loaded = {}
    for name, like in wanted.items():
        weight = weights[name]
        if weight.shape != like.shape:
            raise ValueError(f"{name} has shape {short(list(weight.shape))}, and not {short(list(like.shape))}")
        if weight.is_floating_point() != like.is_floating_point() or weight.is_complex():
            raise ValueError(f"{name} holds numbers of type {weight.dtype}, and not {like.dtype}")
        loaded[name] = weight.to(like.dtype, copy=True)
    check_finite(loaded)
    network.load_state_dict(loaded, assign=True)


def check_finite(weights: Mapping[str, Tensor]) -> None:
    """Raise a ValueError that names the first weight with NaN or infinity."""
    if bool(torch.stack([weight.sum() for weight in weights.values()]).isfinite().all()):
        return  # a finite sum has finite parts, and is quicker than they are
    for name, weight in weights.items():
        if not bool(weight.isfinite().all()):
            raise ValueError(f"{name} holds NaN or infinity; train the model again, or load a good copy of its folder")


def write_checkpoint(
    folder: Path,
    process: str,
    description: Mapping[str, Any],
    network: object,
    about: Mapping[str, Any],
    *,
    half: bool = False,
) -> None:
    """Weights and the configuration with their digest take their places at once: a mixture of two models is never readable.

    `half` stores weights in 16 bits; a model loaded from them computes in 32.
    """
    if not isinstance(network, nn.Module):
        raise ValueError(f"a model made of a {type(network).__name__} has no weights to save")
    tensors = {name: tensor.detach().contiguous().cpu() for name, tensor in network.state_dict().items()}
    check_finite(tensors)
    if half:
        tensors = {name: _halved(name, tensor) for name, tensor in tensors.items()}
    weights = safetensors.torch.save(tensors)
    config = {
        "schema": SCHEMA,
        "library": f"ndp {__version__}",
        "process": process,
        **description,
        **({"stored_as": "float16"} if half else {}),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "about": dict(about),
    }
    config[SETTINGS_DIGEST] = _digest_of_settings(config)
    with atomic_write(folder / CONFIG) as config_file, atomic_write(folder / WEIGHTS) as weights_file:
        weights_file.write_bytes(weights)
        config_file.write_text(_as_json(config))


def read_checkpoint(model_id: str | Path, **options: Any) -> Checkpoint:
    """The checkpoint of a folder or of a repository on the hub; `options` are the hub's.

    The weights that are hashed are those that are loaded, so a folder that is rewritten meanwhile gives one model or the other.
    """
    if isdir(model_id):
        config_path, weights_path = Path(model_id) / CONFIG, Path(model_id) / WEIGHTS
    else:
        config_path, weights_path = _download(str(model_id), options)
    for tried in range(1, TRIES + 1):
        before = _version(config_path), _version(weights_path)
        config = _parse_config(config_path)
        if not weights_path.is_file():
            raise ValueError(f"there is no {weights_path}")
        weights = weights_path.read_bytes()
        if hashlib.sha256(weights).hexdigest() == config.get("weights_sha256"):
            return Checkpoint(config, weights, weights_path)
        time.sleep(PAUSE)
        if tried >= FEWEST_TRIES and before == (_version(config_path), _version(weights_path)):
            break
    raise ValueError(
        f"{weights_path} is damaged or was changed: it is not the file that its configuration was written for"
    )


def read_config(folder: Path) -> dict[str, Any]:
    """The description of a model, without its weights."""
    return _parse_config(folder / CONFIG)


def record_scores(folder: Path, evaluations: list[dict[str, Any]]) -> None:
    """Write evaluations into a model's configuration, in place of older ones of the same cell."""
    config = read_config(folder)
    kept = {_cell(one): one for one in (*config["about"].get("scores", {}).get("evaluations", []), *evaluations)}
    config["about"].setdefault("scores", {})["evaluations"] = [kept[cell] for cell in sorted(kept)]
    _write_config(folder, config)


def _cell(evaluation: dict[str, Any]) -> tuple[int, int]:
    return evaluation["dim"], evaluation["steps"]


def _write_config(folder: Path, config: dict[str, Any]) -> None:
    with atomic_write(folder / CONFIG) as temporary:
        temporary.write_text(_as_json(config))


def _as_json(config: Mapping[str, Any]) -> str:
    return json.dumps(config, indent=1) + "\n"


def _digest_of_settings(config: Mapping[str, Any]) -> str:
    """A checksum of all that decides what a model predicts, and not of what is told about it."""
    beside = ("library", "about", "weights_sha256", SETTINGS_DIGEST)
    settings = {name: value for name, value in config.items() if name not in beside}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _halved(name: str, weight: Tensor) -> Tensor:
    if not weight.is_floating_point():
        return weight
    if bool((weight.abs() > torch.finfo(torch.float16).max).any()):
        raise ValueError(f"{name} holds numbers too large for half precision; save this model in full")
    return weight.half()


def _download(model_id: str, options: Mapping[str, Any]) -> tuple[Path, Path]:
    """The two files of a repository on the hub."""
    wanted: Any = {
        name: options[name] for name in ("revision", "cache_dir", "token", "local_files_only") if name in options
    }
    try:
        config = Path(hf_hub_download(model_id, CONFIG, **wanted))
        return config, Path(hf_hub_download(model_id, WEIGHTS, **wanted))
    except LocalEntryNotFoundError as error:
        raise ModelNotFoundError(
            f"{first_line(model_id)} is not on this machine and the hub cannot be reached; check the connection, or download "
            "the folder elsewhere and load it by its path"
        ) from error
    except HFValidationError as error:
        raise ModelNotFoundError(f"{short(model_id)} is no name of a repository: {first_line(error)}") from error
    except HfHubHTTPError as error:
        raise ModelNotFoundError(
            f"the hub has no model {first_line(model_id)}, or does not show it to you: {first_line(error)}"
        ) from error


def _version(path: Path) -> tuple[int, int] | None:
    """Which file this is: another one has its place after a rewrite."""
    if not path.exists():
        return None
    about = path.stat()
    return about.st_ino, about.st_mtime_ns


def _parse_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"{path.parent} holds no model: there is no {path.name}")
    with path.open("rb") as file:
        text = file.read(LARGEST_CONFIG + 1)
    if len(text) > LARGEST_CONFIG:
        raise ValueError(f"{path} is no configuration of a model: it has more than {LARGEST_CONFIG:,} bytes")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {first_line(error)}") from error
    schema = config.get("schema") if isinstance(config, dict) else None
    if type(schema) is not int or not isinstance(config.get("process", "ndp"), str):
        raise ValueError(f"{path} is not the configuration of a model of this library")
    if schema < 1:
        raise ValueError(f"{path} has schema {short(schema)}, which no version of ndp wrote")
    if schema > SCHEMA:
        raise ValueError(
            f"{path} was written by a newer version of ndp (schema {short(schema)}, this one reads {SCHEMA}); update ndp"
        )
    return config
