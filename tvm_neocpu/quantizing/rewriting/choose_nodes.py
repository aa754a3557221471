"""Which operations compute in int8: layers, and what carries their results from one to the next.

A layer (convolution, dense) always may. A carrier (residual add, concat, pool, reshape) does where
all it reads is quantised anyway. Everything else stays fp32 between a DQ and the next layer's Q:
sigmoids and their products, softmax, layer norm, arithmetic with constants. Rounding there would
cost accuracy, and an epilogue in fp32 costs no time.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx
from onnx import TensorProto

from tvm_neocpu.quantizing.onnx_graphs import weights_of

LAYERS = frozenset({"Conv", "Gemm", "MatMul"})
# They become the range of the result before them.
ABSORBED = ("Relu", "Clip")
# Convolutions that grow an image stay fp32: ONNX Runtime has no integer kernel for them.
CARRIERS = frozenset(
    [
        "Add",
        "AveragePool",
        "Clip",
        "Concat",
        "Flatten",
        "GlobalAveragePool",
        "MaxPool",
        "Relu",
        "Reshape",
        "Resize",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    ]
)


def layers_of(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Convolutions and dense layers with constant fp32 weights, in the graph's order."""
    weights = weights_of(graph)
    return [node for node in graph.node if node.op_type in LAYERS and _has_weight(node, weights)]


def choose_nodes(graph: onnx.GraphProto, excluded: Collection[str] = ()) -> list[str]:
    """Names of the operations in int8, in the graph's order, without those that are excluded."""
    layers = {node.name for node in layers_of(graph)} - set(excluded)
    if not layers:
        return []
    quantised = {node.input[0] for node in graph.node if node.name in layers}
    chosen = []
    for node in graph.node:
        carries = (
            node.op_type in CARRIERS
            and node.name not in excluded
            and all(name in quantised for name in _activations(node))
        )
        if node.name in layers or carries:
            chosen.append(node.name)
            quantised |= set(node.output)
    return chosen


def activations_of(graph: onnx.GraphProto, chosen: Collection[str]) -> list[str]:
    """The tensors that get a Q and a DQ where these operations compute in int8, once each."""
    weights = weights_of(graph)
    nodes = [node for node in graph.node if node.name in chosen]
    names = [name for node in nodes for name in (*_activations(node), *node.output)]
    return list(dict.fromkeys(name for name in names if name not in weights))


def _has_weight(node: onnx.NodeProto, weights: dict[str, onnx.TensorProto]) -> bool:
    weight = weights.get(node.input[1])
    return weight is not None and weight.data_type == TensorProto.FLOAT and len(weight.dims) > 1


def _activations(node: onnx.NodeProto) -> list[str]:
    """What an operation reads of other operations: no weights, bounds, shapes or sizes.

    A constant addend counts, so that adding one is no carrier.
    """
    return list(node.input) if node.op_type in ("Add", "Concat") else [node.input[0]]
