"""The lines of a log file, whatever it holds, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

# A record takes 1 KiB, a verdict of a large network 100 KiB: what is longer is no line of a log.
MAX_LINE = 256 * 1024
TOO_LONG = f"longer than {MAX_LINE // 1024} KiB"


def read_lines(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """(line, its length in bytes), newline included; no bytes for a line that is too long."""
    while line := file.readline(MAX_LINE + 1):
        if len(line) <= MAX_LINE:
            yield line, len(line)
            continue
        length = len(line)
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)
            length += len(line)
        yield b"", length
