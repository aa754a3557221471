"""The inverted residual block of mobile networks: MnasNet, MobileNetV3, EfficientNet."""

from __future__ import annotations

from dataclasses import dataclass

from . import activations
from .blocks import Activation, conv_norm, relu, squeeze_excite
from .builder import GraphBuilder, Tensor


@dataclass(frozen=True)
class Inverted:
    """One block: 1x1 up to `hidden`, depthwise, squeeze-excite, linear 1x1 down, shortcut.

    Without `squeezed` there is no squeeze-excite; the 1x1 up is missing where `hidden` is the
    input's width already. `gain` is the size of the branch beside a shortcut of size 1.
    """

    name: str
    hidden: int
    width: int
    kernel: int
    stride: int
    gain: float
    squeezed: int = 0
    act: Activation = relu
    squeeze_act: Activation = relu
    gate: Activation = activations.sigmoid
    epsilon: float = 1e-5


def inverted(g: GraphBuilder, x: Tensor, block: Inverted) -> Tensor:
    """Add the block; the shortcut is there where the shapes are the same."""
    name, hidden, act = block.name, block.hidden, block.act
    epsilon = block.epsilon
    y = x
    if hidden != x.channels:
        y = conv_norm(g, y, f"{name}.expand", hidden, 1, act=act, epsilon=epsilon)
    y = conv_norm(
        g,
        y,
        f"{name}.depthwise",
        hidden,
        block.kernel,
        block.stride,
        groups=hidden,
        act=act,
        epsilon=epsilon,
    )
    if block.squeezed:
        y = squeeze_excite(g, y, f"{name}.se", block.squeezed, block.squeeze_act, block.gate)
    joins = x.image == y.image and x.channels == block.width
    gain = block.gain if joins else 1.0
    y = conv_norm(g, y, f"{name}.project", block.width, 1, act=None, gain=gain, epsilon=epsilon)
    return g.add(x, y, f"{name}.add") if joins else y
