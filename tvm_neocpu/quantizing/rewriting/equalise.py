"""Cross-layer equalisation: channels between two convolutions get weights of equal range.

    relu(W1 x + b1) -> W2       =       relu((W1 x + b1) / s) -> W2 s       for s > 0

s = sqrt(r1 / r2) makes the ranges of channel i equal on both sides, so that one scale for the whole
tensor fits all its channels. Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization
and Bias Correction", section 4.1. A clip (ReLU6) is not homogeneous and stops it; so does a tensor
that anything else reads, or a weight that two layers share.

s divides the bias, too. A channel of tiny weights and a usual bias would get all of its tensor's
range (weights of 1e-6 beside others of 1: the output was all wrong). So no bias grows far beyond
the layer's largest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tvm_neocpu.quantizing.onnx_graphs import (
    Readers,
    attribute,
    copy_of,
    readers_of,
    set_weights,
    weights_of,
)

# Each round changes what the next pair sees. Rounds end when no factor is further from 1 than this.
SETTLED = 0.01
MOST_ROUNDS = 20
# How far a bias may grow: to so many times the largest of its layer before.
MOST_GROWTH = 4.0
_HOMOGENEOUS = ("Relu", "LeakyRelu")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two convolutions with nothing but a homogeneous activation between them."""

    first: onnx.NodeProto
    second: onnx.NodeProto


def equalise(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same function with equalised weights."""
    equalised = copy_of(model)
    graph = equalised.graph
    pairs = find_pairs(graph)
    known = weights_of(graph)
    names = {
        name for pair in pairs for node in (pair.first, pair.second) for name in node.input[1:]
    }
    arrays = {name: numpy_helper.to_array(known[name]).astype(np.float64) for name in names}
    limits = {name: MOST_GROWTH * np.abs(arrays[name]).max(initial=0.0) for name in names}
    for _ in range(MOST_ROUNDS):
        if max((_balance(pair, arrays, limits) for pair in pairs), default=0.0) < SETTLED:
            break
    set_weights(graph, {name: array.astype(np.float32) for name, array in arrays.items()})
    return equalised


def find_pairs(graph: onnx.GraphProto) -> list[Pair]:
    """Every pair that may be equalised, in the graph's order."""
    readers = readers_of(graph)
    outputs = {value.name for value in graph.output}
    pairs = []
    for node in graph.node:
        second = _next_convolution(node, readers, outputs)
        if second is not None and _owns(node, readers, graph) and _owns(second, readers, graph):
            pairs.append(Pair(node, second))
    return pairs


def channel_ranges(weight: Floats, groups: int) -> tuple[Floats, Floats]:
    """Largest absolute weight of each output channel and of each input channel."""
    size = np.abs(weight).reshape(weight.shape[0], weight.shape[1], -1).max(axis=2)
    inputs = size.reshape(groups, -1, weight.shape[1]).max(axis=1)
    return size.max(axis=1), inputs.reshape(-1)


def _balance(pair: Pair, arrays: dict[str, Floats], limits: Mapping[str, float]) -> float:
    """Equalise the pair's weights in place; returns how far from 1 the factors were.

    ``limits``: what no bias may exceed.
    """
    weight, following = arrays[pair.first.input[1]], arrays[pair.second.input[1]]
    groups = attribute(pair.second, "group", 1)
    out, _ = channel_ranges(weight, 1)
    _, into = channel_ranges(following, groups)
    usable = (out > 0) & (into > 0)
    factor = np.sqrt(np.where(usable, out, 1.0) / np.where(usable, into, 1.0))
    for bias in pair.first.input[2:3]:
        if limits[bias] > 0:
            factor = np.maximum(factor, np.abs(arrays[bias]) / limits[bias])
    weight /= factor.reshape(-1, *[1] * (weight.ndim - 1))
    for bias in pair.first.input[2:3]:
        arrays[bias] /= factor
    columns = factor.reshape(groups, 1, following.shape[1], 1)
    view = following.reshape(groups, -1, following.shape[1], int(np.prod(following.shape[2:])))
    view *= columns
    return float(np.abs(factor - 1).max())


def _next_convolution(
    node: onnx.NodeProto, readers: Readers, outputs: set[str]
) -> onnx.NodeProto | None:
    """The convolution that alone reads this one's result, through an activation or directly."""
    if node.op_type != "Conv":
        return None
    while True:
        result = node.output[0]
        following = readers.get(result, [])
        if len(following) != 1 or result in outputs:
            return None
        node = following[0]
        if node.op_type == "Conv":
            return node if node.input[0] == result and result not in node.input[1:] else None
        if node.op_type not in _HOMOGENEOUS:
            return None


def _owns(node: onnx.NodeProto, readers: Readers, graph: onnx.GraphProto) -> bool:
    """Whether its weights are constants of fp32 that no other operation reads."""
    known = weights_of(graph)
    return all(
        name in known
        and known[name].data_type == onnx.TensorProto.FLOAT
        and len(readers[name]) == 1
        for name in node.input[1:]
    )
