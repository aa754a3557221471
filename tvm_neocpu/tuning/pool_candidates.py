"""Layers of a network that one function may compute together with the pool behind them.

The pool is no node of the graph: such a group has one member, the layer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, Sweep, SweepKind
from tvm_neocpu.core.network.layer_group import GroupCandidate, GroupNode, LayerGroup
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.pool_cost import best_group, saved_share, workload_of
from tvm_neocpu.topi.sweep.geometry import SweepConfig
from tvm_neocpu.topi.sweep.workload import SweepWorkload


def pool_groups_of(
    graph: ConvGraph,
    candidates: Mapping[Workload, Sequence[Candidate]],
    cpu: Cpu,
    others: Collection[str],
) -> Iterator[GroupNode]:
    """The groups for the layout problem, under those schemes with which they may gain.

    Those within the model's error cost time there: the search does not take them, but a tuned plan
    may have them. ``others``: nodes that are members of other groups already.
    """
    for node, pool in _pooled(graph):
        assert isinstance(node.workload, ConvWorkload)
        offered = [] if node.id in others else _offered(node.workload, pool, candidates, cpu)
        if offered:
            yield GroupNode((node.id,), tuple(offered))


def planned_pool_groups(
    graph: ConvGraph,
    configs: Mapping[str, Config],
    cpu: Cpu,
    others: Collection[str],
    doubtful: bool = False,
) -> Iterator[LayerGroup]:
    """The groups that the cost model finds faster under a plan's configs.

    With ``doubtful``, to be measured, those too whose gain lies within the model's error.
    """
    for node, pool in _pooled(graph):
        config = configs.get(node.id)
        if config is None or node.id in others:
            continue
        assert isinstance(node.workload, ConvWorkload)
        layer = Member(node.workload, config)
        group = best_group(layer, pool, cpu)
        if group is not None and (doubtful or saved_share(layer, group, pool, cpu) > 0):
            yield LayerGroup((node.id,), group.rows)


def pool_behind(
    workload: Workload, config: Config, graph: ConvGraph
) -> tuple[SweepWorkload, SweepConfig] | None:
    """The pool of a group of one layer as a scheme of its own."""
    for node, pool in _pooled(graph):
        if node.workload == workload:
            return workload_of(Member(node.workload, config), pool), SweepConfig()  # type: ignore[arg-type]
    return None


def _offered(
    conv: ConvWorkload,
    pool: Sweep,
    candidates: Mapping[Workload, Sequence[Candidate]],
    cpu: Cpu,
) -> list[GroupCandidate]:
    found = []
    for scheme in candidates[conv]:
        layer = Member(conv, scheme.config)
        group = best_group(layer, pool, cpu)
        if group is not None:
            gain = saved_share(layer, group, pool, cpu) * scheme.seconds
            found.append(GroupCandidate((scheme.config,), group.rows, gain))
    return found


def _pooled(graph: ConvGraph) -> Iterator[tuple[GraphNode, Sweep]]:
    """Every convolution that just a pool reads, and the pool."""
    for node in graph.convs:
        reading = [sweep for sweep in node.sweeps if node.out_shape in sweep.inputs]
        if len(reading) != 1 or reading[0].kind is not SweepKind.POOL:
            continue
        pool = reading[0]
        alone = all(edge.shape != node.out_shape for edge in graph.edges if edge.src == node.id)
        is_conv = isinstance(node.workload, ConvWorkload)
        if is_conv and alone and pool.window is not None and pool.inputs == (node.out_shape,):
            yield node, pool
