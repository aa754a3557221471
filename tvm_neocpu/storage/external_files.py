"""The files beside an ONNX model that hold its weights, found without parsing the model.

A cached network is found by what is in its files, and its session imports neither the compiler nor
onnx. A weight in another file has an entry of two strings, a key and a value:

    0a 08 "location"  12 0b "weights.bin"       field 1 of 8 bytes, field 2 of 11
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

_KEY = re.compile(rb"\x0a\x08location")
# The entry, and its value's length: seven bits a byte, the lowest first.
_ENTRY = re.compile(rb"\x0a\x08location\x12([\x80-\xff]?[\x00-\x7f])", re.DOTALL)


def content_hash(model: Path) -> bytes | None:
    """A hash of a model's file and of those that hold its weights; ``None`` where one is not there.

    Files are mapped, so that a build does not have them in memory beside what is made of them.
    """
    try:
        if not model.is_file():  # a pipe would be waited for
            return None
        with _mapped(model) as found:
            content = hashlib.sha256(found)
            beside = external_files(found, model.parent)
        if beside is None:
            return None
        for path in beside:
            with _mapped(path) as found:
                content.update(hashlib.sha256(found).digest())
    except (OSError, ValueError):  # nobody maps an empty file
        return None
    return content.digest()


def external_files(model: bytes | mmap, folder: Path) -> list[Path] | None:
    """The files that a model names, each once, in order; none where it has all of its weights.

    ``None`` where something looks like such a name and is none, or is no file in ``folder``: the
    importer, which parses the model, says what is wrong.
    """
    found: dict[Path, None] = {}
    count = 0
    for entry in _ENTRY.finditer(model):
        count += 1
        length = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(entry[1]))
        path = _file(model[entry.end() : entry.end() + length], folder)
        if path is None:
            return None
        found[path] = None
    return list(found) if count == sum(1 for _ in _KEY.finditer(model)) else None


def _file(location: bytes, folder: Path) -> Path | None:
    try:
        path = (folder / location.decode()).resolve()
        inside = path.is_relative_to(folder.resolve()) and path.is_file()
    except (OSError, ValueError, RuntimeError):
        return None
    return path if inside else None


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[mmap]:
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as found:
        yield found
