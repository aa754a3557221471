"""Freed memory goes back to the system."""

from __future__ import annotations

import ctypes
import sys

import pytest

from tvm_neocpu.runtime import heap


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


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap")
def test_large_blocks_go_back_at_once_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    with heap.large_blocks_apart(), heap.large_blocks_apart():
        blocks = [libc.malloc(8 << 20) for _ in range(6)]
        last = libc.malloc(4096)
        for block in blocks:
            libc.memset(ctypes.c_void_p(block), 1, 8 << 20)
        before = _resident()
        for block in blocks:
            libc.free(block)
        assert _resident() < before - 30 * 2**20
    libc.free(last)
    monkeypatch.setenv("GLIBC_TUNABLES", "")
    monkeypatch.setattr(heap.ctypes, "CDLL", None)  # the user's own heap: nothing is called
    with heap.large_blocks_apart():
        pass


def _resident() -> int:
    """Bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
