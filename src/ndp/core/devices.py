"""Which device to work on, from what a user said."""

import os

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


def check_devices(count: int, name: str) -> None:
    """Raise an error if this machine does not have so many devices: GPUs, or the cores of its CPU."""
    gpu = read_device(name).type == "cuda"
    there = torch.cuda.device_count() if gpu else os.cpu_count() or 1
    if count > there:
        what = "GPU(s)" if gpu else "CPU core(s), each of which counts as a device"
        raise ValueError(f"--devices asks for {count}, and this machine has {there} {what}")
