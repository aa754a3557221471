"""Branches and loops, whose bodies have layers of their own and read what is outside."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper
from random_onnx import Choices, RandomNet, Skip

from layer_kinds.layer import Write

Types = dict[str, onnx.TypeProto]


def branch(net: RandomNet, pick: Choices) -> str:
    """Either branch keeps the shape of the map."""
    x = net.pick(pick, rank=None)
    mean = net("ReduceMean", x, keepdims=0)
    bound = net.constant(pick(0.0, 0.3, -0.3, 9.0))
    condition = net(pick("Greater", "Less"), mean, bound)
    if pick(False, True):
        condition = net("Not", condition)
    bodies = {}
    for name in ("then_branch", "else_branch"):
        inner = _inside(net, name[:4], {})
        bodies[name] = _graph(inner, {}, [_step(inner, pick, x, x)])
    if pick(True, False):
        # Nobody but the branch reads what stands in front of it.
        return net("If", condition, **bodies)
    return net(pick("Add", "Sub"), x, net("If", condition, **bodies))


def repeated(net: RandomNet, pick: Choices) -> str:
    """A loop that carries a map; what it scans is summed, or returned."""
    x = net.pick(pick, rank=None)
    trips = pick(2, 3, 1, 5)
    kind = net.types[x]
    names = [f"loop{len(net.nodes)}_{what}" for what in ("trip", "goes_on", "carried")]
    scalar = [helper.make_tensor_type_proto(each, ()) for each in (TensorProto.INT64, 9)]
    inputs: Types = dict(zip(names, [*scalar, kind], strict=True))
    inner = _inside(net, "loop", inputs)
    carried = _step(inner, pick, names[2], x)
    form = pick("constant", "computed", "by the data")
    goes_on = inner("Identity", names[1])
    if pick(False, True):
        # It ends before its count.
        goes_on = inner("Less", names[0], net.constant(pick(1, 0, 2), "int64"))
    index = inner("Cast", names[0], to=TensorProto.FLOAT)
    if pick(True, False):
        carried = inner("Add", carried, inner("Mul", index, net.constant(0.25)))
    scanned = inner("ReduceMean", carried, net.integers(-1), keepdims=0)
    body = _graph(inner, inputs, [goes_on, carried, scanned])
    count = net.constant(trips, "int64")
    if form == "computed":
        count = net("Add", count, net("Size", net("Slice", net("Shape", x), *_none(net))))
    elif form == "by the data":
        large = net("Greater", net("ReduceMean", "data", keepdims=0), net.constant(0.01))
        count = net("Add", count, net("Cast", large, to=TensorProto.INT64))
    last, stacked = net.several(2, "Loop", count, pick("", _true(net)), x, body=body, checked=False)
    if 0 in net.shape_of(last):
        raise Skip("the carried map changes its shape")
    if pick(True, False):
        return last
    total = net("ReduceSum", stacked, net.integers(0), keepdims=0, checked=False)
    if 0 in net.shape_of(total):
        raise Skip("the pieces are of no known shape")
    return net("Add", last, net("Unsqueeze", total, net.integers(-1)))


def scan(net: RandomNet, pick: Choices) -> str:
    """A state and the parts of a map, one after another along an axis."""
    x = net.pick(pick)
    shape, axis = net.shape_of(x), pick(0, 1, 2, 3)
    if shape[axis] > 40:
        raise Skip("many trips")
    part = shape[:axis] + shape[axis + 1 :]
    names = [f"scan{len(net.nodes)}_{what}" for what in ("state", "part")]
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, part)
    inputs: Types = dict.fromkeys(names, kind)
    inner = _inside(net, "scan", inputs)
    state = inner("Mul", names[0], net.constant(0.5))
    state = inner(pick("Add", "Sub"), state, inner(pick("Tanh", "Identity"), names[1]))
    piece = inner(pick("Relu", "Sigmoid", "Neg"), state)
    body = _graph(inner, inputs, [state, piece])
    start = net.uniform(-0.5, 0.5, *part)
    results = net.several(
        2,
        "Scan",
        start,
        x,
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[pick(axis, 0, -1)],
        scan_input_directions=[pick(0, 1)],
        scan_output_directions=[pick(0, 1)],
    )
    return pick(*reversed(results))


def _step(inner: RandomNet, pick: Choices, x: str, outside: str) -> str:
    """A few nodes that keep the shape, some of a map outside."""
    shape = inner.shape_of(x)
    form = pick("conv", "scale", "outside", "as it is", "norm", "depthwise")
    if form in ("conv", "depthwise") and len(shape) == 4:
        groups = shape[1] if form == "depthwise" else 1
        weight = inner.weight(shape[1], shape[1] // groups, 3, 3)
        out = inner("Conv", x, weight, inner.weight(shape[1]), pads=[1] * 4, group=groups)
        return inner(pick("Relu", "Identity", "Tanh"), out)
    if form == "norm" and len(shape) > 1:
        return inner("Softmax", x, axis=-1)
    if form == "outside":
        return inner("Add", inner("Tanh", x), inner("Mul", outside, inner.constant(0.3)))
    if form == "as it is":
        return inner("Identity", x)
    scaled = inner("Mul", x, inner.uniform(0.5, 1.0, *shape[-1:]))
    return inner(pick("Sigmoid", "Relu", "Neg"), scaled)


def _inside(net: RandomNet, name: str, inputs: Types) -> RandomNet:
    """The nodes of a body, whose tensors have names of their own; weights are the network's."""
    inner = RandomNet(net.shape, weights=net.weights, rng=net.rng)
    inner.prefix = f"{net.prefix}{name}{len(net.nodes)}_"
    inner.types = net.types
    inner.types.update(inputs)
    return inner


def _graph(inner: RandomNet, inputs: Types, outputs: list[str]) -> onnx.GraphProto:
    infos = [
        [helper.make_value_info(name, inner.types[name]) for name in names]
        for names in (inputs, outputs)
    ]
    return helper.make_graph(inner.nodes, "body", *infos)


def _true(net: RandomNet) -> str:
    return net.constant(np.asarray(True), "bool")


def _none(net: RandomNet) -> list[str]:
    return [net.integers(0), net.integers(1)]


KINDS: dict[str, Write] = {"branch": branch, "loop": repeated, "scan": scan}
