"""The TVM-free picture of a network: what chooses a layout, and which tensors flow between."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from tvm_neocpu.core.network.workload import Workload

Shape4 = tuple[int, int, int, int]


def shape4(shape: Sequence[int]) -> Shape4:
    """The first four axes, and axes of one element in the place of those that are not there."""
    padded = (*shape, 1, 1, 1, 1)[:4]
    return (padded[0], padded[1], padded[2], padded[3])


class NodeKind(str, Enum):
    """Who decides a layout (NeoCPU, section 3.2).

    A convolution chooses; a join (add, multiply, concat) forces its inputs into one layout; a
    boundary (graph input or output, layout-dependent operation) knows plain NCHW only.
    """

    CONV = "conv"
    JOIN = "join"
    BOUNDARY = "boundary"


class SweepKind(str, Enum):
    """What a sweep does with each element: a window's max or sum, a sum over the image, a copy."""

    POOL = "pool"
    REDUCE = "reduce"
    MOVE = "move"


@dataclass(frozen=True)
class RowWindow:
    """Row ``y`` of an output reads ``taps`` rows, the first of them ``y * stride - before``."""

    taps: int
    stride: int
    before: int


@dataclass(frozen=True)
class Sweep:
    """A call without a template that reads and writes feature maps in one layout.

    A pool, a mean over the image, a concat or slice that copies, an addition that no convolution
    takes along. ``inputs`` and ``output`` are logical (N, C, H, W); ``taps`` elements are read for
    one of the output, from the rows that a pool's ``window`` says.
    """

    kind: SweepKind
    inputs: tuple[Shape4, ...]
    output: Shape4
    taps: int = 1
    dtype: str = "float32"
    window: RowWindow | None = None


@dataclass(frozen=True)
class GraphNode:
    """``id`` is stable: a hash of the operation and of everything upstream of it.

    ``out_shape`` is the logical (N, C, H, W) it produces. A join lists in ``join_channels`` the
    channel counts that its block must divide (a concat's inputs, else the one common count).

    ``sweeps`` run on what the node writes, in its layout: its own one, of a join, and those of the
    operations that follow it. ``read_sweeps`` make what a convolution reads; a template that
    computes its input as it reads takes them along, others need them as calls of their own.
    """

    id: str
    kind: NodeKind
    label: str
    out_shape: Shape4
    workload: Workload | None = None
    join_channels: tuple[int, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    read_sweeps: tuple[Sweep, ...] = ()


# What tensors consist of unless an edge says otherwise.
FLOAT = "float32"


@dataclass(frozen=True)
class GraphEdge:
    """A tensor from ``src`` to ``dst``; ``shape`` is its logical size where a transform would sit.

    ``tensor`` names the tensor: edges that share it share the cost of one and the same transform.
    ``dtype`` is the type of its elements.
    """

    src: str
    dst: str
    shape: Shape4
    tensor: str
    dtype: str = FLOAT


@dataclass(frozen=True)
class ConvGraph:
    """Nodes in topological order and the edges between them.

    ``flows`` are pairs of nodes of which one uses the other's result without a layout to decide: a
    dense layer's row, say. They are drawn, and nothing else.
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    flows: tuple[tuple[str, str], ...] = ()

    @cached_property
    def by_id(self) -> Mapping[str, GraphNode]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def hash(self) -> str:
        """Sixteen hex digits over node identities and edges: equal networks, equal hashes."""
        nodes = sorted(node.id for node in self.nodes)
        edges = sorted(f"{edge.src}>{edge.dst}:{edge.shape}" for edge in self.edges)
        return hashlib.sha256("\n".join([*nodes, *edges]).encode()).hexdigest()[:16]

    @cached_property
    def joins(self) -> frozenset[str]:
        """The identities of the joins."""
        return frozenset(node.id for node in self.nodes if node.kind is NodeKind.JOIN)

    @cached_property
    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """Every node's direct predecessors, one for each edge."""
        found: dict[str, list[str]] = {node.id: [] for node in self.nodes}
        for edge in self.edges:
            found[edge.dst].append(edge.src)
        return {node: tuple(others) for node, others in found.items()}

    @cached_property
    def neighbours(self) -> Mapping[str, frozenset[str]]:
        """Every node's direct predecessors and successors."""
        near: dict[str, set[str]] = {node.id: set() for node in self.nodes}
        for edge in self.edges:
            near[edge.src].add(edge.dst)
            near[edge.dst].add(edge.src)
        return {node: frozenset(others) for node, others in near.items()}

    @property
    def convs(self) -> tuple[GraphNode, ...]:
        return tuple(node for node in self.nodes if node.kind is NodeKind.CONV)

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Distinct workloads in order of first appearance: the tuning tasks."""
        return tuple(dict.fromkeys(n.workload for n in self.nodes if n.workload is not None))
