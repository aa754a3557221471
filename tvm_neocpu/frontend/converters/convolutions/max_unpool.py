"""MaxUnpool: each element back to the place that MaxPool took it from, zeros elsewhere."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.window_argmax import shape_of_pooled
from tvm_neocpu.frontend.converters.inside import inside
from tvm_neocpu.frontend.converters.node import Node


def max_unpool(node: Node) -> relax.Expr:
    """``(N, C, ...)`` and flat int64 positions -> ``(N, C, ...)`` of what was pooled.

    The positions count in the tensor that kernel, strides and pads make of the input. A larger
    ``output_shape`` adds zeros behind each axis, as ONNX's own case has it. ONNX Runtime reads the
    positions in the larger tensor; so do we where a MaxPool of the file took them from that shape.
    """
    axes = node.rank - 2
    kernel = node.ints("kernel_shape", axes, default=1)
    strides = node.ints("strides", axes, default=1)
    pads = node.ints("pads", 2 * axes, default=0)
    spatial = [
        (node.extent(2 + axis) - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[axes + axis]
        for axis in range(axes)
    ]
    if min(spatial) < 1:
        raise UnsupportedOperatorError(f"its pads {list(pads)} leave nothing of the result")
    shape = [node.extent(0), node.extent(1), *spatial]
    wanted = node.constant(2)
    pooled = shape_of_pooled(node, node.required(1))
    if wanted is not None and pooled is not None and tuple(wanted.tolist()) == pooled:
        shape = list(pooled)
    zeros = relax.const(np.zeros(math.prod(shape), node.dtype), node.dtype)
    places = node.emit(relax.op.reshape(inside(node, 1, math.prod(shape) - 1), [-1]))
    values = node.emit(relax.op.reshape(node.data, [-1]))
    result = node.emit(relax.op.scatter_elements(zeros, places, values, axis=0))
    result = node.emit(relax.op.reshape(result, shape))
    if wanted is None or wanted.tolist() == shape:
        return result
    missing = [int(large) - small for large, small in zip(wanted, shape, strict=True)]
    if min(missing) < 0:
        raise UnsupportedOperatorError(f"output_shape {wanted.tolist()} is below {shape}")
    return relax.op.nn.pad(result, [width for behind in missing for width in (0, behind)])
