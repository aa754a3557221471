"""Networks that are hard for a layout search: an SSD-like ladder, rails with rungs, random ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import onnx

from tvm_neocpu.contrib.model_zoo.builder import GraphBuilder
from tvm_neocpu.contrib.model_zoo.builder import Tensor as OnnxTensor
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind, Shape4
from tvm_neocpu.topi.conv2d.workload import ConvWorkload


@dataclass(frozen=True)
class Tensor:
    """A tensor: the node that decides its layout, its own name, its logical shape (N, C, H, W)."""

    node: str
    name: str
    shape: Shape4

    @property
    def channels(self) -> int:
        return self.shape[1]


@dataclass
class GraphWriter:
    """A conv graph, built from input to output; node ids are consecutive numbers."""

    nodes: list[GraphNode] = field(default_factory=list)
    edges: list[GraphEdge] = field(default_factory=list)

    @property
    def graph(self) -> ConvGraph:
        return ConvGraph(tuple(self.nodes), tuple(self.edges))

    def data(self, shape: Shape4) -> Tensor:
        """The network's input."""
        return self._add(NodeKind.BOUNDARY, "data", shape, [])

    def output(self, *tensors: Tensor) -> None:
        """The network's outputs, as one node."""
        self._add(NodeKind.BOUNDARY, "output", (1, 1, 1, 1), tensors)

    def conv(self, x: Tensor, filters: int, kernel: int, stride: int = 1) -> Tensor:
        """A square convolution, padded by half its kernel."""
        padding = (kernel // 2,) * 4
        work = ConvWorkload(*x.shape, filters, (kernel, kernel), (stride, stride), padding=padding)
        return self._add(NodeKind.CONV, str(work), work.out_shape, [x], work)

    def add(self, *tensors: Tensor) -> Tensor:
        """The sum of tensors of one shape."""
        shape = tensors[0].shape
        return self._add(NodeKind.JOIN, "add", shape, tensors, channels=(shape[1],))

    def concat(self, *tensors: Tensor) -> Tensor:
        """Tensors of equal height and width, concatenated along channels."""
        batch, _, height, width = tensors[0].shape
        shape = (batch, sum(tensor.channels for tensor in tensors), height, width)
        channels = tuple(sorted({tensor.channels for tensor in tensors}))
        return self._add(NodeKind.JOIN, "concat", shape, tensors, channels=channels)

    def resized(self, x: Tensor, size: int) -> Tensor:
        """``x`` pooled or enlarged to ``size`` x ``size``: another tensor of the same node."""
        return Tensor(x.node, f"{x.name} {size}x{size}", (*x.shape[:2], size, size))

    def _add(
        self,
        kind: NodeKind,
        label: str,
        shape: Shape4,
        sources: Sequence[Tensor],
        workload: ConvWorkload | None = None,
        channels: tuple[int, ...] = (),
    ) -> Tensor:
        name = str(len(self.nodes))
        self.nodes.append(GraphNode(name, kind, label, shape, workload, channels))
        self.edges += [GraphEdge(x.node, name, x.shape, x.name) for x in sources]
        return Tensor(name, name, shape)


def ssd_ladder() -> ConvGraph:
    """SSD with ResNet-50 at 512x512 and the deconvolution path of DSSD: a ladder of seven scales.

    scale 1 -> scale 2 -> ... -> scale 7      backbone
       |          |                 |         lateral convolutions
    merge 1 <- merge 2 <- ... <- merge 7      two predictions each
    """
    net = GraphWriter()
    x = net.resized(net.conv(net.data((1, 3, 512, 512)), 64, 7, 2), 128)
    scales: list[Tensor] = []
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for block in range(blocks):
            x = _bottleneck(net, x, width, 2 if stage and not block else 1)
        scales.append(x)
    for _ in range(3):
        x = net.conv(net.conv(x, 256, 1), 512, 3, 2)
        scales.append(x)
    predictions: list[Tensor] = []
    below: Tensor | None = None
    for x in reversed(scales):
        lateral = net.conv(x, 256, 1)
        if below is not None:
            lateral = net.add(lateral, net.resized(below, lateral.shape[2]))
        below = net.conv(lateral, 256, 3)
        mixed = net.concat(below, net.conv(x, 128, 1))
        for filters in (24, 126):  # 6 boxes: 4 coordinates and 21 classes each
            predictions.append(net.conv(mixed, filters, 3))
    net.output(*predictions)
    return net.graph


def _bottleneck(net: GraphWriter, x: Tensor, width: int, stride: int) -> Tensor:
    y = net.conv(net.conv(net.conv(x, width, 1), width, 3, stride), 4 * width, 1)
    return net.add(net.conv(x, 4 * width, 1, stride) if x.shape != y.shape else x, y)


def rails(count: int, rungs: int, seed: int = 0) -> ConvGraph:
    """``count`` chains of convolutions side by side; at every rung a chain is added to the next.

        chain 0   conv ------- conv ------- ...
        chain 1   conv - add - conv - add - ...      add: chain 0 + chain 1
        chain 2   conv - add - conv - add - ...      add: chain 1 + chain 2

    The frontier of an elimination along the chains holds ``count`` nodes.
    """
    rng = random.Random(seed)
    net = GraphWriter()
    data = net.data((1, 64, 28, 28))
    chains = [net.conv(data, 64, 3) for _ in range(count)]
    for _ in range(rungs):
        chains = [net.conv(chain, 64, rng.choice((1, 3))) for chain in chains]
        chains = [chains[0], *(net.add(x, y) for x, y in pairwise(chains))]
    net.output(*chains)
    return net.graph


def random_network(convs: int, seed: int = 0) -> onnx.ModelProto:
    """An irregular network as ONNX: convolutions that read a recent tensor, adds, concats."""
    rng = random.Random(seed)
    shape = (1, 3, 28, 28)
    g = GraphBuilder(f"random{convs}", shape, np.random.default_rng(seed))
    recent: list[OnnxTensor] = [g.relu(g.conv(g.data, "stem", 64, 3, padding=1, bias=True), "r")]
    unread = {recent[0].name: recent[0]}
    for k in range(convs - 1):
        x = rng.choice(recent[-24:])
        unread.pop(x.name, None)
        kernel = rng.choice((1, 1, 3))
        filters = rng.choice((32, 48, 64, 64))
        y = g.conv(x, f"conv{k}", filters, kernel, padding=kernel // 2, bias=True)
        y = g.relu(y, f"relu{k}")
        y = _joined(g, rng, y, recent[-24:], unread, k)
        recent.append(y)
        unread[y.name] = y
    last = g.concat(list(unread.values()), "all") if len(unread) > 1 else recent[-1]
    flat = g.flatten(g.global_average_pool(last, "pool"), "flatten")
    return g.finish(g.gemm(flat, "fc", 10))


def _joined(
    g: GraphBuilder,
    rng: random.Random,
    y: OnnxTensor,
    recent: list[OnnxTensor],
    unread: dict[str, OnnxTensor],
    k: int,
) -> OnnxTensor:
    """``y``, or its sum with a recent tensor of its shape, or its concat with a recent tensor."""
    draw = rng.random()
    equal = [x for x in recent if x.shape == y.shape]
    if draw < 0.3 and equal:
        other = rng.choice(equal)
        unread.pop(other.name, None)
        return g.relu(g.add(y, other, f"add{k}"), f"addrelu{k}")
    narrow = [x for x in recent if x.channels <= 128]
    if draw > 0.85 and narrow:
        other = rng.choice(narrow)
        unread.pop(other.name, None)
        return g.concat([y, other], f"concat{k}")
    return y
