"""Layers that choose elements by value or by index, and put them elsewhere.

What jumps where a value is rounded reads the network's input, which both sides have alike.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto
from random_onnx import Choices, RandomNet

from layer_kinds.layer import Write


def extremum(net: RandomNet, pick: Choices) -> str:
    place = net(
        pick("ArgMax", "ArgMin"),
        "data",
        axis=pick(1, -1, 2, 0),
        keepdims=pick(1, 0),
        select_last_index=pick(0, 1),
    )
    return net("Cast", place, to=TensorProto.FLOAT)


def hardmax(net: RandomNet, pick: Choices) -> str:
    return net("Hardmax", "data", axis=pick(1, -1, 2, 0))


def top_k(net: RandomNet, pick: Choices) -> str:
    axis = pick(1, -1, 2)
    extent = net.shape_of("data")[axis]
    count = min(extent, pick(1, 3, extent))
    values, places = net.several(
        2,
        "TopK",
        "data",
        net.integers(count),
        axis=axis,
        largest=pick(1, 0),
        sorted=1,
    )
    if pick(True, False):
        return net("Mul", values, net("Cast", places, to=TensorProto.FLOAT))
    return net("GatherElements", net("Neg", "data"), places, axis=axis)


def one_hot(net: RandomNet, pick: Choices) -> str:
    """A class of each pixel, as one channel of a few."""
    place = net("ArgMax", "data", axis=1, keepdims=0)
    values = net.constant([pick(0.0, -1.0), pick(1.0, 3.0)])
    return net("OneHot", place, net.integers(pick(6, 2, 40)), values, axis=pick(1, -1))


def gather_nd(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    shape = net.shape_of(x)
    if pick(True, False):
        depth = pick(2, 1, 3, 4)
        indices = net.rng.integers(0, shape[:depth], (pick(5, 1), depth))
        return net("GatherND", x, net.constant(indices, "int64"))
    axis = pick(1, 2, 3)
    own = [*shape]
    own[axis] = pick(3, 1)
    indices = net.rng.integers(-shape[axis], shape[axis], own)
    return net("GatherElements", x, net.constant(indices, "int64"), axis=axis)


def scatter_elements(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    shape = net.shape_of(x)
    axis, reduction = pick(1, -1, 2), pick("none", "add", "mul", "max", "min")
    own = [max(1, extent - pick(0, 1)) for extent in shape]
    if reduction == "none":
        # Which of two updates of one element counts is not said.
        order = np.argsort(net.rng.random(shape), axis)
        indices = order[tuple(slice(extent) for extent in own)]
    else:
        indices = net.rng.integers(-shape[axis], shape[axis], own)
    updates = net.uniform(0.5, 1.5, *own)
    if own == [*shape] and pick(True, False):
        updates = net("Tanh", x)
    places = net.constant(indices, "int64")
    return net("ScatterElements", x, places, updates, axis=axis, reduction=reduction)


def scatter_nd(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    shape = net.shape_of(x)
    depth, reduction = pick(2, 1, 3, 4), pick("none", "add", "mul", "max", "min")
    places = math.prod(shape[:depth])
    count = min(places, pick(4, 1, 9))
    repeated = net.rng.integers(0, places, count)
    chosen = net.rng.permutation(places)[:count] if reduction == "none" else repeated
    indices = np.stack(np.unravel_index(chosen, shape[:depth]), -1)
    updates = net.uniform(0.5, 1.5, count, *shape[depth:])
    if pick(False, True):
        updates = net("Mul", updates, net("ReduceMean", x, keepdims=0))
    return net("ScatterND", x, net.constant(indices, "int64"), updates, reduction=reduction)


def suppression(net: RandomNet, pick: Choices) -> str:
    """How many boxes are kept, and the sum of their places, as a factor of a map."""
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of("data")
    count, classes = height * width, min(channels, pick(1, 3))
    corners = net.rng.uniform(0, 1, (batch, count, 2))
    sizes = net.rng.uniform(0.1, 0.5, (batch, count, 2))
    centred = pick(0, 1)
    boxes = [corners, sizes] if centred else [corners, corners + sizes]
    scores = net("Reshape", "data", net.integers(batch, channels, count))
    scores = net("Slice", scores, *(net.integers(each) for each in (0, classes, 1)))
    kept = net(
        "NonMaxSuppression",
        net.constant(np.concatenate(boxes, 2)),
        scores,
        net.constant([pick(count, 2, 1)], "int64"),
        net.constant([pick(0.3, 0.0, 0.7)]),
        *([net.constant([pick(0.1, -0.5)])] if pick(True, False) else []),
        center_point_box=centred,
        checked=False,
    )
    places = net("Cast", kept, to=TensorProto.FLOAT, checked=False)
    total = net("ReduceSum", places, net.integers(0), keepdims=0)
    total = net("ReduceSum", total, keepdims=0)
    return net("Mul", x, net("Add", net("Mul", total, net.constant(0.01)), net.constant(1.0)))


KINDS: dict[str, Write] = {
    "extremum": extremum,
    "hardmax": hardmax,
    "top k": top_k,
    "one hot": one_hot,
    "gather nd": gather_nd,
    "scatter elements": scatter_elements,
    "scatter nd": scatter_nd,
    "suppression": suppression,
}
