"""LeNet-5 for MNIST digits.

LeCun et al. 1998, "Gradient-Based Learning Applied to Document Recognition", in today's form: the
second convolution sees all channels, and softmax replaces the Gaussian outputs.
"""

from __future__ import annotations

from ..builder import GraphBuilder, Tensor
from ..network import Network


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    x = g.tanh(g.conv(x, "conv1", 6, 5, padding=2, bias=True), "tanh1")
    x = g.average_pool(x, "pool1", 2, 2)
    x = g.tanh(g.conv(x, "conv2", 16, 5, bias=True), "tanh2")
    x = g.average_pool(x, "pool2", 2, 2)
    x = g.flatten(x, "flatten")
    x = g.tanh(g.gemm(x, "fc1", 120), "tanh3")
    x = g.tanh(g.gemm(x, "fc2", 84), "tanh4")
    return g.softmax(g.gemm(x, "fc3", 10), "softmax")


LENET = Network(
    name="lenet",
    description="LeNet-5, MNIST digits (LeCun et al. 1998)",
    body=_body,
    image=(1, 28, 28),
    classes=10,
)
