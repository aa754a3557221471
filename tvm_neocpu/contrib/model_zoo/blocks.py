"""Blocks that several families share."""

from __future__ import annotations

from collections.abc import Callable

from . import activations
from .builder import GraphBuilder, Tensor
from .window import Size

Activation = Callable[[GraphBuilder, Tensor, str], Tensor]


def relu(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    return g.relu(x, name)


def relu6(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    return g.relu6(x, name)


def conv_norm(
    g: GraphBuilder,
    x: Tensor,
    name: str,
    filters: int,
    kernel: Size,
    stride: int = 1,
    groups: int = 1,
    act: Activation | None = relu,
    gain: float = 1.0,
    epsilon: float = 1e-5,
    dilation: int = 1,
) -> Tensor:
    """Convolution padded to its input's size, batch norm, activation or none."""
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    padding = (height // 2 * dilation, width // 2 * dilation)
    x = g.conv(x, f"{name}.conv", filters, kernel, stride, padding, groups, dilation=dilation)
    x = g.batch_norm(x, f"{name}.norm", gain, epsilon)
    return act(g, x, f"{name}.act") if act else x


def squeeze_excite(
    g: GraphBuilder,
    x: Tensor,
    name: str,
    squeezed: int,
    act: Activation = relu,
    gate: Activation = activations.sigmoid,
) -> Tensor:
    """`x` times a gate for each channel, from two 1x1 convolutions of the channels' averages."""
    y = g.global_average_pool(x, f"{name}.avgpool")
    y = act(g, g.conv(y, f"{name}.fc1", squeezed, 1, bias=True), f"{name}.act")
    y = gate(g, g.conv(y, f"{name}.fc2", x.channels, 1, bias=True), f"{name}.gate")
    return g.multiply(x, y, f"{name}.product")


def pooled_classifier(g: GraphBuilder, x: Tensor, name: str, classes: int = 1000) -> Tensor:
    """Global average pool, flatten, fully connected layer."""
    x = g.flatten(g.global_average_pool(x, "avgpool"), "flatten")
    return g.gemm(x, name, classes)
