"""Sequences written as tensors: what a loop appends becomes a scan output of it.

    s = Loop(n, "", SequenceEmpty(), body: i, _, s -> SequenceInsert(s, f(i)))
    y = ConcatFromSequence(s, axis=1)
      ->
    y = Loop(n, "", body: i, _ -> f(i))        its pieces joined along axis 1, not stacked

Joined pieces may differ along their axis. A sequence is known as its parts: tensors, what a loop
appends, the pieces of a split tensor. Nested loops, several loops that fill one sequence, and those
that read one are written so too. What cannot be (an insertion or an erasure at a place that a run
computes, a loop that reads what it fills) stays, and importing refuses it or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvm_neocpu.frontend.loop_form import JOINED, source_of
from tvm_neocpu.frontend.nodes import (
    all_nodes,
    body_of,
    constant_node,
    constant_of,
    int_lists,
    nested_graphs,
)

_MAKERS = frozenset(
    ["SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SplitToSequence"]
)


class _Stays(Exception):
    """A sequence that cannot be written as tensors."""


@dataclass(frozen=True)
class _Piece:
    """A tensor."""

    name: str


@dataclass(frozen=True)
class _Split:
    """The elements of a tensor along an axis; ``keeps``: each has the axis, of extent 1."""

    name: str
    axis: int
    keeps: bool


@dataclass(frozen=True)
class _Carried:
    """What a loop's sequence has before a trip; nothing may read it."""

    loop: str


@dataclass(frozen=True)
class _Appended:
    """What the trips of a loop append: ``parts`` in each."""

    loop: _Loop
    parts: tuple[_Part, ...]


_Part = _Piece | _Split | _Carried | _Appended
_Parts = tuple[_Part, ...]


@dataclass(eq=False)
class _Loop:
    """A Loop that is written anew: more scan outputs come as its sequences are read."""

    node: onnx.NodeProto
    body: _Scope
    results: dict[tuple[_Parts, int | None], str] = field(default_factory=dict)

    def joined(self, parts: _Parts, axis: int | None, is_new: bool) -> str:
        """The result of all trips along an axis; ``None``: how many pieces each trip appends."""
        key = (parts, axis if axis is None else 2 * axis + is_new)
        if key not in self.results:
            if axis is None:
                piece = self.body.count(parts, is_vector=True)
            else:
                piece = self.body.joined(parts, axis, is_new)
            name = self.body.name("joined")
            graph = body_of(self.node)
            graph.output.append(helper.make_empty_tensor_value_info(piece))
            self.node.output.append(name)
            entry = next((e for e in self.node.attribute if e.name == JOINED), None)
            if entry is None:
                entry = self.node.attribute.add(name=JOINED, type=onnx.AttributeProto.INTS)
            entry.ints.append(axis or 0)
            self.results[key] = name
        return self.results[key]


