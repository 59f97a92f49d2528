"""Freed memory is kept, which only the number of pages that the system hands out can tell."""

import platform
import subprocess
import sys

import pytest

FREES_AND_ASKS_AGAIN = """
import resource, sys, torch
from ndp.diffusion.memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def work():
    values = torch.ones(5 * 2**20)
    for _ in range(2):
        values = values + 1
for _ in range(10):
    work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def new_pages(keep: str) -> int:
    answer = subprocess.run(
        [sys.executable, "-c", FREES_AND_ASKS_AGAIN, keep], capture_output=True, text=True, check=True
    )
    return int(answer.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have rules of their own")
def test_memory_that_is_freed_and_asked_for_again_is_not_fetched_anew() -> None:
    assert new_pages("keep") < new_pages("as it is") / 10
