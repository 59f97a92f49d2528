"""Freed memory is kept, by what the C library says of its own memory (not every system counts the pages it hands out)."""

import platform
import subprocess
import sys

import pytest

STATISTICS = """
import ctypes, sys, torch
from ndp.core.memory import give_back_freed_memory, keep_freed_memory

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


HEAPS_OF_A_THREAD = """
import ctypes, sys, threading
from ndp.core.memory import give_back_freed_memory, share_one_heap

if sys.argv[1] == "share":
    share_one_heap()
memory = ctypes.CDLL(None)
memory.malloc.restype = ctypes.c_void_p
memory.open_memstream.restype = ctypes.c_void_p
text, size = ctypes.c_char_p(), ctypes.c_size_t()

def work():
    held = ctypes.c_void_p(memory.malloc(1000))
    stream = ctypes.c_void_p(memory.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    memory.malloc_info(0, stream)
    memory.fclose(stream)
    memory.free(held)

thread = threading.Thread(target=work)
thread.start()
thread.join()
print(text.value.count(b"<heap nr="))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have rules of their own")
def test_threads_share_one_heap() -> None:
    def heaps(share: str) -> int:
        command = [sys.executable, "-c", HEAPS_OF_A_THREAD, share]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert heaps("as it is") == 2
    assert heaps("share") == 1


GIVES_BACK = f"""
{STATISTICS}
keep_freed_memory()
allocator = ctypes.CDLL(None)
allocator.malloc.restype = ctypes.c_void_p
blocks = [ctypes.c_void_p(allocator.malloc(2**20)) for _ in range(50)]
for block in blocks:
    allocator.free(block)
before = memory().releasable
give_back_freed_memory()
print(before // 2**20, memory().releasable // 2**20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have rules of their own")
def test_freed_memory_is_given_back() -> None:
    """By the size of the heap's free end, which is what can be given back."""
    answer = subprocess.run([sys.executable, "-c", GIVES_BACK], capture_output=True, text=True, check=True)
    before, after = map(int, answer.stdout.split())
    assert before >= 35
    assert after == 0
