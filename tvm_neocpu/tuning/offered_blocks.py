"""Blocks of no whole vectors in which a convolution's data come, since a concat has no others.

A concat of 24 and 24 channels is stored in blocks of 24 or 8. What reads its 48 channels would
choose blocks of 16 or 48, and a transform would copy the image (GhostNet at 640x640, Zen 4, one
thread: 2.6 ms of 49 for one such image of 20 MB).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.core.network.workload import Workload

# Blocks that are offered for one concat: the widest ones.
MOST = 2


def offered_blocks(graph: ConvGraph, cpu: Cpu) -> dict[Workload, frozenset[int]]:
    """By workload, the blocks that joins in front of it offer; workloads without any are left out.

    Such a join's parts have no common block of whole vectors. Other joins pass its blocks on.
    """
    offers: dict[str, frozenset[int]] = {}
    found: dict[Workload, frozenset[int]] = {}
    for node in graph.nodes:
        arriving = _union(offers.get(source, frozenset()) for source in graph.sources[node.id])
        if node.id in graph.joins:
            offers[node.id] = arriving | _of_join(node, cpu)
        elif node.workload is not None and arriving:
            found[node.workload] = found.get(node.workload, frozenset()) | arriving
    return found


def _union(parts: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*parts)


def _of_join(node: GraphNode, cpu: Cpu) -> frozenset[int]:
    """Blocks of half vectors that divide all parts, where whole ones do not.

    They are the slower the more is computed: the cost model knows that.
    """
    unit, common = cpu.unit("float32"), math.gcd(*node.join_channels)
    if common % unit.lanes == 0:  # 0: a join that says nothing of channels
        return frozenset()
    blocks = [b for b in factors(common) if b % unit.half_lanes == 0 and b <= 4 * unit.lanes]
    return frozenset(blocks[-MOST:])
