"""Put the iterations of a ``Loop`` or a ``Scan`` one after another in place of the node.

    y = Loop(2, "", x, body: x -> f(x))   ->   y/0/v = f(x)
                                               y/1/v = f(y/0/v)
                                               y = Identity(y/1/v)

What was a loop is straight-line code then: shapes fold, layouts flow and templates apply. A
``Loop`` is unrolled if its condition is known at import; `fold_shapes` walks the nodes of an
iteration before it asks for the next one. `import_loops` takes those that stay loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper

from tvm_neocpu.frontend.nodes import body_of, constant_node, int_lists
from tvm_neocpu.frontend.rewriting.fresh_names import FreshNames
from tvm_neocpu.frontend.rewriting.renamed_node import renamed
from tvm_neocpu.frontend.unrolling.loop_form import is_true_for_ever, joined_axes

# A loop of more nodes than this, over all iterations, stays a loop.
MAX_NODES = 4096


@dataclass
class LoopRest:
    """The iterations of a Loop that are still to come.

    ``condition`` names the tensor that says whether the next one runs, ``""`` for always; ``state``
    names the loop-carried tensors, ``stacked`` the pieces of each scan output so far. ``before`` is
    the number of nodes that stand before the loop, for those who take its iterations back.
    """

    node: onnx.NodeProto
    body: onnx.GraphProto
    trips: int
    opset: int
    fresh: FreshNames
    condition: str
    state: list[str]
    stacked: list[list[str]]
    shared: Mapping[str, str] = field(default_factory=dict)
    done: int = 0
    before: int = 0

    def next(self, goes_on: bool | None) -> list[onnx.NodeProto | LoopRest] | None:
        """One iteration and the rest, or the nodes that give the results their names.

        ``None`` where the loop must stay one: it is not known whether it goes on, or it would be
        more than `MAX_NODES` nodes.
        """
        if self.done == self.trips or goes_on is False:
            return list(self._results())
        if goes_on is None or (self.done + 1) * len(self.body.node) > MAX_NODES:
            return None
        prefix = f"{_first_output(self.node)}/{self.done}/"
        counter = self.fresh(f"{prefix}iteration")
        values = [counter, self.condition, *self.state]
        bound = dict(zip((entry.name for entry in self.body.input), values, strict=True))
        nodes, results = _iteration(self.body, prefix, {**self.shared, **bound}, self.fresh)
        carried = len(self.state)
        self.condition, self.state = results[0], results[1 : 1 + carried]
        for pieces, piece in zip(self.stacked, results[1 + carried :], strict=True):
            pieces.append(piece)
        self.done += 1
        return [constant_node(counter, np.array(self.done - 1, "int64")), *nodes, self]

    def _results(self) -> list[onnx.NodeProto]:
        carried, stacked = _split(self.node.output, len(self.state))
        nodes = _named(self.state, carried)
        joined = joined_axes(self.node, len(self.stacked))
        for pieces, result, axis in zip(self.stacked, stacked, joined, strict=False):
            if axis is None:
                nodes += _stack(pieces, result, 0, self.opset, self.fresh)
            elif result:
                nodes.append(helper.make_node("Concat", pieces, [result], axis=axis))
        return nodes


def unrolled_loop(
    node: onnx.NodeProto, trips: int, goes_on: bool, opset: int, fresh: FreshNames
) -> list[onnx.NodeProto | LoopRest] | None:
    """A Loop of at most ``trips`` iterations; ``None`` where it must stay a loop.

    ``goes_on`` is its condition before the first iteration.
    """
    body = body_of(node)
    carried = len(node.input) - 2
    scans = len(body.output) - 1 - carried
    # The shape of an empty scan output is not known.
    is_empty = trips == 0 or not goes_on
    if (scans and is_empty) or (
        trips * len(body.node) > MAX_NODES and is_true_for_ever(body, body.output[0].name)
    ):
        return None
    constants, shared = _shared_constants(node, body, fresh)
    condition = node.input[1] if len(node.input) > 1 else ""
    if not condition:
        condition = fresh(f"{_first_output(node)}/condition")
        constants.append(constant_node(condition, np.array(True)))
    stacked: list[list[str]] = [[] for _ in range(scans)]
    state = list(node.input[2:])
    rest = LoopRest(node, body, trips, opset, fresh, condition, state, stacked, shared)
    return [*constants, rest]


def unrolled_scan(
    node: onnx.NodeProto, shapes: Sequence[Sequence[int] | None], opset: int, fresh: FreshNames
) -> list[onnx.NodeProto] | None:
    """A Scan over tensors of these shapes (one for each input of the node), as opset 9 has it.

    Gives ``None`` where it must stay: an extent is not known, or no iteration runs.
    """
    body, attributes = body_of(node), int_lists(node)
    scanned = attributes["num_scan_inputs"][0]
    carried = len(node.input) - scanned
    outputs = len(body.output) - carried
    in_axes = attributes.get("scan_input_axes", [0] * scanned)
    out_axes = attributes.get("scan_output_axes", [0] * outputs)
    backward_in = attributes.get("scan_input_directions", [0] * scanned)
    backward_out = attributes.get("scan_output_directions", [0] * outputs)
    extents = {
        shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
        for shape, axis in zip(shapes[carried:], in_axes, strict=True)
    }
    trips = extents.pop() if len(extents) == 1 else None
    if not trips or trips * len(body.node) > MAX_NODES:
        return None
    nodes, shared = _shared_constants(node, body, fresh)
    state = list(node.input[:carried])
    stacked: list[list[str]] = [[] for _ in range(outputs)]
    for trip in range(trips):
        prefix = f"{_first_output(node)}/{trip}/"
        pieces = []
        for place, axis in enumerate(in_axes):
            piece, at = fresh(f"{prefix}scanned{place}"), fresh(f"{prefix}at{place}")
            index = trips - 1 - trip if backward_in[place] else trip
            nodes.append(constant_node(at, np.array(index, "int64")))
            source = node.input[carried + place]
            nodes.append(helper.make_node("Gather", [source, at], [piece], axis=axis))
            pieces.append(piece)
        names = (entry.name for entry in body.input)
        bound = dict(zip(names, [*state, *pieces], strict=True))
        inner, results = _iteration(body, prefix, {**shared, **bound}, fresh)
        nodes += inner
        state = results[:carried]
        for found, piece in zip(stacked, results[carried:], strict=True):
            found.append(piece)
    final, scans = _split(node.output, carried)
    nodes += _named(state, final)
    for place, (found, result) in enumerate(zip(stacked, scans, strict=False)):
        ordered = found[::-1] if backward_out[place] else found
        nodes += _stack(ordered, result, out_axes[place], opset, fresh)
    return nodes


def _iteration(
    body: onnx.GraphProto, prefix: str, bound: Mapping[str, str], fresh: FreshNames
) -> tuple[list[onnx.NodeProto], list[str]]:
    """The body's nodes with names of their own, and the names of its results."""
    own = {name: fresh(prefix + name) for inner in body.node for name in inner.output if name}
    names = {**bound, **own}
    results = [names.get(value.name, value.name) for value in body.output]
    return [renamed(inner, names) for inner in body.node], results


