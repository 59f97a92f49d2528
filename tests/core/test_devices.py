"""Devices: a name, and how many of them this machine has."""

import os

import pytest

from ndp.core.devices import check_devices, read_device


def test_more_devices_than_there_are_is_an_error() -> None:
    check_devices(1, "cpu")
    check_devices(os.cpu_count() or 1, "cpu")
    with pytest.raises(ValueError, match=r"--devices asks for 10000, and this machine has \d+ CPU core"):
        check_devices(10_000, "cpu")
    with pytest.raises(ValueError, match="a device is auto, cpu or cuda, not 'tpu'"):
        read_device("tpu")
