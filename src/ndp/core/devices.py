"""Which device to work on, from what a user said."""

import torch


def read_device(name: str) -> torch.device:
    """The CPU, a GPU ("cuda"), or with "auto" the GPU if there is one. Matrix products on a GPU may then use TF32."""
    if name not in ("auto", "cpu", "cuda"):
        raise ValueError(f"a device is auto, cpu or cuda, not {name!r}")
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise ValueError("there is no CUDA device here; use --device cpu")
    if not there or name == "cpu":
        return torch.device("cpu")
    torch.set_float32_matmul_precision("high")
    return torch.device("cuda")
