"""What the global search decided: a config for every convolution, a layout for every join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_neocpu.core.candidate import layouts_of
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.layer_group import GroupRows, LayerGroup
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.workload import Workload


@dataclass(frozen=True)
class Plan:
    """``configs`` and ``joins`` are keyed by :class:`GraphNode` id; ``graph`` is the graph's hash.

    ``seconds`` is the predicted time of the convolutions and transforms it pays for;
    ``lower_bound`` what no plan over the same candidates could undercut. ``groups`` are layers that
    one function computes; ``None``, as in plans of older logs: nobody has decided.
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

    def group_rows(self, graph: ConvGraph) -> GroupRows:
        """The groups as lowering has to know them."""
        schemes = {
            node.id: (node.workload, self.configs[node.id])
            for node in graph.convs
            if node.workload is not None and node.id in self.configs
        }
        return {
            tuple(schemes[member] for member in group.members): group.rows
            for group in self.groups or ()
            if schemes.keys() >= set(group.members)
        }

    @property
    def optimal(self) -> bool:
        return self.seconds <= self.lower_bound * (1 + 1e-6) + 1e-12
