"""Dense layers as the quantiser expects them: y = x W + b, with b one number for each output.

    y = alpha x W + beta C   ->   y = x (alpha W) + beta C            C one row, or one number
                             ->   y = x (alpha W);  y = y + beta C    C of several rows, or computed

ONNX Runtime's quantiser gives a bias the scale of x times that of W, whatever alpha and beta are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tvm_neocpu.quantizing.onnx_graphs import attribute, copy_of, set_weights, weights_of


def with_plain_gemms(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same function; layers whose weights are computed stay as they are."""
    plain = copy_of(model)
    known = weights_of(plain.graph)
    written: dict[str, NDArray[np.float32]] = {}
    nodes: list[onnx.NodeProto] = []
    for place, node in enumerate(plain.graph.node):
        nodes.append(node)
        if node.op_type != "Gemm" or node.input[1] not in known or _is_plain(node, known):
            continue
        own, outputs = f"gemm_{place}.plain", _outputs(node, known)
        alpha, beta = (np.float32(attribute(node, name, 1.0)) for name in ("alpha", "beta"))
        if alpha != 1:
            weight = numpy_helper.to_array(known[node.input[1]])
            node.input[1] = f"{own}.weight"
            written[node.input[1]] = alpha * weight
        if len(node.input) > 2 and node.input[2]:
            addend = node.input[2]
            row = _row(known, addend, outputs)
            if row is not None:
                node.input[2] = f"{own}.bias"
                written[node.input[2]] = beta * row
            else:
                del node.input[2:]
                nodes += _added(node, addend, beta, own)
                written[f"{own}.beta"] = beta.reshape(())
        _forget(node, ("alpha", "beta"))
    del plain.graph.node[:]
    plain.graph.node.extend(nodes)
    set_weights(plain.graph, written)
    return plain


def _is_plain(node: onnx.NodeProto, known: Mapping[str, onnx.TensorProto]) -> bool:
    if any(attribute(node, name, 1.0) != 1.0 for name in ("alpha", "beta")):
        return False
    if len(node.input) < 3 or not node.input[2]:
        return True
    addend = known.get(node.input[2])
    return addend is not None and list(addend.dims) == [_outputs(node, known)]


def _outputs(node: onnx.NodeProto, known: Mapping[str, onnx.TensorProto]) -> int:
    return known[node.input[1]].dims[0 if attribute(node, "transB", 0) else 1]


def _row(
    known: Mapping[str, onnx.TensorProto], addend: str, outputs: int
) -> NDArray[np.float32] | None:
    """A constant addend that is the same for all rows; ``None`` for another one."""
    if addend not in known:
        return None
    array = numpy_helper.to_array(known[addend])
    if array.ndim == 2 and array.shape[0] != 1:
        return None
    return np.broadcast_to(array.reshape(-1), (outputs,)).astype(np.float32)


def _added(node: onnx.NodeProto, addend: str, beta: np.float32, own: str) -> list[onnx.NodeProto]:
    """Operations that add ``beta`` times the addend to a layer's result; theirs has its name."""
    result = node.output[0]
    node.output[0] = f"{own}.product"
    scaled = helper.make_node("Mul", [addend, f"{own}.beta"], [f"{own}.addend"])
    return [scaled, helper.make_node("Add", [node.output[0], f"{own}.addend"], [result])]


def _forget(node: onnx.NodeProto, names: tuple[str, ...]) -> None:
    kept = [entry for entry in node.attribute if entry.name not in names]
    del node.attribute[:]
    node.attribute.extend(kept)
