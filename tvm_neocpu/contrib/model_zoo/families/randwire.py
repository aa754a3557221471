"""RandWire WS(4, 0.75), small regime.

Xie et al. 2019, "Exploring Randomly Wired Neural Networks for Image Recognition", table 1. The
graphs come from a fixed seed, whatever the seed of the weights: the network is always the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from ..blocks import conv_norm, pooled_classifier
from ..builder import GraphBuilder, Tensor
from ..network import Network

NODES = 32
NEIGHBOURS = 4
REWIRING = 0.75
WIDTH = 78
GRAPH_SEED = 1

Sources = Sequence[Sequence[int]]


def watts_strogatz(nodes: int, neighbours: int, rewiring: float, seed: int) -> Sources:
    """For each node of the random graph the lower ones that it reads, ascending.

    A ring in which each node knows `neighbours` others; each edge (i, i + offset) is moved with
    probability `rewiring` to a random end. An edge leads from its lower to its higher node.
    """
    rng = np.random.default_rng(seed)
    edges = {(i, (i + k) % nodes) for k in range(1, neighbours // 2 + 1) for i in range(nodes)}
    known: list[set[int]] = [set() for _ in range(nodes)]
    for one, two in edges:
        known[one].add(two)
        known[two].add(one)
    for offset in range(1, neighbours // 2 + 1):
        for one in range(nodes):
            two = (one + offset) % nodes
            free = sorted(set(range(nodes)) - known[one] - {one})
            if rng.random() >= rewiring or not free or two not in known[one]:
                continue
            other = int(rng.choice(free))
            known[one] ^= {two, other}
            known[two].remove(one)
            known[other].add(one)
    return tuple(tuple(sorted(j for j in known[i] if j < i)) for i in range(nodes))


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    x = conv_norm(g, x, "conv1", WIDTH // 2, 3, stride=2)
    x = conv_norm(g, x, "conv2", WIDTH, 3, stride=2, act=None)
    for stage, width in enumerate((WIDTH, 2 * WIDTH, 4 * WIDTH), start=3):
        sources = watts_strogatz(NODES, NEIGHBOURS, REWIRING, GRAPH_SEED + stage)
        x = _stage(g, x, f"stage{stage}", width, sources)
    x = conv_norm(g, g.relu(x, "relu"), "head", 1280, 1)
    return pooled_classifier(g, x, "fc")


def _stage(g: GraphBuilder, x: Tensor, name: str, width: int, sources: Sources) -> Tensor:
    """Nodes without a source read the stage's input and halve it; unread ones are added."""
    values: list[Tensor] = []
    for number, reads in enumerate(sources):
        node = f"{name}.node{number}"
        joined = _weighted(g, [values[i] for i in reads], node) if reads else x
        values.append(_separable(g, joined, node, width, 1 if reads else 2))
    unread = sorted(set(range(len(sources))) - {i for reads in sources for i in reads})
    return _weighted(g, [values[i] for i in unread], f"{name}.out")


def _weighted(g: GraphBuilder, parts: list[Tensor], name: str) -> Tensor:
    """The sum of the parts, each times a trained scalar."""
    share = 1 / len(parts) ** 0.5
    scaled = [g.rescale(part, f"{name}.in{n}", share) for n, part in enumerate(parts)]
    numbers = iter(range(len(parts)))
    return reduce(lambda one, two: g.add(one, two, f"{name}.add{next(numbers)}"), scaled)


def _separable(g: GraphBuilder, x: Tensor, name: str, width: int, stride: int) -> Tensor:
    """ReLU, 3x3 depthwise, 1x1, batch norm."""
    x = g.relu(x, f"{name}.relu")
    x = g.conv(x, f"{name}.depthwise", x.channels, 3, stride, 1, x.channels)
    return g.batch_norm(g.conv(x, f"{name}.pointwise", width, 1), f"{name}.norm")


RANDWIRE_SMALL = Network(
    name="randwire_small",
    description="RandWire WS(4, 0.75), C=78 (Xie et al. 2019)",
    body=_body,
)
