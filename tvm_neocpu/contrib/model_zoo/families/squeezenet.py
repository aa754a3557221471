"""SqueezeNet (Iandola et al. 2016, "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters").

Version 1.0 is the paper's table 1; 1.1 is the authors' faster one. The pools round up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ..builder import GraphBuilder, Tensor
from ..network import Network

# Channels of the 1x1 convolution, and of each of the two that follow it.
FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))


@dataclass(frozen=True)
class Version:
    """The stem's filters and kernel, and the fire modules after which a pool stands."""

    filters: int
    kernel: int
    pools_after: Sequence[int]


VERSIONS = {"1.0": Version(96, 7, (3, 7)), "1.1": Version(64, 3, (2, 4))}


def squeezenet(version: str) -> Network:
    """SqueezeNet "1.0" or "1.1"."""
    return Network(
        name=f"squeezenet{version.replace('.', '_')}",
        description=f"SqueezeNet {version} (Iandola et al. 2016)",
        body=partial(_body, VERSIONS[version]),
    )


def _body(version: Version, g: GraphBuilder, x: Tensor) -> Tensor:
    x = g.relu(g.conv(x, "conv1", version.filters, version.kernel, 2, bias=True), "relu1")
    x = g.max_pool(x, "pool1", 3, 2, ceil=True)
    for number, (squeezed, expanded) in enumerate(FIRES, start=1):
        x = _fire(g, x, f"fire{number + 1}", squeezed, expanded)
        if number in version.pools_after:
            x = g.max_pool(x, f"pool{number + 1}", 3, 2, ceil=True)
    x = g.relu(g.conv(x, "conv10", 1000, 1, bias=True), "relu10")
    return g.flatten(g.global_average_pool(x, "avgpool"), "flatten")


def _fire(g: GraphBuilder, x: Tensor, name: str, squeezed: int, expanded: int) -> Tensor:
    """A narrow 1x1, then a 1x1 and a 3x3 side by side."""
    x = g.relu(g.conv(x, f"{name}.squeeze", squeezed, 1, bias=True), f"{name}.relu")
    one = g.relu(g.conv(x, f"{name}.expand1x1", expanded, 1, bias=True), f"{name}.relu1x1")
    three = g.conv(x, f"{name}.expand3x3", expanded, 3, padding=1, bias=True)
    return g.concat([one, g.relu(three, f"{name}.relu3x3")], f"{name}.concat")
