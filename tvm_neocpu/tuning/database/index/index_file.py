"""The index beside a log, ``<log>.idx``: read where it fits, extended where the log has grown.

    CRC-32 of all that follows
    {"format": 1, "end": 91000000, "modified": ..., "ends": hash, "lines": 100000, "texts": 48211}
    the texts, as one JSON list
    offsets (int64) and places in the texts (int32), little-endian

An index fits a log of the same size and modification time, or a longer one, if the first and last
bytes that it covers are the same: a log is appended to, or replaced as a whole. One that does not
fit, that is damaged or of another format, is made again; the log alone decides. Where nobody may
write beside the log, each process scans it. A short log has no index: scanning it is as quick.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tvm_neocpu.tuning.database.index.scan import LogIndex, scan

FORMAT = 1
SUFFIX = ".idx"
# So many bytes of a log are scanned in a few milliseconds.
MIN_BYTES = 1 << 20
# How much of both ends of the covered part is compared.
_ENDS = 4096


def index_path(log: Path) -> Path:
    return log.with_name(log.name + SUFFIX)


def index_of(log: Path, file: BinaryIO) -> LogIndex:
    """The index of an open log; writes it beside the log where that saves time. Raises OSError."""
    status = os.fstat(file.fileno())
    saved = _load(log, file, status)
    if saved is not None and saved.end == status.st_size:
        return saved
    found = scan(file, saved)
    if found.end - (saved.end if saved else 0) >= MIN_BYTES:
        # Without a right to write here, or on a full disk, the index lasts for this process.
        with contextlib.suppress(OSError):
            _save(log, file, _whole_lines(found, file), status)
    return found


def _load(log: Path, file: BinaryIO, status: os.stat_result) -> LogIndex | None:
    """The saved index if it fits the log, else ``None``."""
    try:
        content = index_path(log).read_bytes()
    except OSError:
        return None
    checksum, _, checked = content.partition(b"\n")
    if checksum != _checksum(checked):
        return None
    first, _, rest = checked.partition(b"\n")
    try:
        header = json.loads(first)
        if header["format"] != FORMAT:
            return None
        index = _unpack(header, rest)
    except (LookupError, OverflowError, RecursionError, TypeError, ValueError):
        return None
    if index.end == status.st_size and header["modified"] != status.st_mtime_ns:
        return None
    if index.end > status.st_size or header["ends"] != _hash_of_ends(file, index.end):
        return None
    return index


def _save(log: Path, file: BinaryIO, index: LogIndex, status: os.stat_result) -> None:
    texts = json.dumps(index.texts).encode()
    rest = texts + index.offsets.astype("<i8").tobytes() + index.about.astype("<i4").tobytes()
    header = {
        "format": FORMAT,
        "end": index.end,
        "modified": status.st_mtime_ns,
        "ends": _hash_of_ends(file, index.end),
        "lines": len(index.about),
        "texts": len(texts),
    }
    checked = json.dumps(header).encode() + b"\n" + rest
    path = index_path(log)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as unfinished:
            os.fchmod(handle, 0o644)  # whoever may read the log may read its index
            unfinished.write(_checksum(checked) + b"\n" + checked)
        # The rename is atomic: another process sees the old index or the new one.
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _unpack(header: dict[str, Any], rest: bytes) -> LogIndex:
    """Raises ValueError for arrays that cannot be an index of the log's lines."""
    count, begin = int(header["lines"]), int(header["texts"])
    texts = json.loads(rest[:begin])
    offsets = np.frombuffer(rest, "<i8", count + 1, begin).astype(np.int64)
    about = np.frombuffer(rest, "<i4", count, begin + 8 * (count + 1)).astype(np.int32)
    if offsets[0] != 0 or offsets[-1] != header["end"] or (np.diff(offsets) <= 0).any():
        raise ValueError("its lines overlap")
    if count and not 0 <= about.min() <= about.max() < len(texts):
        raise ValueError("its lines are about nothing")
    return LogIndex(offsets, about, tuple(map(str, texts)))


def _checksum(content: bytes) -> bytes:
    return f"{zlib.crc32(content):08x}".encode()


def _whole_lines(index: LogIndex, file: BinaryIO) -> LogIndex:
    """Without a last line that its writer has not ended yet."""
    file.seek(index.end - 1)
    if file.read(1) == b"\n":
        return index
    return LogIndex(index.offsets[:-1], index.about[:-1], index.texts)


def _hash_of_ends(file: BinaryIO, end: int) -> str:
    file.seek(0)
    head = file.read(min(_ENDS, end))
    file.seek(max(0, end - _ENDS))
    tail = file.read(min(_ENDS, end))
    return hashlib.sha256(head + tail).hexdigest()
