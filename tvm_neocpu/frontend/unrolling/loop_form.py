"""A ``Loop`` node read: what each name of its body stands for; a ``Scan`` written as a ``Loop``.

y, ys = Scan(h, xs, body: h, x -> g, z)
  ->
y, ys = Loop(extent of xs, "", h, body: i, _, h -> Identity(_), g, z   with x = Gather(xs, i))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.nodes import body_of, constant_node, int_lists, told
from tvm_neocpu.frontend.rewriting.fresh_names import FreshNames

# The attribute of a Loop that `loop_sequences` wrote: the axes along which the pieces of its last
# scan outputs are joined, where ONNX would stack them.
JOINED = "neocpu_joined"


@dataclass(frozen=True)
class Carried:
    """A loop-carried tensor: its value before, its name in the body, the next value, the result."""

    initial: str
    inside: str
    following: str
    result: str


@dataclass(frozen=True)
class LoopForm:
    """The parts of a Loop node by name; ``""`` for what it omits.

    ``unchanged`` are the tensors of the body that have the same value in each trip, with the names
    they have around the loop; ``passed_on`` are their results, with these names. ``stacked`` are
    what a trip computes and the results of all trips; ``joined`` has an axis for those whose pieces
    are joined along it, in place of stacked along a new one.
    """

    node: onnx.NodeProto
    body: onnx.GraphProto
    trips: str
    condition: str
    following_condition: str
    carried: tuple[Carried, ...]
    unchanged: tuple[tuple[str, str], ...]
    passed_on: tuple[tuple[str, str], ...]
    stacked: tuple[tuple[str, str], ...]
    joined: tuple[int | None, ...]

    @property
    def has_condition(self) -> bool:
        """Whether a trip may say that it was the last one."""
        return not is_true_for_ever(self.body, self.following_condition)

    @property
    def told(self) -> str:
        """``Loop (node decoder)``"""
        return told(self.node)


def loop_form(node: onnx.NodeProto) -> LoopForm:
    """Raises UnsupportedOperatorError where the body does not fit the node."""
    body = body_of(node)
    initial = list(node.input[2:])
    inside = [value.name for value in body.input]
    outputs = [value.name for value in body.output]
    results = [*node.output, *[""] * (len(outputs) - 1 - len(node.output))]
    if len(inside) != len(initial) + 2 or len(outputs) < len(initial) + 1:
        raise UnsupportedOperatorError(
            f"cannot import operator {told(node)}: its body takes {len(inside)} tensors and gives "
            f"{len(outputs)}, for {len(initial)} carried ones"
        )
    rows = zip(initial, inside[2:], outputs[1 : 1 + len(initial)], results, strict=False)
    everything = [Carried(*row) for row in rows]
    same = [each for each in everything if source_of(body, each.following) == each.inside]
    return LoopForm(
        node,
        body,
        *[*node.input[:2], "", ""][:2],
        outputs[0],
        tuple(each for each in everything if each not in same),
        tuple((each.inside, each.initial) for each in same),
        tuple((each.result, each.initial) for each in same if each.result),
        tuple(zip(outputs[1 + len(initial) :], results[len(initial) :], strict=True)),
        joined_axes(node, len(outputs) - 1 - len(initial)),
    )


def joined_axes(node: onnx.NodeProto, scans: int) -> tuple[int | None, ...]:
    """For each scan output of a Loop the axis along which its pieces are joined, or ``None``."""
    axes = int_lists(node).get(JOINED, [])
    return (*[None] * (scans - len(axes)), *axes)


def scan_as_loop(node: onnx.NodeProto, fresh: FreshNames) -> list[onnx.NodeProto]:
    """The nodes that compute a Scan, as opset 9 has it, with a Loop."""
    body = body_of(node)
    options = int_lists(node)
    scanned = options["num_scan_inputs"][0]
    carried = len(node.input) - scanned
    outputs = len(body.output) - carried
    in_axes = options.get("scan_input_axes", [0] * scanned)
    out_axes = options.get("scan_output_axes", [0] * outputs)
    name = next(filter(None, node.output)) + "/scan"
    axis, trips, shape = (fresh(f"{name}/{part}") for part in ("axis", "trips", "shape"))
    before = [
        constant_node(axis, np.array(in_axes[0], "int64")),
        helper.make_node("Shape", [node.input[carried]], [shape]),
        helper.make_node("Gather", [shape, axis], [trips]),
    ]
    inside = _scan_body(body, name, list(node.input[carried:]), in_axes, trips, options, fresh)
    raw = [fresh(f"{name}/{at}") if out else "" for at, out in enumerate(node.output[carried:])]
    loop = helper.make_node(
        "Loop",
        [trips, "", *node.input[:carried]],
        [*node.output[:carried], *raw],
        name=node.name,
        body=inside,
    )
    after = []
    backward = options.get("scan_output_directions", [0] * outputs)
    for at, (found, result) in enumerate(zip(raw, node.output[carried:], strict=True)):
        if result:
            rank = len(body.output[carried + at].type.tensor_type.shape.dim) + 1
            after += _laid_out(found, result, rank, out_axes[at], bool(backward[at]), fresh)
    return [*before, loop, *after]


def _scan_body(
    body: onnx.GraphProto,
    name: str,
    sequences: Sequence[str],
    axes: Sequence[int],
    trips: str,
    options: dict[str, list[int]],
    fresh: FreshNames,
) -> onnx.GraphProto:
    """The body of a Loop that picks the elements of a Scan's sequences by itself."""
    counter, goes_on, last = (fresh(f"{name}/{part}") for part in ("counter", "goes_on", "last"))
    backward = options.get("scan_input_directions", [0] * len(sequences))
    carried = len(body.input) - len(sequences)
    nodes = []
    if any(backward):
        one, end = fresh(f"{name}/one"), fresh(f"{name}/end")
        nodes += [
            constant_node(one, np.array(1, "int64")),
            helper.make_node("Sub", [trips, one], [end]),
            helper.make_node("Sub", [end, counter], [last]),
        ]
    for at, sequence in enumerate(sequences):
        place = last if backward[at] else counter
        piece = body.input[carried + at].name
        nodes.append(helper.make_node("Gather", [sequence, place], [piece], axis=axes[at]))
    follows = fresh(f"{name}/follows")
    nodes.append(helper.make_node("Identity", [goes_on], [follows]))
    return helper.make_graph(
        [*nodes, *body.node],
        name,
        [
            helper.make_tensor_value_info(counter, TensorProto.INT64, []),
            helper.make_tensor_value_info(goes_on, TensorProto.BOOL, []),
            *body.input[:carried],
        ],
        [helper.make_tensor_value_info(follows, TensorProto.BOOL, []), *body.output],
        list(body.initializer),
    )


