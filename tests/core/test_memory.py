"""Freed memory is kept, by what the C library says of its own memory (not every system counts the pages it hands out)."""

import platform
import subprocess
import sys

import pytest

STATISTICS = """
import ctypes, sys, threading, torch
from ndp.core.memory import give_back_freed_memory, keep_freed_memory, share_one_heap

class Memory(ctypes.Structure):  # glibc's struct mallinfo
    names = "heap free_pieces small_pieces mapped_pieces mapped most small_free used free releasable"
    _fields_ = [(name, ctypes.c_int) for name in names.split()]

memory = ctypes.CDLL(None).mallinfo
memory.restype = Memory
"""
HOLDS_AND_FREES = f"""
{STATISTICS}
if sys.argv[1] == "keep":
    keep_freed_memory()
mapped = memory().mapped_pieces
values = torch.ones(5 * 2**20)
mapped = memory().mapped_pieces - mapped
del values
print(mapped, memory().free // 2**20)
"""


def mapped_pieces_and_free_mebibytes(keep: str) -> tuple[int, int]:
    """How many pieces 20 MiB are from the system rather than the heap, and how much the heap has once they are freed."""
    answer = subprocess.run([sys.executable, "-c", HOLDS_AND_FREES, keep], capture_output=True, text=True, check=True)
    mapped, free = answer.stdout.split()
    return int(mapped), int(free)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have rules of their own")
def test_memory_that_is_freed_stays_with_the_c_library() -> None:
    mapped, free = mapped_pieces_and_free_mebibytes("as it is")
    assert mapped == 1
    assert free < 20
    mapped, free = mapped_pieces_and_free_mebibytes("keep")
    assert mapped == 0
    assert free >= 20


FREES_IN_A_THREAD = f"""
{STATISTICS}
keep_freed_memory()
if sys.argv[1] == "share":
    share_one_heap()
sizes = []

def work():
    before = memory().heap
    held = [torch.ones(2**18) for _ in range(40)]
    sizes.append(memory().heap - before)
    del held
    give_back_freed_memory()
    sizes.append(memory().heap - before)

thread = threading.Thread(target=work)
thread.start()
thread.join()
print(*(size // 2**20 for size in sizes))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have rules of their own")
def test_memory_that_a_thread_frees_is_given_back() -> None:
    def grown(share: str) -> list[int]:
        command = [sys.executable, "-c", FREES_IN_A_THREAD, share]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        return [int(number) for number in answer.stdout.split()]

    held, kept = grown("as it is")
    assert min(held, kept) >= 35, "a thread has a heap of its own, which keeps its end"
    held, kept = grown("share")
    assert held >= 35
    assert kept <= 15
