"""A small network with everything that quantising treats in a way of its own."""

from __future__ import annotations

import numpy as np
import onnx
from onnx_net import Net


def block_network(seed: int = 0) -> onnx.ModelProto:
    """Convolutions with batch norm, ReLU, ReLU6; a residual add, a gate, a pool, a dense layer."""
    net = Net((1, 8, 12, 12), rng=np.random.default_rng(seed))
    x = net("Relu", net.batch_norm(net.conv("data", 8, 16, 3), 16))
    y = net("Relu", net.conv(x, 16, 16, 3, group=16))
    y = net("Clip", net.conv(y, 16, 16, 1), net.constant(0.0), net.constant(6.0))
    x = net("Add", x, net.batch_norm(net.conv(y, 16, 16, 3), 16))
    gate = net("Sigmoid", net.conv(net("GlobalAveragePool", x), 16, 16))
    x = net("MaxPool", net("Mul", x, gate), kernel_shape=[2, 2], strides=[2, 2])
    x = net("Relu", net.conv(x, 16, 24, 3))
    x = net("Flatten", net("GlobalAveragePool", x))
    model = net.model(net("Gemm", x, net.weight(10, 24), net.weight(10), transB=1))
    del model.graph.output[0].type.tensor_type.shape.dim[2:]
    for place, node in enumerate(model.graph.node):
        node.name = f"{node.op_type.lower()}{place}"
    return model
