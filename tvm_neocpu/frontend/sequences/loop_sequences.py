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

from collections.abc import Container, Iterable, Mapping
from typing import Any, TypeVar

import onnx

from tvm_neocpu.frontend.nodes import all_nodes, body_of, constant_of, nested_graphs
from tvm_neocpu.frontend.sequences.sequence_nodes import SEQUENCE_NODES, Known
from tvm_neocpu.frontend.sequences.sequence_parts import (
    Appended,
    Carried,
    NewNames,
    Parts,
    RewrittenLoop,
    StaysSequence,
    TensorNodes,
)
from tvm_neocpu.frontend.unrolling.loop_form import source_of

Message = TypeVar("Message", onnx.NodeProto, onnx.ValueInfoProto)
_MAKERS = frozenset(
    ["SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SplitToSequence"]
)


def sequences_as_tensors(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model without sequences; itself where it has none, or has one that must stay."""
    if not any(node.op_type in _MAKERS for node in all_nodes(model.graph)):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    scope = _Scope(Known(TensorNodes(NewNames(), opset), {}, {}))
    try:
        scope.write(changed.graph)
    except StaysSequence:
        return model
    except (IndexError, KeyError, ValueError):
        return model  # a broken node: importing says what is wrong with it
    scope.finish()
    return changed


class _Scope:
    """A graph that is written anew, and the sequences and constants that it sees."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._graph = onnx.GraphProto()
        self._nested: list[_Scope] = []

    def write(self, graph: onnx.GraphProto) -> None:
        """Write the graph's nodes anew; later requests add to them, until `finish`."""
        self._graph = graph
        self._known.constants.update({tensor.name: tensor for tensor in graph.initializer})
        for node in graph.node:
            self._write(_copied(node))
        self._check_tensors(graph.output)

    def finish(self) -> None:
        """Put the nodes into the graph, and those of nested graphs into theirs."""
        for scope in self._nested:
            scope.finish()
        _replace(self._graph.node, self._known.tensors.nodes)

    def _write(self, node: onnx.NodeProto) -> None:
        tensor = constant_of(node)
        if tensor is not None:
            self._known.constants[node.output[0]] = tensor
        if node.op_type == "Loop":
            self._write_loop(node)
            return
        convert = SEQUENCE_NODES.get(node.op_type)
        if convert is not None and convert(self._known, node):
            return
        if any(name in self._known.sequences for name in node.input):
            raise StaysSequence
        for graph in nested_graphs(node):
            self._inner().write(graph)
        self._known.tensors.nodes.append(node)

    def _inner(self) -> _Scope:
        scope = _Scope(self._known.inner())
        self._nested.append(scope)
        return scope

    def _check_tensors(self, values: Iterable[onnx.ValueInfoProto]) -> None:
        if any(value.name in self._known.sequences for value in values):
            raise StaysSequence

    def _write_loop(self, node: onnx.NodeProto) -> None:
        """Write a Loop without the sequences that it carries: its trips append to them."""
        body, sequences = body_of(node), self._known.sequences
        carried = [at for at, name in enumerate(node.input) if name in sequences]
        before = {at: Carried(self._known.tensors.name("carried")) for at in carried}
        following = {at: body.output[at - 1].name for at in carried}
        inner = self._inner()
        inner._enter(body, {at: (sequences[node.input[at]], before[at]) for at in carried})
        pieces = [value.name for value in body.output[len(node.input) - 1 :]]
        outputs = [_copied(value) for at, value in enumerate(body.output) if at + 1 not in carried]
        del body.output[:]
        inner.write(body)
        body.output.extend(outputs)
        inner._check_tensors(outputs)
        loop = RewrittenLoop(node, inner._known.tensors)
        for at in carried:
            found = inner._known.sequences.get(following[at])
            if found is None:
                raise StaysSequence
            result = node.output[at - 2] if at - 2 < len(node.output) else ""
            if result:
                sequences[result] = _after(loop, before[at], sequences[node.input[at]], found)
        scans = node.output[len(node.input) - 2 :]
        for name, piece in zip(scans, pieces, strict=False):
            self._known.scans[name] = (loop, piece)
        _without(node, body, carried)
        self._known.tensors.nodes.append(node)

    def _enter(self, body: onnx.GraphProto, carried: Mapping[int, tuple[Parts, Carried]]) -> None:
        """See a loop's parameters: they hide what has the same name around the loop.

        ``carried`` has, by place, what a sequence is before the loop, and before a trip.
        """
        known = self._known
        for value in body.input:
            known.constants.pop(value.name, None)
            known.sequences.pop(value.name, None)
        for at, (initial, before) in carried.items():
            inside = body.input[at].name
            is_same = source_of(body, body.output[at - 1].name) == inside
            known.sequences[inside] = initial if is_same else (before,)


def _without(node: onnx.NodeProto, body: onnx.GraphProto, carried: Container[int]) -> None:
    """Take sequences out of a Loop: its inputs at these places, its parameters and results."""
    results = [name for at, name in enumerate(node.output) if at + 2 not in carried]
    # What the node omits at its end has its place: results that are asked for come behind.
    results += [""] * (len(body.output) - 1 - len(results))
    parameters = [_copied(value) for at, value in enumerate(body.input) if at not in carried]
    _replace(node.input, [name for at, name in enumerate(node.input) if at not in carried])
    _replace(node.output, results)
    _replace(body.input, parameters)


def _after(loop: RewrittenLoop, before: Carried, initial: Parts, found: Parts) -> Parts:
    """A sequence that a loop fills, after it."""
    if found == initial:
        return found
    first, *others = found or (None,)
    if first != before or any(isinstance(part, Carried) for part in others):
        raise StaysSequence
    return (*initial, Appended(loop, tuple(others))) if others else initial


def _replace(field: Any, values: Iterable[Any]) -> None:
    """Give a repeated field other values."""
    del field[:]
    field.extend(values)


def _copied(message: Message) -> Message:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
