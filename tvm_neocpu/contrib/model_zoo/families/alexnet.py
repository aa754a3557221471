"""AlexNet with one tower, as torchvision has it.

Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks".
"""

from __future__ import annotations

from ..builder import GraphBuilder, Tensor
from ..network import Network

# Filters, kernel, stride, padding, and whether a max pool follows.
LAYERS = (
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    for number, (filters, kernel, stride, padding, pools) in enumerate(LAYERS, start=1):
        x = g.conv(x, f"conv{number}", filters, kernel, stride, padding, bias=True)
        x = g.relu(x, f"relu{number}")
        if pools:
            x = g.max_pool(x, f"pool{number}", 3, 2)
    x = g.flatten(x, "flatten")
    x = g.relu(g.gemm(x, "fc6", 4096), "relu6")
    x = g.relu(g.gemm(x, "fc7", 4096), "relu7")
    return g.gemm(x, "fc8", 1000)


ALEXNET = Network(
    name="alexnet",
    description="AlexNet, one tower (Krizhevsky 2014)",
    body=_body,
)
