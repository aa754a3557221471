"""Freed memory goes back to the system."""

from __future__ import annotations

import ctypes
import sys

import pytest
from fresh_process import run_script

from tvm_neocpu.runtime.process import heap

# What mallopt(3) and glibc's manual name.
SETTINGS = [
    "GLIBC_TUNABLES",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap")
def test_what_was_freed_in_pieces_is_given_back() -> None:
    """Small pieces below one that stays: free alone cannot shrink the heap."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    pieces = [libc.malloc(4096) for _ in range(20_000)]
    for piece in pieces:
        libc.memset(ctypes.c_void_p(piece), 1, 4096)
    last = libc.malloc(4096)
    for piece in pieces:
        libc.free(piece)
    before = _resident()
    heap.give_back()
    libc.free(last)
    assert _resident() < before - 40 * 2**20


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda name: object())
    heap.give_back()


def test_windows_opens_no_library_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)

    def refuse(name: None) -> object:
        raise TypeError(f"bad argument type for built-in operation: {name}")

    monkeypatch.setattr(heap.ctypes, "CDLL", refuse)
    heap.give_back()
    with heap.large_blocks_apart():
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap")
def test_large_blocks_go_back_at_once_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a fresh process: elsewhere a block may fit a hole of the heap."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    run_script(
        "import ctypes\n"
        "from tvm_neocpu.runtime.process import heap\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.malloc.restype = ctypes.c_void_p\n"
        "libc.free.argtypes = [ctypes.c_void_p]\n"
        "def resident():\n"
        "    return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "with heap.large_blocks_apart(), heap.large_blocks_apart():\n"
        "    blocks = [libc.malloc(8 << 20) for _ in range(6)]\n"
        "    last = libc.malloc(4096)\n"
        "    for block in blocks:\n"
        "        libc.memset(ctypes.c_void_p(block), 1, 8 << 20)\n"
        "    before = resident()\n"
        "    for block in blocks:\n"
        "        libc.free(block)\n"
        "    assert resident() < before - 30 * 2**20\n"
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_a_heap_that_the_user_set_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in SETTINGS:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "")
    monkeypatch.setattr(heap.ctypes, "CDLL", None)  # a call would be an error
    with heap.large_blocks_apart():
        pass


def _resident() -> int:
    """Bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
