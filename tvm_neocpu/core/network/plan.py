"""What the global search decided: a config for every convolution, a layout for every join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.layer_group import GroupBands, LayerGroup, Members
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.workload import Workload

# The method of a plan that a session wrote at its start: what builds took then, proven by nobody.
HELD = "as built before tuning"


@dataclass(frozen=True)
class Plan:
    """``configs`` and ``joins`` are keyed by :class:`GraphNode` id; ``graph`` is the graph's hash.

    ``seconds`` is the predicted time of its convolutions, sweeps and transforms, less what groups
    gain; ``lower_bound`` what no plan over the same candidates could undercut. ``groups`` are
    layers that one function computes; ``None``, as in plans of older logs: nobody has decided.
    """

    graph: str
    configs: Mapping[str, Config]
    joins: Mapping[str, Layout] = field(default_factory=dict)
    seconds: float = 0.0
    lower_bound: float = 0.0
    method: str = "greedy"
    groups: tuple[LayerGroup, ...] | None = None

    def by_layout(self, graph: ConvGraph) -> dict[tuple[Workload, Layout, Layout], Config]:
        """(workload, input layout, output layout) -> config: all that lowering has to know."""
        workloads = {node.id: node.workload for node in graph.convs}
        return {
            (workload, *layouts_of(config)): config
            for id, config in self.configs.items()
            if (workload := workloads.get(id)) is not None
        }

    def group_bands(self, graph: ConvGraph) -> GroupBands:
        """The groups as lowering has to know them."""
        named = ((self.members_of(group, graph), group.bands) for group in self.groups or ())
        return {members: bands for members, bands in named if members is not None}

    def members_of(self, group: LayerGroup, graph: ConvGraph) -> Members | None:
        """What the layers of a group compute; ``None`` where graph or plan lack one."""
        found = []
        for member in group.members:
            node, config = graph.by_id.get(member), self.configs.get(member)
            if node is None or node.workload is None or config is None:
                return None
            found.append((node.workload, config))
        return tuple(found)

    @property
    def held(self) -> bool:
        """Whether nobody proved it: another log's plan counts more, records count less."""
        return self.method == HELD

    @property
    def optimal(self) -> bool:
        return self.seconds <= self.lower_bound * (1 + 1e-6) + 1e-12
