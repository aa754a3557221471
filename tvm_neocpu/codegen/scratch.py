"""A folder for the moment in which LLVM's objects are files, on a disk that has room for them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tvm_neocpu.core.errors import ModuleFileError, first_line

# More than the objects of the networks seen so far. LLVM ends the process, without a word of ours,
# where it cannot write one.
ROOM_BYTES = 32 << 20


@contextmanager
def scratch_folder() -> Iterator[str]:
    """Raises ModuleFileError where there is no place for it."""
    try:
        check_room()
        with tempfile.TemporaryDirectory(prefix="neocpu-", ignore_cleanup_errors=True) as folder:
            yield folder
    except OSError as error:
        raise ModuleFileError(f"cannot write kernels: {first_line(error)}") from error


def check_room() -> None:
    """Raise ModuleFileError where temporary files have no room for objects.

    A disk that does not tell what is free may have room.
    """
    folder, free = tempfile.gettempdir(), ROOM_BYTES
    with suppress(OSError):
        free = shutil.disk_usage(folder).free
    if free < ROOM_BYTES:
        raise ModuleFileError(
            f"cannot write kernels: {free / 2**20:.1f} MiB are free in {folder}, and LLVM needs "
            f"{ROOM_BYTES >> 20}; TMPDIR names another folder"
        )
