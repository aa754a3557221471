"""Memory that was freed, given back to the system: what of glibc's heap a build changes."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

from tvm_neocpu.runtime.process.forking import fork_lock

# From mallopt(3). What a program reaches by itself that frees large blocks: 32 MiB, and twice that.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_USUAL = 32 << 20
# Large weights; smaller blocks, mapped anew each time, cost LLVM time.
_APART = 4 << 20
# Any of these says how the heap is to be; what we set would come on top of it.
_USERS = (
    "GLIBC_TUNABLES",
    *(f"MALLOC_{name}_" for name in ("MMAP_MAX", "MMAP_THRESHOLD", "TOP_PAD", "TRIM_THRESHOLD")),
)
# Of a library without these functions, and of Windows, which opens no library without a name.
_ELSEWHERE = (AttributeError, OSError, TypeError)
_LOCK = fork_lock()
_inside = 0


@contextlib.contextmanager
def large_blocks_apart() -> Iterator[None]:
    """Inside, blocks of four megabytes and more go back to the system when they are freed.

    Between blocks that stay, glibc keeps them: ResNet-50's import and folding, 35 MB each. In a
    process whose environment says how its heap is to be nothing changes, nor without glibc.
    """
    global _inside
    with _LOCK:
        _inside += 1
        if _inside == 1:
            _allocate_apart(_APART)
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                _allocate_apart(_USUAL)


def _allocate_apart(size: int) -> None:
    if os.environ.keys() & set(_USERS):
        return
    with contextlib.suppress(*_ELSEWHERE):
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  # others have another mallopt, or none
        library.mallopt(_MMAP_THRESHOLD, size)
        library.mallopt(_TRIM_THRESHOLD, 2 * size)


def give_back() -> None:
    """Have glibc return the pages that nothing uses any more; without effect elsewhere.

    It keeps what is freed in pieces: after a build of ResNet-50 as much as the network's weights.
    """
    with contextlib.suppress(*_ELSEWHERE):
        ctypes.CDLL(None).malloc_trim(0)
