"""An ONNX file read without its large weights, which go from the file into the module, one by one.

onnx reads a file as bytes, makes a message of these, and the importer makes constants of that:
twice the weights at once, and three times the largest. Here the message has no large weights:

    initializer {dims, FLOAT, name, raw_data}  ->  initializer {dims, FLOAT, name, EXTERNAL}

Only single-precision weights of graphs without branches and loops are left out, for nothing but the
importer reads their values. Any other file is read whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import tvm
from google.protobuf.message import DecodeError
from onnx import TensorProto

from tvm_neocpu.core.errors import ModelFileError
from tvm_neocpu.frontend.checks.check_graph import is_external, stored_bytes, tensors_of
from tvm_neocpu.frontend.nodes import nested_graphs
from tvm_neocpu.frontend.reading.half_metadata import asked_halves
from tvm_neocpu.frontend.rewriting.single_precision import has_halves
from tvm_neocpu.frontend.shapes.known_tensors import MAX_ELEMENTS
from tvm_neocpu.runtime.ffi.tensors import as_array

# Field numbers of onnx.proto, and protobuf's wire types.
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}
# Listing fields takes 140 bytes each, and Python's time. A weight has a dozen.
_MAX_FIELDS, _MAX_FIELDS_OF_WEIGHT = 2**18, 100


@dataclass(frozen=True)
class WeightsInFile:
    """The weights that a message was left without: their file, and their offsets by name."""

    path: Path
    offsets: dict[str, int]

    def read(self, tensor: TensorProto) -> tvm.runtime.Tensor:
        """The weight, read into the memory that the module keeps. Raises ModelFileError."""
        values = tvm.runtime.empty(tuple(tensor.dims), "float32")
        content = as_array(values).reshape(-1).view(np.uint8)
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(self.offsets[tensor.name])
                _fill(memoryview(content), file)
        except OSError as error:
            raise ModelFileError(f"cannot read {self.path}: {error.strerror}") from error
        return values


def _fill(content: memoryview, file: Any) -> None:
    """Linux reads at most 2 GB at once."""
    while content:
        count = file.readinto(content)
        if not count:
            raise ModelFileError(f"{file.name} became shorter while it was read")
        content = content[count:]


def model_without_weights(path: Path) -> tuple[onnx.ModelProto, WeightsInFile] | None:
    """``None`` for a file that is to be read whole, broken ones among them."""
    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            found = _without_weights(data)
    except (OSError, ValueError, DecodeError):  # nobody maps an empty file
        return None
    if found is None:
        return None
    model, offsets = found
    nested = any(True for node in model.graph.node for _ in nested_graphs(node))
    if nested or model.functions or has_halves(model) or asked_halves(model):
        return None
    if sum(map(is_external, tensors_of(model))) != len(offsets):  # some lie in other files
        return None
    return model, WeightsInFile(path, offsets)


class _Field(NamedTuple):
    """A field of a message: where it begins, where its value lies."""

    number: int
    start: int
    value: int
    end: int


def _without_weights(data: mmap) -> tuple[onnx.ModelProto, dict[str, int]] | None:
    model = list(_fields(data, 0, len(data)))
    graphs = [field for field in model if field.number == _GRAPH]
    if len(graphs) != 1:
        return None
    parts, offsets = [], dict[str, int]()
    for field in _fields(data, graphs[0].value, graphs[0].end):
        header = _header(data, field) if field.number == _INITIALIZER else None
        if header is None:
            parts.append(data[field.start : field.end])
            continue
        tensor, offset = header
        if tensor.name in offsets:
            return None
        offsets[tensor.name] = offset
        parts.append(_message(_INITIALIZER, tensor.SerializeToString()))
    if not offsets:
        return None
    rest = [data[field.start : field.end] for field in model if field.number != _GRAPH]
    content = b"".join([*rest, _message(_GRAPH, b"".join(parts))])
    return onnx.load_model_from_string(content), offsets


def _header(data: mmap, field: _Field) -> tuple[TensorProto, int] | None:
    """A weight without its values, and where these lie; ``None`` for one that stays as it is."""
    if field.end - field.value <= 4 * MAX_ELEMENTS:
        return None
    fields = list(_fields(data, field.value, field.end, _MAX_FIELDS_OF_WEIGHT))
    raw = [each for each in fields if each.number == _RAW_DATA]
    if len(raw) != 1:
        return None
    tensor = TensorProto.FromString(
        b"".join(data[each.start : each.end] for each in fields if each.number != _RAW_DATA)
    )
    size = raw[0].end - raw[0].value
    if tensor.data_type != TensorProto.FLOAT or tensor.float_data or is_external(tensor):
        return None
    if stored_bytes(tensor) != size or size <= 4 * MAX_ELEMENTS or min(tensor.dims) < 0:
        return None
    tensor.data_location = TensorProto.EXTERNAL
    return tensor, raw[0].value


def _fields(data: mmap, at: int, end: int, most: int = _MAX_FIELDS) -> Iterator[_Field]:
    """The fields of the message that lies there. Raises ValueError for what is none, and for more
    fields than ``most``.
    """
    for _ in range(most):
        if at == end:
            return
        start = at
        tag, at = _varint(data, at, end)
        kind, value = tag & 7, at
        if kind == _VARINT:
            _, at = _varint(data, at, end)
        elif kind == _BYTES:
            length, value = _varint(data, at, end)
            at = value + length
        else:
            at += _FIXED.get(kind, end)
        if at > end:
            raise ValueError("a field is longer than its message")
        yield _Field(tag >> 3, start, value, at)
    if at < end:
        raise ValueError("a message has too many fields")


def _varint(data: mmap, at: int, end: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends."""
    found = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        found |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return found, at
        shift += 7
    raise ValueError("a number does not end")


def _message(number: int, content: bytes) -> bytes:
    """A field that is a message."""
    length, count = bytearray(), len(content)
    while count >= 0x80:
        length.append(count & 0x7F | 0x80)
        count >>= 7
    return bytes([number << 3 | _BYTES, *length, count]) + content
