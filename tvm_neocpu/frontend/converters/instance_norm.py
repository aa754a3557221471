"""InstanceNormalization: every plane of a batch by its own mean and variance."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.frontend.converters.node import Node


def instance_normalization(node: Node) -> relax.Expr:
    """``(N, C, ...)``, scale and bias ``(C,)`` -> the same shape as the data."""
    data, scale, bias = (node.required(place) for place in range(3))
    axes = list(range(2, node.rank))
    epsilon = float(node.attributes["epsilon"])
    if len(axes) == 2:
        return relax.op.nn.instance_norm(data, scale, bias, 1, axes, epsilon)
    mean = node.emit(relax.op.mean(data, axes, keepdims=True))
    centred = node.emit(relax.op.subtract(data, mean))
    squares = node.emit(relax.op.multiply(centred, centred))
    variance = node.emit(relax.op.mean(squares, axes, keepdims=True))
    shifted = node.emit(relax.op.add(variance, relax.const(epsilon, node.dtype)))
    shape = [-1, *(1 for _ in axes)]
    factor = node.emit(
        relax.op.divide(
            node.emit(relax.op.reshape(scale, shape)), node.emit(relax.op.sqrt(shifted))
        )
    )
    product = node.emit(relax.op.multiply(centred, factor))
    return relax.op.add(product, node.emit(relax.op.reshape(bias, shape)))
