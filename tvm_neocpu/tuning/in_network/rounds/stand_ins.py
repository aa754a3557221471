"""Plans for timing: one new config for each workload, in a network without layout transforms.

A layout changes in which order bytes are read, not how many there are. So the network of such a
plan takes a view where a real one would transform, computes nonsense, and every layer in it runs
with its true neighbours, caches, residuals and threads: one run times a candidate of every
workload.

A view between a convolution and what is fused with it would end the fusion, so those are *tied*: a
join and the convolutions that read it have one layout, the first convolution that a join adds up
writes it, and joins that read each other have it too::

    conv a -> add -> conv b      a writes, b reads the layout of the add
    conv c ---^                  c writes whatever it likes: a view follows

A layout that does not fit the join ties nothing: no network has it on both sides, so that a
transform stands there in a real one too. SqueezeNet's last convolution writes 1008 channels, 48 at
a time, of which a join keeps 1000.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload

# What the first choice of a round comes from: configs of one workload, the most wanted first.
Wishes = Mapping[Workload, Sequence[Config]]


@dataclass(frozen=True)
class Ends:
    """The tied sets that one convolution's input and output belong to; ``None`` for a free end."""

    reads: int | None
    writes: int | None


class StandIns:
    """Makes the plans of rounds: every wish that fits those before it, the known best elsewhere."""

    def __init__(self, graph: ConvGraph) -> None:
        self._graph = graph
        self._ties = _Ties(graph)

    @property
    def convs(self) -> tuple[GraphNode, ...]:
        """The convolutions of the network."""
        return self._graph.convs

    @cached_property
    def ends(self) -> Mapping[Workload, frozenset[Ends]]:
        """Where the convolutions of each workload are tied."""
        found: dict[Workload, set[Ends]] = {}
        for node in self._graph.convs:
            assert node.workload is not None
            found.setdefault(node.workload, set()).add(self._ties.ends(node))
        return {workload: frozenset(ends) for workload, ends in found.items()}

    def can_time(self, workload: Workload, config: Config) -> bool:
        """Whether a stand-in can have the config: it must not give one tied set two layouts.

        A residual block's convolution that reads 8c and writes 16c would do so.
        """
        return self._asked(workload, config) is not None

    def can_time_all(self, workload: Workload) -> bool:
        """Whether :meth:`can_time` holds for every config: no set is read and written."""
        ends = self.ends[workload]
        read, written = ({getattr(end, side) for end in ends} for side in ("reads", "writes"))
        return not (read & written) - {None}

    def plan(self, incumbent: Plan, wishes: Wishes, spares: Wishes) -> tuple[Plan, set[Workload]]:
        """A plan with at most one config of each workload, and the workloads that got a wish.

        ``wishes`` are in order of importance. A workload without a wish that fits takes the first
        of its ``spares`` that does, so ``spares`` should have something for every layout pair;
        where nothing fits, the layouts that were chosen are given up for its first spare.
        """
        layouts: dict[int, Layout] = {}
        chosen: dict[Workload, Config] = {}
        for workload, configs in wishes.items():
            self._take(workload, configs, layouts, chosen)
        granted = set(chosen)
        for workload in self._graph.workloads:
            if workload in chosen or self._take(workload, spares[workload], layouts, chosen):
                continue
            chosen[workload] = spares[workload][0]
        at_nodes = {n.id: chosen[n.workload] for n in self._graph.convs if n.workload is not None}
        joins = {
            node.id: layouts.get(self._ties.of_join(node), incumbent.joins.get(node.id, Layout(0)))
            for node in self._graph.nodes
            if node.kind is NodeKind.JOIN
        }
        return replace(incumbent, configs=at_nodes, joins=joins, method="stand-ins"), granted

    def _take(
        self,
        workload: Workload,
        configs: Sequence[Config],
        layouts: dict[int, Layout],
        chosen: dict[Workload, Config],
    ) -> bool:
        """Choose the first config whose layouts agree with the tied sets; whether there is one."""
        for config in configs:
            asked = self._asked(workload, config)
            if asked is None or any(layouts.get(key, fit) != fit for key, fit in asked.items()):
                continue
            layouts |= asked
            chosen[workload] = config
            return True
        return False

    def _asked(self, workload: Workload, config: Config) -> dict[int, Layout] | None:
        """The layouts that a config gives to the tied sets that they fit; ``None`` if it gives one
        set two."""
        before, after = layouts_of(config)
        asked: dict[int, Layout] = {}
        for ends in self.ends[workload]:
            for key, layout in ((ends.reads, before), (ends.writes, after)):
                if key is None or not self._ties.fits(key, layout):
                    continue
                if asked.setdefault(key, layout) != layout:
                    return None
        return asked


class _Ties:
    """Sets of joins that share one layout, and the ends of convolutions that share it."""

    def __init__(self, graph: ConvGraph) -> None:
        self._joins = sorted(graph.joins)
        self._parent = {join: join for join in self._joins}
        self._reads: dict[str, str] = {}
        for edge in graph.edges:
            source, target = graph.by_id[edge.src], graph.by_id[edge.dst]
            if source.kind is NodeKind.JOIN and target.kind is NodeKind.JOIN:
                self._parent[self._root(edge.src)] = self._root(edge.dst)
            elif source.kind is NodeKind.JOIN and target.kind is NodeKind.CONV:
                self._reads[edge.dst] = edge.src
        first: dict[str, str] = {}
        order = {node.id: position for position, node in enumerate(graph.nodes)}
        for edge in sorted(graph.edges, key=lambda edge: order[edge.src]):
            if edge.dst in self._parent and graph.by_id[edge.src].kind is NodeKind.CONV:
                first.setdefault(edge.dst, edge.src)
        self._writes = {conv: join for join, conv in first.items()}
        self._numbers = {join: number for number, join in enumerate(self._joins)}
        self._channels: dict[int, set[int]] = {}
        for join in self._joins:
            channels = graph.by_id[join].join_channels
            self._channels.setdefault(self._set(join), set()).update(channels)

    def ends(self, node: GraphNode) -> Ends:
        """The tied sets of a convolution's two ends."""
        reads, writes = self._reads.get(node.id), self._writes.get(node.id)
        return Ends(
            None if reads is None else self._set(reads),
            None if writes is None else self._set(writes),
        )

    def of_join(self, node: GraphNode) -> int:
        """The tied set of a join."""
        return self._set(node.id)

    def fits(self, tied: int, layout: Layout) -> bool:
        """Whether a layout divides the channels of every join in the set."""
        return all(layout.fits(channels) for channels in self._channels[tied])

    def _set(self, join: str) -> int:
        return self._numbers[self._root(join)]

    def _root(self, join: str) -> str:
        while self._parent[join] != join:
            join = self._parent[join]
        return join
