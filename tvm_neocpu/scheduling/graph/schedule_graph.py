"""The graph that is scheduled: operations, the tensor that each makes, who reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from tvm_neocpu.core.errors import ScheduleError

Pair = tuple[int, int]


class OpKind(str, Enum):
    """What a profiler must know of an operation.

    A boundary is an operation that no profiler knows: nothing fuses across it. A movement
    (concat, slice, transpose of channels) computes nothing.
    """

    INPUT = "input"
    CONV = "conv"
    POOL = "pool"
    ELEMENTWISE = "elementwise"
    MOVEMENT = "movement"
    BOUNDARY = "boundary"


@dataclass(frozen=True)
class Window:
    """The pixels of its input that one output pixel needs, in (height, width)."""

    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)  # at the upper and left side
    dilation: Pair = (1, 1)
    # Output rows for each input row of a transposed convolution or an enlargement.
    upscale: int = 1

    @property
    def rows(self) -> int:
        """Input rows that one output row needs; of an enlarged image, rows of the result."""
        return (self.kernel[0] - 1) * self.dilation[0] + 1

    def rows_for(self, rows: int) -> int:
        """Input rows that a band of ``rows`` output rows needs, halo included."""
        return ((rows - 1) * self.stride[0] + self.rows - 1) // self.upscale + 1


@dataclass(frozen=True)
class ScheduleNode:
    """One operation and the tensor that it makes; ``work_bytes`` it needs only while it runs.

    ``shape`` is (channels, height, width) of the tensor, all images of a batch side by side.
    ``in_channels`` counts all groups. A node is global if each output row needs every input row.
    """

    id: str
    label: str
    kind: OpKind
    out_bytes: int
    macs: int = 0
    weight_bytes: int = 0
    work_bytes: int = 0
    shape: tuple[int, int, int] = (1, 1, 1)
    in_channels: int = 1
    groups: int = 1
    window: Window = field(default_factory=Window)
    is_global: bool = False

    @property
    def rows(self) -> int:
        return self.shape[1]

    @property
    def row_bytes(self) -> float:
        return self.out_bytes / self.rows


@dataclass(frozen=True)
class ScheduleGraph:
    """Nodes in file order, which is topological; edges as pairs of ids; ids of the outputs.

    What nobody reads is an output too. Algorithms speak of nodes by their place in ``nodes``.
    Raises ScheduleError if ids repeat, an edge names no node or goes backwards, or sizes are
    negative.
    """

    nodes: tuple[ScheduleNode, ...]
    edges: tuple[tuple[str, str], ...]
    outputs: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if len(self.place) < len(self.nodes):
            raise ScheduleError("two nodes of a schedule graph have the same id")
        for name in (*(name for edge in self.edges for name in edge), *self.outputs):
            if name not in self.place:
                raise ScheduleError(f"an edge or output names {name!r}, which is no node")
        for source, target in self.edges:
            if self.place[source] >= self.place[target]:
                raise ScheduleError(f"{source!r} -> {target!r} goes against the order of the nodes")
        for node in self.nodes:
            sizes = (node.out_bytes, node.macs, node.weight_bytes, node.work_bytes)
            if min(sizes) < 0 or min(node.shape) < 1:
                raise ScheduleError(f"node {node.id!r} has a negative size or an empty shape")

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def place(self) -> Mapping[str, int]:
        return {node.id: at for at, node in enumerate(self.nodes)}

    @cached_property
    def preds(self) -> tuple[tuple[int, ...], ...]:
        """The nodes that each node reads, each once, ascending."""
        before: list[set[int]] = [set() for _ in self.nodes]
        for source, target in self.edges:
            before[self.place[target]].add(self.place[source])
        return tuple(tuple(sorted(found)) for found in before)

    @cached_property
    def succs(self) -> tuple[tuple[int, ...], ...]:
        """The nodes that read each node, each once, ascending."""
        after: list[list[int]] = [[] for _ in self.nodes]
        for target, sources in enumerate(self.preds):
            for source in sources:
                after[source].append(target)
        return tuple(map(tuple, after))

    @cached_property
    def is_output(self) -> tuple[bool, ...]:
        return tuple(
            node.id in self.outputs or not readers
            for node, readers in zip(self.nodes, self.succs, strict=True)
        )

    def is_order(self, order: Sequence[int]) -> bool:
        """Whether the order has every node once, each behind all that it reads."""
        at = {node: step for step, node in enumerate(order)}
        return sorted(order) == list(range(len(self))) and all(
            at[source] < at[target] for target in at for source in self.preds[target]
        )
