"""InstanceNormalization: every plane of a batch by its own mean and variance."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.frontend.converters.node import Node


def instance_normalization(node: Node) -> relax.Expr:
    """``(N, C, ...)``, scale and bias ``(C,)`` -> the same shape as the data."""
    data, scale, bias = (node.required(place) for place in range(3))
    axes = list(range(2, node.rank))
    return relax.op.nn.instance_norm(data, scale, bias, 1, axes, float(node.attributes["epsilon"]))
