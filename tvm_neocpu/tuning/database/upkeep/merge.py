"""Several logs as one, without duplicates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_neocpu.core.errors import LineError, LogError
from tvm_neocpu.tuning.database.index.lines import TOO_LONG, read_lines
from tvm_neocpu.tuning.database.lines.record_lines import parse_line, reason_of
from tvm_neocpu.tuning.database.log import Skipped, TuningLog

# Lines that are appended under one lock.
_AT_ONCE = 1000


@dataclass(frozen=True)
class Merged:
    """Lines added, lines that were there already, and (where, why) of those left out."""

    added: int
    duplicates: int
    skipped: tuple[Skipped, ...]


def merge_logs(out: TuningLog, paths: Sequence[Path]) -> Merged:
    """Append to ``out`` what it lacks of the other logs, in their order.

    Lines are compared byte by byte. Lines of templates that nobody registered are kept; what is no
    line of a log at all (torn, binary) is left out, so are comments. Raises LogError for a log that
    cannot be read or written.
    """
    out.check_writable()
    skipped: list[Skipped] = []
    seen = {_hash(line) for line in _lines_of(out.path, [])}
    known, total = len(seen), 0
    waiting: list[str] = []
    for path in paths:
        for line in _lines_of(path, skipped):
            total += 1
            if (key := _hash(line)) not in seen:
                seen.add(key)
                waiting.append(line.decode())
            if len(waiting) >= _AT_ONCE:
                out.append_lines(waiting)
                waiting = []
    out.append_lines(waiting)
    added = len(seen) - known
    return Merged(added, total - added, tuple(skipped))


def _lines_of(path: Path, skipped: list[Skipped]) -> Iterator[bytes]:
    """The lines that say something, stripped; (where, why) of unreadable ones to ``skipped``."""
    try:
        with path.open("rb") as file:
            for number, (line, _) in enumerate(read_lines(file), 1):
                try:
                    if not line:
                        raise LineError(TOO_LONG)
                    if parse_line(line) is not None:
                        yield line.strip()
                except LineError as error:
                    skipped.append((f"{path}:{number}", reason_of(error)))
    except OSError as error:
        raise LogError(f"cannot read the tuning log {path}: {error.strerror or error}") from error


def _hash(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()
