"""A network with layers in half precision, as any engine computes it: by casts around them.

    y = Conv(x, w)   ->   y = Conv(Cast(Cast(x, bf16), fp32), w rounded to bf16)

Sums stay fp32. Where a kernel only stores its weights in half precision, the data are not cast.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tvm_neocpu.quantizing.onnx_graphs import copy_of, weights_of
from tvm_neocpu.runtime.ffi.arrays import numpy_dtype

NO_GROWTH: Mapping[str, float] = MappingProxyType({})


def in_half(
    model: onnx.ModelProto,
    layers: Mapping[str, str],
    rounds_data: Collection[str] = (),
    growths: Mapping[str, float] = NO_GROWTH,
) -> onnx.ModelProto:
    """A copy with these layers' weights rounded, each to its type.

    ``rounds_data`` are those of them whose data are rounded to bf16, too. A weight of a layer in
    ``growths`` is moved farther than to the nearest number, so that its noise power is so many
    times as large: that of a kernel which rounds transformed weights. Where a kernel rounds
    transformed data, too, the weight makes their noise as well.
    """
    changed = copy_of(model)
    graph, nodes = changed.graph, list(changed.graph.node)
    weights, added = weights_of(graph), set()
    del graph.node[:]
    for node in nodes:
        if node.name in rounds_data:
            graph.node.extend(cast_data(node))
        if node.name in layers:
            # A name of its own: another layer may read the same weight in fp32.
            weight, name = weights[node.input[1]], f"{node.name}.{layers[node.name]}"
            if name not in added:
                exact = numpy_helper.to_array(weight)
                moved = rounded(exact, layers[node.name]) - exact
                growth = growths.get(node.name, 1.0)
                if node.name in rounds_data:  # the cast makes one part of two that grow
                    growth = 2 * growth - 1
                values = exact + np.float32(growth**0.5) * moved
                graph.initializer.append(numpy_helper.from_array(values, name))
                added.add(name)
            node.input[1] = name
        graph.node.append(node)
    return changed


def rounded(weight: NDArray[Any], dtype: str) -> NDArray[np.float32]:
    """The nearest numbers of a type of half precision, in fp32."""
    found: NDArray[np.float32] = weight.astype(numpy_dtype(dtype)).astype(np.float32)
    return found


def cast_data(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Nodes that round what a layer reads; the layer reads it from them then."""
    narrow, wide = f"{node.name}.narrow", f"{node.name}.wide"
    casts = [
        helper.make_node("Cast", [node.input[0]], [narrow], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", [narrow], [wide], to=TensorProto.FLOAT),
    ]
    node.input[0] = wide
    return casts
