"""The parts of a sequence, and the nodes that compute tensors of them.

s = [a, b, *(what a loop appends)]
ConcatFromSequence(s, axis=1)  ->  Concat(a, b, y, axis=1)    y: a scan output of the loop
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper

from tvm_neocpu.frontend.nodes import body_of, constant_node
from tvm_neocpu.frontend.unrolling.loop_form import JOINED


class StaysSequence(Exception):
    """A sequence that cannot be written as tensors."""


@dataclass(frozen=True)
class Piece:
    """A tensor."""

    name: str


@dataclass(frozen=True)
class Split:
    """The elements of a tensor along an axis; ``keeps``: each has the axis, of extent 1."""

    name: str
    axis: int
    keeps: bool


@dataclass(frozen=True)
class Carried:
    """What a loop's sequence has before a trip; nothing may read it."""

    loop: str


@dataclass(frozen=True)
class Appended:
    """What the trips of a loop append: ``parts`` in each."""

    loop: RewrittenLoop
    parts: tuple[Part, ...]


Part = Piece | Split | Carried | Appended
Parts = tuple[Part, ...]


@dataclass(eq=False)
class RewrittenLoop:
    """A Loop that is written anew: more scan outputs come as its sequences are read."""

    node: onnx.NodeProto
    body: TensorNodes
    _results: dict[tuple[Parts, int | None, bool], str] = field(default_factory=dict)

    def joined(self, parts: Parts, axis: int, is_new: bool) -> str:
        """The result of all trips along an axis, which is a new one for each part or their own."""
        key = (parts, axis, is_new)
        if key not in self._results:
            self._results[key] = self._scan(self.body.joined(parts, axis, is_new), axis)
        return self._results[key]

    def counts(self, parts: Parts) -> str:
        """How many tensors each trip appends, a vector."""
        key = (parts, None, False)
        if key not in self._results:
            self._results[key] = self._scan(self.body.count(parts, is_vector=True), 0)
        return self._results[key]

    def _scan(self, piece: str, axis: int) -> str:
        """A new result: a tensor of the body, joined along an axis."""
        name = self.body.name("joined")
        body_of(self.node).output.append(helper.make_empty_tensor_value_info(piece))
        self.node.output.append(name)
        entry = next((e for e in self.node.attribute if e.name == JOINED), None)
        if entry is None:
            entry = self.node.attribute.add(name=JOINED, type=onnx.AttributeProto.INTS)
        entry.ints.append(axis)
        return name


class NewNames:
    """Names that no other part of a model has."""

    def __init__(self) -> None:
        self._count = 0

    def new(self, kind: str) -> str:
        self._count += 1
        return f"neocpu/sequence/{kind}{self._count}"


class TensorNodes:
    """The nodes of a graph that is written anew, and those that compute tensors of parts."""

    def __init__(self, names: NewNames, opset: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._names, self._opset = names, opset

    def name(self, kind: str) -> str:
        return self._names.new(kind)

    def inner(self) -> TensorNodes:
        """Those of a graph inside of this one."""
        return TensorNodes(self._names, self._opset)

    def joined(self, parts: Parts, axis: int, is_new: bool) -> str:
        """The parts along an axis, which is a new one for each part or their own."""
        if not parts:
            raise StaysSequence
        tensors = [self._tensor(part, axis, is_new) for part in parts]
        return tensors[0] if len(tensors) == 1 else self._emit("Concat", tensors, axis=axis)

    def count(self, parts: Parts, is_vector: bool = False) -> str:
        """How many tensors the parts are, an int64 scalar, or a vector of one element."""
        total = self._constant(np.array(sum(isinstance(part, Piece) for part in parts)))
        for part in parts:
            if isinstance(part, Piece):
                continue
            if isinstance(part, Appended):
                found = self._summed(part.loop.counts(part.parts))
            elif isinstance(part, Split):
                shape = self._emit("Shape", [part.name])
                found = self._emit("Gather", [shape, self._constant(np.array(part.axis))])
            else:
                raise StaysSequence
            total = self._emit("Add", [total, found])
        return self._unsqueezed(total, 0) if is_vector else total

    def at(self, parts: Parts, place: str, known: int | None) -> str:
        """One tensor of a sequence; ``known`` is the value of ``place`` where that is constant."""
        if known is not None:
            near = parts[known:] if known < 0 else parts[: known + 1]
            enough = len(near) > (-known - 1 if known < 0 else known)
            if enough and all(isinstance(part, Piece) for part in near):
                return (near[0] if known < 0 else near[-1]).name
        if len(parts) == 1 and isinstance(parts[0], Split):
            (split,) = parts
            found = self._emit("Gather", [split.name, place], axis=split.axis)
            return self._unsqueezed(found, split.axis) if split.keeps else found
        return self._emit("Gather", [self.joined(parts, 0, True), place], axis=0)

    def call_it(self, tensor: str, result: str) -> None:
        """Give a tensor a second name."""
        self.nodes.append(helper.make_node("Identity", [tensor], [result]))

    def _tensor(self, part: Part, axis: int, is_new: bool) -> str:
        if isinstance(part, Piece):
            return self._unsqueezed(part.name, axis) if is_new else part.name
        if isinstance(part, Appended):
            return part.loop.joined(part.parts, axis, is_new)
        if isinstance(part, Split) and part.axis == axis and part.keeps != is_new:
            return part.name
        raise StaysSequence

    def _summed(self, counts: str) -> str:
        if self._opset < 13:
            return self._emit("ReduceSum", [counts], axes=[0], keepdims=0)
        return self._emit("ReduceSum", [counts, self._constant(np.array([0]))], keepdims=0)

    def _unsqueezed(self, tensor: str, axis: int) -> str:
        if self._opset < 13:
            return self._emit("Unsqueeze", [tensor], axes=[axis])
        return self._emit("Unsqueeze", [tensor, self._constant(np.array([axis]))])

    def _constant(self, value: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> str:
        name = self.name("number")
        self.nodes.append(constant_node(name, value))
        return name

    def _emit(self, op_type: str, inputs: Sequence[str], **attributes: object) -> str:
        name = self.name(op_type.lower())
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name
