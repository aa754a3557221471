"""What stands behind the code in an exported library: weights, description, checksums.

    code       a shared library: dlopen reads no further than its segments
    weights    from a page's start on, each aligned; read where they lie in the file
    table      JSON: the description, the place of every weight, what each function takes
    footer     96 bytes: a mark, the places of all that, checksums

It is read before any code of the file is mapped. The weights may lie in a file of their own.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from tvm_neocpu.core.errors import ModuleFileError, first_line
from tvm_neocpu.runtime.ffi.arrays import aligned_zeros
from tvm_neocpu.runtime.files.module_info import ModuleInfo, info_from_fields

if TYPE_CHECKING:
    from _typeshed import StrPath
    from numpy.typing import NDArray

    from tvm_neocpu.core.network.weight_transform import WeightTransform

MARK = b"NEOCPU-3"
# Mark, bytes of code, start and bytes of weights, start and bytes of the table, CRC of the weights,
# nothing, SHA-256 of code and table, CRC of these two and of the footer before it. Loading compares
# the CRC, because OpenSSL's library alone takes 4 ms to map; earlier versions wrote 0 there.
_FOOTER = "<8sQQQQQIQ32sI"
_CRC_BYTES = 4
FOOTER_BYTES = struct.calcsize(_FOOTER)
# A file of weights alone begins with a mark of its own, and what tells it from others.
_HEADER = "<8sIQ44x"
_HEADER_MARK = b"NEOCPU-W"
_HEADER_BYTES = struct.calcsize(_HEADER)
PAGE = 4096
_CHUNK = 1 << 20


class Weight(NamedTuple):
    """Where a weight's bytes are, from the start of all weights on, and what they are.

    With a ``transform`` the bytes are those of the network's own kernels, (kernels, taps): the
    loader transforms them for Winograd's algorithm.
    """

    offset: int
    shape: tuple[int, ...]
    dtype: str
    transform: WeightTransform | None = None


class Tail(NamedTuple):
    """A file's description and its weights; ``taken`` has those of each function, in order.

    ``weights_file`` is the name of the file that has them, beside the library; empty for itself.
    """

    info: ModuleInfo
    weights: tuple[Weight, ...]
    taken: Mapping[str, tuple[int, ...]]
    weights_file: str = ""


class Places(NamedTuple):
    """The footer's numbers, in bytes."""

    code: int
    weights_at: int
    weights: int
    table_at: int
    table: int
    weights_crc: int


def append_tail(
    file: BinaryIO, tail: Tail, content: Iterable[memoryview], weights_file: BinaryIO | None
) -> None:
    """Write weights, table and footer behind the code that ``file`` holds, and its end is at.

    ``weights_file``, which is empty, gets the weights instead. ``content`` has their bytes in the
    order of the table; each is asked for when it is written.
    """
    code = file.seek(0, 2)
    target = weights_file or file
    target.write(bytes(_HEADER_BYTES) if weights_file else b"")
    start = target.seek(0, 2)
    start += -start % PAGE if tail.weights else 0
    target.write(bytes(start - target.tell()))
    size = weights_crc = 0
    for weight, data in zip(tail.weights, content, strict=True):
        for part in (bytes(weight.offset - size), data):
            target.write(part)
            weights_crc = zlib.crc32(part, weights_crc)
            size += len(part)
    rows = [_row(weight) for weight in tail.weights]
    table = json.dumps(
        {
            "info": tail.info.to_fields(),
            "weights": rows,
            "taken": {name: list(found) for name, found in tail.taken.items()},
            "weights_file": tail.weights_file,
        }
    ).encode()
    table_at = file.seek(0, 2)
    file.write(table)
    places = Places(code, start, size, table_at, len(table), weights_crc)
    if weights_file is not None:
        weights_file.seek(0)
        weights_file.write(_header(places))
    footer = _footer(places, _sha(file, places))[:-_CRC_BYTES]
    file.write(footer + struct.pack("<I", _whole_crc(file, places, footer)))


def read_tail(path: StrPath, check_weights: bool = False) -> Tail | None:
    """A file's tail after a check of what it needs to run; ``None`` for a file without one.

    ``check_weights`` reads them all, which takes about a second a gigabyte. Raises ModuleFileError
    for a file that is damaged, or that lacks its weights.
    """
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        if size < FOOTER_BYTES:
            return None
        file.seek(size - FOOTER_BYTES)
        footer = file.read(FOOTER_BYTES)
        mark, *numbers, _, sha, crc = struct.unpack(_FOOTER, footer)
        if mark != MARK:
            return None
        places = Places(*numbers)
        if places.table_at + places.table + FOOTER_BYTES != size or places.code > size:
            raise ModuleFileError(f"cannot load {path}: it is truncated, or two files in one")
        if crc:
            is_whole = crc == _whole_crc(file, places, footer[:-_CRC_BYTES])
        else:
            is_whole = sha == _sha(file, places)
        if not is_whole:
            raise ModuleFileError(f"cannot load {path}: it is damaged: its checksum is another")
        file.seek(places.table_at)
        tail = _tail(file.read(places.table), path)
    _check_weights(path, tail, places, check_weights)
    return tail


