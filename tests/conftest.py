"""Settings for all tests."""

import os

import torch

if "PYTEST_XDIST_WORKER" in os.environ:  # one thread a worker: more would fight over the same cores
    torch.set_num_threads(1)
