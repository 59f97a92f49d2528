"""Settings for all tests: shapes are checked, workers have one thread, and GPU tests fail where a GPU was asked for."""

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch

if find_spec("beartype") is not None:  # shapes and types of every call in ndp; a machine with a GPU may lack it
    import jaxtyping

    jaxtyping.install_import_hook("ndp", "beartype.beartype")

if "PYTEST_XDIST_WORKER" in os.environ:  # more threads would compete for the same cores
    torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """GPU tests are skipped where there is no GPU, unless one was asked for (`make test-gpu`)."""
    if torch.cuda.is_available():
        return
    if os.environ.get("NDP_TEST_GPU"):
        raise pytest.UsageError("make test-gpu needs a CUDA device, and there is none here")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


@pytest.fixture
def as_installed() -> Iterator[None]:
    """Without the type checks of the test run, which come before those of the library and which no user has."""
    if find_spec("beartype") is None:
        yield
        return
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
