"""A file of lines, changed so that nobody sees half of it. The caller holds the log's lock."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

# Bytes at the start of a file that say whether it is a log; a head of comments may come first.
HEAD = 1 << 16


def is_other_file(handle: int) -> bool:
    """Whether a file that is not empty starts like something else than a log.

    A log has a line that begins a JSON object on one line, if only a torn one; or nothing but
    comments yet. A lone ``{`` is what a writer left that died at once.
    """
    lines = [line.strip() for line in os.pread(handle, HEAD, 0).splitlines()]
    said = [line for line in lines if line and not line.startswith(b"#")]
    return said not in ([], [b"{"]) and not any(line.startswith(b'{"') for line in said)


def end_lines(handle: int) -> list[bytes]:
    """Lines at the start of a file and at its end, cut off where they are long."""
    size = os.fstat(handle).st_size
    last = os.pread(handle, HEAD, max(0, size - HEAD))
    return [*os.pread(handle, HEAD, 0).splitlines(), *last.splitlines()]


def append_lines(handle: int, data: bytes) -> None:
    """Append whole lines to a file opened for appending, after the end of a torn one.

    All or nothing: what a full disk cut off is taken back. Raises OSError.
    """
    size = os.fstat(handle).st_size
    if _is_torn(handle, size):
        data = b"\n" + data
    try:
        # A single write: a reader sees all of it or nothing.
        while data:
            data = data[os.write(handle, data) :]
    except OSError:
        with suppress(OSError):
            os.ftruncate(handle, size)
        raise


def replace_lines(path: Path, handle: int, kept: Callable[[BinaryIO], Iterable[bytes]]) -> None:
    """Replace the file by the lines that ``kept`` yields of it; raises OSError and changes nothing.

    A process that has the old file open goes on reading it. A symbolic link goes on leading there.
    """
    path = path.resolve()
    unfinished, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(unfinished, "wb") as new, open(os.dup(handle), "rb") as old:
            os.fchmod(unfinished, stat.S_IMODE(os.fstat(handle).st_mode))
            old.seek(0)
            new.writelines(kept(old))
            new.flush()
            os.fsync(unfinished)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _is_torn(handle: int, size: int) -> bool:
    """Whether the last line lacks its end, because its writer died."""
    return size > 0 and os.pread(handle, 1, size - 1) != b"\n"
