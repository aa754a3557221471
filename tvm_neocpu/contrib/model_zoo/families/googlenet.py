"""GoogLeNet with batch norm (Szegedy et al. 2014, "Going Deeper with Convolutions", table 1).

Built as in torchvision: its "5x5" branch has a 3x3 kernel. The auxiliary classifiers are left out:
only training uses them. The pools between stages round up.
"""

from __future__ import annotations

from functools import partial

from ..blocks import conv_norm, pooled_classifier
from ..builder import GraphBuilder, Tensor
from ..network import Network

# Channels: 1x1; 3x3 after its reduction; 5x5 after its reduction; pool. A single number is the
# kernel of a max pool.
MODULES: tuple[tuple[str, tuple[int, ...] | int], ...] = (
    ("3a", (64, 96, 128, 16, 32, 32)),
    ("3b", (128, 128, 192, 32, 96, 64)),
    ("pool3", 3),
    ("4a", (192, 96, 208, 16, 48, 64)),
    ("4b", (160, 112, 224, 24, 64, 64)),
    ("4c", (128, 128, 256, 24, 64, 64)),
    ("4d", (112, 144, 288, 32, 64, 64)),
    ("4e", (256, 160, 320, 32, 128, 128)),
    ("pool4", 2),
    ("5a", (256, 160, 320, 32, 128, 128)),
    ("5b", (384, 192, 384, 48, 128, 128)),
)
_conv = partial(conv_norm, epsilon=1e-3)


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    x = _conv(g, x, "conv1", 64, 7, stride=2)
    x = g.max_pool(x, "pool1", 3, 2, ceil=True)
    x = _conv(g, _conv(g, x, "conv2", 64, 1), "conv3", 192, 3)
    x = g.max_pool(x, "pool2", 3, 2, ceil=True)
    for name, widths in MODULES:
        if isinstance(widths, int):
            x = g.max_pool(x, name, widths, 2, ceil=True)
        else:
            x = _module(g, x, f"inception{name}", widths)
    return pooled_classifier(g, x, "fc")


def _module(g: GraphBuilder, x: Tensor, name: str, widths: tuple[int, ...]) -> Tensor:
    one, three_reduced, three, five_reduced, five, pool = widths
    branch1 = _conv(g, x, f"{name}.branch1", one, 1)
    branch2 = _conv(g, x, f"{name}.branch2.0", three_reduced, 1)
    branch2 = _conv(g, branch2, f"{name}.branch2.1", three, 3)
    branch3 = _conv(g, x, f"{name}.branch3.0", five_reduced, 1)
    branch3 = _conv(g, branch3, f"{name}.branch3.1", five, 3)
    branch4 = g.max_pool(x, f"{name}.branch4.0", 3, 1, padding=1)
    branch4 = _conv(g, branch4, f"{name}.branch4.1", pool, 1)
    return g.concat([branch1, branch2, branch3, branch4], f"{name}.concat")


GOOGLENET = Network(
    name="googlenet",
    description="GoogLeNet with batch norm (Szegedy et al. 2014)",
    body=_body,
)