def _laid_out(
    found: str, result: str, rank: int, axis: int, is_backward: bool, fresh: FreshNames
) -> list[onnx.NodeProto]:
    """``found`` has the trips along axis 0: turned round and moved where the Scan wants them."""
    nodes = []
    axis %= rank
    if is_backward:
        names = [fresh(f"{result}/{part}") for part in ("start", "stop", "axes", "step")]
        values = (-1, np.iinfo("int64").min, 0, -1)
        for name, value in zip(names, values, strict=True):
            nodes.append(constant_node(name, np.array([value], "int64")))
        turned = fresh(f"{result}/turned")
        nodes.append(helper.make_node("Slice", [found, *names], [turned]))
        found = turned
    if not axis:
        return [*nodes, helper.make_node("Identity", [found], [result])]
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    return [*nodes, helper.make_node("Transpose", [found], [result], perm=order)]


def is_true_for_ever(body: onnx.GraphProto, name: str) -> bool:
    """Whether a condition of the body is the one that it gets, or a constant that is true."""
    source = source_of(body, name)
    if source == body.input[1].name:
        return True
    values = [
        entry.t
        for node in body.node
        if node.op_type == "Constant" and source in node.output
        for entry in node.attribute
        if entry.name == "value"
    ]
    values += [tensor for tensor in body.initializer if tensor.name == source]
    return any(bool(onnx.numpy_helper.to_array(value).all()) for value in values)


def source_of(body: onnx.GraphProto, name: str) -> str:
    """What a name of the body stands for, seen through Identity nodes."""
    makers = {out: node for node in body.node for out in node.output}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    return name
