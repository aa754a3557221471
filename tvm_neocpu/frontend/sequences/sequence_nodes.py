"""Each operator on sequences: the parts of the sequence that it makes, or a tensor of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import onnx
from onnx import numpy_helper

from tvm_neocpu.frontend.nodes import int_lists
from tvm_neocpu.frontend.sequences.sequence_parts import (
    Appended,
    Part,
    Parts,
    Piece,
    RewrittenLoop,
    Split,
    StaysSequence,
    TensorNodes,
)


@dataclass
class Known:
    """What a graph sees, and the nodes that it gets.

    ``scans`` are the scan outputs of its loops: the loop, and what each trip adds.
    """

    tensors: TensorNodes
    sequences: dict[str, Parts]
    constants: dict[str, onnx.TensorProto]
    scans: dict[str, tuple[RewrittenLoop, str]] = field(default_factory=dict)

    def inner(self) -> Known:
        """What a graph inside of this one sees."""
        return Known(self.tensors.inner(), dict(self.sequences), dict(self.constants))

    def parts(self, node: onnx.NodeProto) -> Parts | None:
        """Those of the sequence that a node reads; ``None`` where it reads none that is known."""
        return self.sequences.get(node.input[0]) if node.input else None

    def number(self, name: str) -> int | None:
        """A constant of one element."""
        tensor = self.constants.get(name)
        return None if tensor is None else int(numpy_helper.to_array(tensor).item())

    def place(self, name: str, length: int) -> int:
        """A known place in a sequence of tensors."""
        number = self.number(name)
        if number is None:
            raise StaysSequence
        return number + length if number < 0 else number


def _empty(known: Known, node: onnx.NodeProto) -> bool:
    known.sequences[node.output[0]] = ()
    return True


def _construct(known: Known, node: onnx.NodeProto) -> bool:
    known.sequences[node.output[0]] = tuple(map(Piece, node.input))
    return True


def _insert(known: Known, node: onnx.NodeProto) -> bool:
    parts = known.parts(node)
    if parts is None:
        return False
    at, piece = len(parts), Piece(node.input[1])
    if len(node.input) > 2 and node.input[2]:
        _check_pieces(parts)
        at = known.place(node.input[2], len(parts))
    known.sequences[node.output[0]] = (*parts[:at], piece, *parts[at:])
    return True


def _erase(known: Known, node: onnx.NodeProto) -> bool:
    parts = known.parts(node)
    if parts is None:
        return False
    _check_pieces(parts)
    at = len(parts) - 1
    if len(node.input) > 1 and node.input[1]:
        at = known.place(node.input[1], len(parts))
    known.sequences[node.output[0]] = (*parts[:at], *parts[at + 1 :])
    return True


def _check_pieces(parts: Parts) -> None:
    """A place is known among tensors only."""
    if not all(isinstance(part, Piece) for part in parts):
        raise StaysSequence


def _split(known: Known, node: onnx.NodeProto) -> bool:
    options = int_lists(node)
    axis, keeps = options.get("axis", [0])[0], bool(options.get("keepdims", [1])[0])
    name = node.input[0]
    if len(node.input) > 1 and node.input[1]:
        sizes = known.constants.get(node.input[1])
        if sizes is None or sizes.dims or numpy_helper.to_array(sizes) != 1:
            return False
        # ONNX's text says that keepdims is ignored here; PyTorch means it, and ONNX Runtime
        # takes it so.
    part: Part = Split(name, axis, keeps)
    if name in known.scans and not axis and not keeps:
        # What PyTorch writes below opset 13: the pieces of a scan output, one by one.
        loop, piece = known.scans[name]
        part = Appended(loop, (Piece(piece),))
    known.sequences[node.output[0]] = (part,)
    return True


def _same(known: Known, node: onnx.NodeProto) -> bool:
    parts = known.parts(node)
    if parts is not None:
        known.sequences[node.output[0]] = parts
    return parts is not None


def _concat(known: Known, node: onnx.NodeProto) -> bool:
    parts = known.parts(node)
    if parts is None:
        return False
    options = int_lists(node)
    is_new = bool(options.get("new_axis", [0])[0])
    tensor = known.tensors.joined(parts, options["axis"][0], is_new)
    known.tensors.call_it(tensor, node.output[0])
    return True


def _length(known: Known, node: onnx.NodeProto) -> bool:
    parts = known.parts(node)
    if parts is not None:
        known.tensors.call_it(known.tensors.count(parts), node.output[0])
    return parts is not None


def _element(known: Known, node: onnx.NodeProto) -> bool:
    parts = known.parts(node)
    if parts is not None:
        place = node.input[1]
        tensor = known.tensors.at(parts, place, known.number(place))
        known.tensors.call_it(tensor, node.output[0])
    return parts is not None


# Each says whether it took the node.
SEQUENCE_NODES: Mapping[str, Callable[[Known, onnx.NodeProto], bool]] = MappingProxyType(
    {
        "ConcatFromSequence": _concat,
        "Identity": _same,
        "SequenceAt": _element,
        "SequenceConstruct": _construct,
        "SequenceEmpty": _empty,
        "SequenceErase": _erase,
        "SequenceInsert": _insert,
        "SequenceLength": _length,
        "SplitToSequence": _split,
    }
)