def map_weights(path: StrPath, tail: Tail) -> list[NDArray[Any]]:
    """The weights as arrays over the mapped file; it stays mapped as long as they live.

    Pages are read when they are first used, and all processes that map the file share them. Weights
    with a transform are computed now, into memory of this process.
    """
    if not tail.weights:
        return []
    start = _places(path).weights_at
    with open(_holder(path, tail), "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=_READ_OR_COPY)
    whole = np.frombuffer(mapped, np.uint8)
    arrays = []
    for weight in tail.weights:
        kind = np.dtype(weight.dtype)
        count = int(np.prod(weight.shape, dtype=np.int64)) * kind.itemsize
        at = start + weight.offset
        stored = whole[at : at + count].view(kind).reshape(weight.shape)
        arrays.append(stored if weight.transform is None else _transformed(weight, stored))
    return arrays


def _transformed(weight: Weight, taps: NDArray[Any]) -> NDArray[Any]:
    assert weight.transform is not None, "a weight that is stored as it is used is mapped"
    array = aligned_zeros(weight.transform.shape, weight.transform.dtype)
    weight.transform.write(taps, array)
    return array


# Writing is allowed, and would copy the page: DLPack knows no memory that cannot be written.
_READ_OR_COPY = getattr(mmap, "PROT_READ", 1) | getattr(mmap, "PROT_WRITE", 2)


def _holder(path: StrPath, tail: Tail) -> StrPath:
    """The file that has the weights: beside the library, or beside what a link to it leads to."""
    if not tail.weights_file:
        return path
    beside = os.path.join(os.path.dirname(path), tail.weights_file)
    if os.path.exists(beside) or not os.path.islink(path):
        return beside
    return os.path.join(os.path.dirname(os.path.realpath(path)), tail.weights_file)


def _places(path: StrPath) -> Places:
    with open(path, "rb") as file:
        file.seek(-FOOTER_BYTES, 2)
        _, *numbers, _, _, _ = struct.unpack(_FOOTER, file.read(FOOTER_BYTES))
    return Places(*numbers)


def _footer(places: Places, sha: bytes) -> bytes:
    numbers = (places.code, places.weights_at, places.weights, places.table_at, places.table)
    return struct.pack(_FOOTER, MARK, *numbers, places.weights_crc, 0, sha, 0)


def _header(places: Places) -> bytes:
    return struct.pack(_HEADER, _HEADER_MARK, places.weights_crc, places.weights)


def _sha(file: BinaryIO, places: Places) -> bytes:
    """Over the code, the table and the numbers that say where all is."""
    from hashlib import sha256

    found = sha256(_footer(places, bytes(32)))
    for start, size in ((0, places.code), (places.table_at, places.table)):
        file.seek(start)
        found.update(file.read(size))
    file.seek(0, 2)
    return found.digest()


def _whole_crc(file: BinaryIO, places: Places, footer: bytes) -> int:
    """Over the footer before it, the code and the table; never 0."""
    found = _crc(file, 0, places.code, zlib.crc32(footer))
    return _crc(file, places.table_at, places.table, found) or 1


def _crc(file: BinaryIO, start: int, size: int, found: int = 0) -> int:
    file.flush()
    file.seek(start)
    while size > 0 and (part := file.read(min(_CHUNK, size))):
        found = zlib.crc32(part, found)
        size -= len(part)
    file.seek(0, 2)
    return found


def _tail(text: bytes, path: StrPath) -> Tail:
    try:
        table: dict[str, Any] = json.loads(text)
        info = info_from_fields(table["info"], str(path))
        weights = tuple(map(_weight, table["weights"]))
        taken = {name: tuple(found) for name, found in table["taken"].items()}
        return Tail(info, weights, taken, str(table["weights_file"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ModuleFileError(f"cannot load {path}: its description is damaged") from error


def _row(weight: Weight) -> list[Any]:
    row: list[Any] = [weight.offset, list(weight.shape), weight.dtype]
    if weight.transform is None:
        return row
    from dataclasses import asdict

    return [*row, asdict(weight.transform)]


def _weight(row: Sequence[Any]) -> Weight:
    at, shape, dtype, *transform = row
    if not transform:
        return Weight(at, tuple(shape), dtype)
    from tvm_neocpu.core.network.weight_transform import (
        WeightTransform,  # 3 ms, and few files need it
    )

    fields = {name: _tuples(value) for name, value in transform[0].items()}
    return Weight(at, tuple(shape), dtype, WeightTransform(**fields))


def _tuples(value: Any) -> Any:
    """JSON's lists, nested or not, as tuples; anything else as it is."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _check_weights(path: StrPath, tail: Tail, places: Places, check_all: bool) -> None:
    holder = _holder(path, tail)
    name = os.path.basename(holder)
    try:
        with open(holder, "rb") as file:
            if file.seek(0, 2) < places.weights_at + places.weights:
                raise ModuleFileError(f"cannot load {path}: {name} is truncated")
            file.seek(0)
            if tail.weights_file and file.read(_HEADER_BYTES) != _header(places):
                raise ModuleFileError(
                    f"cannot load {path}: {name} has the weights of another library"
                )
            if check_all and _crc(file, places.weights_at, places.weights) != places.weights_crc:
                raise ModuleFileError(
                    f"cannot load {path}: the weights in {name} are damaged, or another's"
                )
    except OSError as error:
        reason = error.strerror or first_line(error)
        raise ModuleFileError(f"cannot load {path}: its weights {holder}: {reason}") from error