def sequences_as_tensors(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model without sequences; itself where it has none, or has one that must stay."""
    if not any(node.op_type in _MAKERS for node in all_nodes(model.graph)):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    scope = _Scope(_Names(), opset, {}, {})
    try:
        scope.write(changed.graph)
    except _Stays:
        return model
    except (IndexError, KeyError, ValueError):
        return model  # a broken node: importing says what is wrong with it
    scope.finish()
    return changed


class _Names:
    def __init__(self) -> None:
        self._count = 0

    def new(self, kind: str) -> str:
        self._count += 1
        return f"neocpu/sequence/{kind}{self._count}"


class _Scope:
    """A graph that is written anew, and the sequences and constants that it sees."""

    def __init__(
        self,
        names: _Names,
        opset: int,
        sequences: Mapping[str, _Parts],
        constants: Mapping[str, onnx.TensorProto],
    ) -> None:
        self._names, self._opset = names, opset
        self._sequences = dict(sequences)
        self._constants = dict(constants)
        self._loops: dict[str, tuple[_Loop, str]] = {}
        self._graph = onnx.GraphProto()
        self._nodes: list[onnx.NodeProto] = []
        self._nested: list[_Scope] = []

    def name(self, kind: str) -> str:
        return self._names.new(kind)

    def write(self, graph: onnx.GraphProto) -> None:
        """Write the graph's nodes anew; later requests add to them, until `finish`."""
        self._graph = graph
        self._constants.update({tensor.name: tensor for tensor in graph.initializer})
        for node in graph.node:
            own = onnx.NodeProto()
            own.CopyFrom(node)
            self._write(own)
        if any(value.name in self._sequences for value in graph.output):
            raise _Stays

    def finish(self) -> None:
        """Put the nodes into the graph, and those of nested graphs into theirs."""
        for scope in self._nested:
            scope.finish()
        del self._graph.node[:]
        self._graph.node.extend(self._nodes)

    def _write(self, node: onnx.NodeProto) -> None:
        tensor = constant_of(node)
        if tensor is not None:
            self._constants[node.output[0]] = tensor
        if node.op_type == "Loop":
            self._write_loop(node)
            return
        convert = _CONVERTERS.get(node.op_type)
        if convert is not None and convert(self, node):
            return
        if any(name in self._sequences for name in node.input):
            raise _Stays
        for graph in nested_graphs(node):
            self._inner().write(graph)
        self._nodes.append(node)

    def _inner(self) -> _Scope:
        scope = _Scope(self._names, self._opset, self._sequences, self._constants)
        self._nested.append(scope)
        return scope

    def _write_loop(self, node: onnx.NodeProto) -> None:
        body = body_of(node)
        inner = self._inner()
        carried = [at for at, name in enumerate(node.input) if name in self._sequences]
        before = {at: _Carried(self.name("carried")) for at in carried}
        for at in carried:
            inside, following = body.input[at].name, body.output[at - 1].name
            initial = self._sequences[node.input[at]]
            is_same = source_of(body, following) == inside
            inner._sequences[inside] = initial if is_same else (before[at],)
        for at, value in enumerate(body.input):  # they hide what has the same name around the loop
            inner._constants.pop(value.name, None)
            if at not in carried:
                inner._sequences.pop(value.name, None)
        following = {at: body.output[at - 1].name for at in carried}
        outputs = [value for at, value in enumerate(body.output) if at + 1 not in carried]
        every = [value.name for value in body.output]
        outputs = [_copied(value) for value in outputs]
        del body.output[:]
        inner.write(body)
        body.output.extend(outputs)
        loop = _Loop(node, inner)
        for at in carried:
            initial = self._sequences[node.input[at]]
            found = inner._sequences.get(following[at])
            if found is None:
                raise _Stays
            result = node.output[at - 2] if at - 2 < len(node.output) else ""
            if result:
                self._sequences[result] = _after(loop, before[at], initial, found)
        if any(value.name in inner._sequences for value in outputs):
            raise _Stays
        scans = list(node.output[len(node.input) - 2 :])
        pieces = every[len(node.input) - 1 :]
        self._loops.update({name: (loop, at) for name, at in zip(scans, pieces, strict=False)})
        results = [name for at, name in enumerate(node.output) if at + 2 not in carried]
        inputs = [name for at, name in enumerate(node.input) if at not in carried]
        parameters = [_copied(value) for at, value in enumerate(body.input) if at not in carried]
        # What the node omits at its end has its place: results that are asked for come behind.
        results += [""] * (len(outputs) - 1 - len(results))
        for field_, values in ((node.input, inputs), (node.output, results)):
            del field_[:]
            field_.extend(values)
        del body.input[:]
        body.input.extend(parameters)
        self._nodes.append(node)

    def joined(self, parts: _Parts, axis: int, is_new: bool) -> str:
        """The parts along an axis, which is a new one for each part or their own."""
        if not parts:
            raise _Stays
        tensors = [self._tensor(part, axis, is_new) for part in parts]
        return tensors[0] if len(tensors) == 1 else self._emit("Concat", tensors, axis=axis)

    def _tensor(self, part: _Part, axis: int, is_new: bool) -> str:
        if isinstance(part, _Piece):
            return self._unsqueezed(part.name, axis) if is_new else part.name
        if isinstance(part, _Appended):
            return part.loop.joined(part.parts, axis, is_new)
        if isinstance(part, _Split) and part.axis == axis and part.keeps != is_new:
            return part.name
        raise _Stays

    def count(self, parts: _Parts, is_vector: bool = False) -> str:
        """How many tensors the parts are, an int64 scalar, or a vector of one element."""
        total = self._constant(np.array(sum(isinstance(part, _Piece) for part in parts)))
        for part in parts:
            if isinstance(part, _Piece):
                continue
            if isinstance(part, _Appended):
                found = self._summed(part.loop.joined(part.parts, None, False))
            elif isinstance(part, _Split):
                shape = self._emit("Shape", [part.name])
                found = self._emit("Gather", [shape, self._constant(np.array(part.axis))])
            else:
                raise _Stays
            total = self._emit("Add", [total, found])
        return self._unsqueezed(total, 0) if is_vector else total

    def at(self, parts: _Parts, place: str) -> str:
        """One tensor of a sequence."""
        known = self._constants.get(place)
        number = None if known is None else int(numpy_helper.to_array(known).item())
        if number is not None:
            near = parts[number:] if number < 0 else parts[: number + 1]
            enough = len(near) > (-number - 1 if number < 0 else number)
            if enough and all(isinstance(part, _Piece) for part in near):
                return (near[0] if number < 0 else near[-1]).name
        if len(parts) == 1 and isinstance(parts[0], _Split):
            (split,) = parts
            found = self._emit("Gather", [split.name, place], axis=split.axis)
            return self._unsqueezed(found, split.axis) if split.keeps else found
        return self._emit("Gather", [self.joined(parts, 0, True), place], axis=0)

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
        self._nodes.append(constant_node(name, value))
        return name

    def _emit(self, op_type: str, inputs: Sequence[str], **attributes: object) -> str:
        name = self.name(op_type.lower())
        self._nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def _call_it(self, tensor: str, result: str) -> None:
        self._nodes.append(helper.make_node("Identity", [tensor], [result]))

    def _parts(self, node: onnx.NodeProto) -> _Parts | None:
        return self._sequences.get(node.input[0]) if node.input else None

    def _place(self, node: onnx.NodeProto, place: int, length: int) -> int:
        """A known place in a sequence of tensors."""
        known = self._constants.get(node.input[place])
        if known is None:
            raise _Stays
        number = int(numpy_helper.to_array(known).item())
        return number + length if number < 0 else number

    def empty(self, node: onnx.NodeProto) -> bool:
        self._sequences[node.output[0]] = ()
        return True

    def construct(self, node: onnx.NodeProto) -> bool:
        self._sequences[node.output[0]] = tuple(map(_Piece, node.input))
        return True

    def insert(self, node: onnx.NodeProto) -> bool:
        parts = self._parts(node)
        if parts is None:
            return False
        at, piece = len(parts), _Piece(node.input[1])
        if len(node.input) > 2 and node.input[2]:
            if not all(isinstance(part, _Piece) for part in parts):
                raise _Stays
            at = self._place(node, 2, len(parts))
        self._sequences[node.output[0]] = (*parts[:at], piece, *parts[at:])
        return True

    def erase(self, node: onnx.NodeProto) -> bool:
        parts = self._parts(node)
        if parts is None:
            return False
        if not all(isinstance(part, _Piece) for part in parts):
            raise _Stays
        at = len(parts) - 1
        if len(node.input) > 1 and node.input[1]:
            at = self._place(node, 1, len(parts))
        self._sequences[node.output[0]] = (*parts[:at], *parts[at + 1 :])
        return True

    def split(self, node: onnx.NodeProto) -> bool:
        options = int_lists(node)
        axis, keeps = options.get("axis", [0])[0], bool(options.get("keepdims", [1])[0])
        name = node.input[0]
        if len(node.input) > 1 and node.input[1]:
            sizes = self._constants.get(node.input[1])
            if sizes is None or sizes.dims or numpy_helper.to_array(sizes) != 1:
                return False
            # ONNX's text says that keepdims is ignored here; PyTorch means it, and ONNX Runtime
            # takes it so.
        part: _Part = _Split(name, axis, keeps)
        if name in self._loops and not axis and not keeps:
            # What PyTorch writes below opset 13: the pieces of a scan output, one by one.
            loop, piece = self._loops[name]
            part = _Appended(loop, (_Piece(piece),))
        self._sequences[node.output[0]] = (part,)
        return True

    def same(self, node: onnx.NodeProto) -> bool:
        parts = self._parts(node)
        if parts is not None:
            self._sequences[node.output[0]] = parts
        return parts is not None

    def concat(self, node: onnx.NodeProto) -> bool:
        parts = self._parts(node)
        if parts is None:
            return False
        options = int_lists(node)
        is_new = bool(options.get("new_axis", [0])[0])
        self._call_it(self.joined(parts, options["axis"][0], is_new), node.output[0])
        return True

    def length(self, node: onnx.NodeProto) -> bool:
        parts = self._parts(node)
        if parts is not None:
            self._call_it(self.count(parts), node.output[0])
        return parts is not None

    def element(self, node: onnx.NodeProto) -> bool:
        parts = self._parts(node)
        if parts is not None:
            self._call_it(self.at(parts, node.input[1]), node.output[0])
        return parts is not None


def _copied(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(value)
    return copy


def _after(loop: _Loop, before: _Carried, initial: _Parts, found: _Parts) -> _Parts:
    """A sequence that a loop fills, after it."""
    if found == initial:
        return found
    first, *others = found or (None,)
    if first != before or any(isinstance(part, _Carried) for part in others):
        raise _Stays
    return (*initial, _Appended(loop, tuple(others))) if others else initial


_CONVERTERS: Mapping[str, Callable[[_Scope, onnx.NodeProto], bool]] = MappingProxyType(
    {
        "ConcatFromSequence": _Scope.concat,
        "Identity": _Scope.same,
        "SequenceAt": _Scope.element,
        "SequenceConstruct": _Scope.construct,
        "SequenceEmpty": _Scope.empty,
        "SequenceErase": _Scope.erase,
        "SequenceInsert": _Scope.insert,
        "SequenceLength": _Scope.length,
        "SplitToSequence": _Scope.split,
    }
)
