"""Layers over rows and matrices: sums from the start, triangles, products by Einsum, norms."""

from __future__ import annotations

from onnx import TensorProto
from random_onnx import Choices, RandomNet, Skip

from layer_kinds.layer import Write


def triangle(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    offset = [net.constant(pick(1, -1, 0, 3), "int64")] if pick(True, False) else []
    return net("Trilu", x, *offset, upper=pick(1, 0))


def cumulative(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    axis = net.constant(pick(3, 1, -2, 0), "int64")
    return net("CumSum", x, axis, exclusive=pick(0, 1), reverse=pick(0, 1))


def reversed_rows(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    time, batch = pick((1, 0), (0, 1))
    steps, count = net.shape_of(x)[time], net.shape_of(x)[batch]
    lengths = net.rng.integers(1, steps + 1, count)
    lengths = net.constant(lengths, "int64")
    return net("ReverseSequence", x, lengths, time_axis=time, batch_axis=batch)


def contraction(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    _, channels, height, width = net.shape_of(x)
    equations = {
        "nchw,wk->nchk": [(width, 6)],
        "nchw,nchw->nc": [x],
        "nchw,nkhw->nck": [x],
        "nchw,h,w->nc": [(height,), (width,)],
        "nchw->nwch": [],
        "nchw->cn": [],
        "nchw,ck,kd->ndhw": [(channels, 3), (3, 8)],
        "...hw,wk": [(width, 4)],
        "nchw,c->nchw": [(channels,)],
    }
    equation = pick(*equations)
    others = [
        other if isinstance(other, str) else net.uniform(-0.5, 0.5, *other)
        for other in equations[equation]
    ]
    return net("Einsum", x, *others, equation=equation)


def row_norm(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    kind = pick("LpNormalization", "GlobalLpPool", "ReduceProd", "ReduceLogSum")
    if kind == "LpNormalization":
        return net(kind, x, axis=pick(1, -1, 2), p=pick(2, 1))
    if kind == "GlobalLpPool":
        return net(kind, x, p=pick(2, 1, 3))
    near_one = net("Add", net("Tanh", x), net.constant(1.5))
    axes = net.integers(pick(1, 3))
    if net.shape_of(x)[1] > 60:
        raise Skip("a large product")
    return net(kind, near_one, axes, keepdims=pick(1, 0))


def bounds(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    kind = pick("Shrink", "ThresholdedRelu", "Round", "Floor", "Sign", "IsNaN", "Mod")
    if kind == "Shrink":
        return net(kind, x, lambd=0.4, bias=0.4)
    if kind == "ThresholdedRelu":
        return net("ThresholdedRelu", "data", alpha=pick(1.0, 0.0, -0.5))
    if kind == "IsNaN":
        return net("Add", x, net("Cast", net(kind, x), to=TensorProto.FLOAT))
    if kind == "Mod":
        return net(kind, "data", net.constant(pick(0.7, -0.6)), fmod=1)
    return net(kind, net("Mul", "data", net.constant(pick(3.0, 1.0))))


KINDS: dict[str, Write] = {
    "triangle": triangle,
    "cumulative": cumulative,
    "reversed rows": reversed_rows,
    "contraction": contraction,
    "row norm": row_norm,
    "bounds": bounds,
}