def _shared_constants(
    node: onnx.NodeProto, body: onnx.GraphProto, fresh: FreshNames
) -> tuple[list[onnx.NodeProto], dict[str, str]]:
    """The body's weights as Constant nodes, once for all iterations, and their new names."""
    first = _first_output(node)
    names = {tensor.name: fresh(f"{first}/{tensor.name}") for tensor in body.initializer}
    nodes = [
        helper.make_node("Constant", [], [names[tensor.name]], value=tensor)
        for tensor in body.initializer
    ]
    return nodes, names


def _named(values: Sequence[str], results: Sequence[str]) -> list[onnx.NodeProto]:
    pairs = zip(values, results, strict=False)
    return [helper.make_node("Identity", [value], [result]) for value, result in pairs if result]


def _stack(
    pieces: Sequence[str], result: str, axis: int, opset: int, fresh: FreshNames
) -> list[onnx.NodeProto]:
    """The pieces along a new axis."""
    if not result:
        return []
    nodes, parts = [], []
    axes = fresh(f"{result}/axis")
    if opset >= 13:
        nodes.append(constant_node(axes, np.array([axis], "int64")))
    for place, piece in enumerate(pieces):
        part = fresh(f"{result}/piece{place}")
        parts.append(part)
        if opset >= 13:
            nodes.append(helper.make_node("Unsqueeze", [piece, axes], [part]))
        else:
            nodes.append(helper.make_node("Unsqueeze", [piece], [part], axes=[axis]))
    return [*nodes, helper.make_node("Concat", parts, [result], axis=axis)]


def _split(names: Sequence[str], place: int) -> tuple[list[str], list[str]]:
    return list(names[:place]), list(names[place:])


def _first_output(node: onnx.NodeProto) -> str:
    return next(filter(None, node.output))
