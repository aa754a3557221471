"""Schemes for a network at another shape that read the same packed weights as a given plan.

A file of several specialisations stores equal constants once. Batch and image size do not enter a
weight's packing, but the search may pick other blocks, or another Winograd tile, for another shape.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.candidate import Candidate, layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Operand, Role, Workload
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.table import implementation_of

Schemes = dict[Workload, tuple[Candidate, ...]]


def sharing_schemes(
    graph: ConvGraph,
    model: tuple[ConvGraph, Plan],
    candidates: Mapping[Workload, Sequence[Candidate]],
    cpu: Cpu,
) -> Schemes | None:
    """For each workload the fastest scheme with each packing and layout that ``model`` gave it.

    ``model`` is the same network at another shape, with its plan; ``candidates`` are the schemes of
    ``graph`` without this limit. ``None`` where the networks differ, or where a config of the plan
    has no counterpart.
    """
    wanted: dict[Workload, dict[Config, Candidate]] = defaultdict(dict)
    nodes = list(zip(model[0].convs, graph.convs, strict=False))
    if len(nodes) != len(graph.convs) or len(nodes) != len(model[0].convs):
        return None
    for ours, theirs in ((node, twin) for twin, node in nodes):
        assert ours.workload is not None and theirs.workload is not None
        config = model[1].configs.get(theirs.id)
        if config is None or _weights(ours.workload) != _weights(theirs.workload):
            return None
        if config in wanted[ours.workload]:
            continue
        found = _counterpart(ours.workload, theirs.workload, config, candidates[ours.workload], cpu)
        if found is None:
            return None
        wanted[ours.workload][config] = found
    return {workload: tuple(found.values()) for workload, found in wanted.items()}


def _weights(workload: Workload) -> tuple[type[Workload], tuple[Operand, ...]]:
    operands = (operand for operand in workload.operands if operand.role is Role.WEIGHT)
    return type(workload), tuple(operands)


def _counterpart(
    workload: Workload,
    twin: Workload,
    config: Config,
    candidates: Sequence[Candidate],
    cpu: Cpu,
) -> Candidate | None:
    """The fastest scheme with the packing and the layouts that ``config`` has for ``twin``."""
    entry = implementation_of(config)
    if not entry.accepts(workload, cpu):
        return None
    packed = None if entry.packed_shape is None else entry.packed_shape(twin, config)

    def is_alike(other: Config) -> bool:
        if other.template != config.template or layouts_of(other) != layouts_of(config):
            return False
        return entry.packed_shape is None or entry.packed_shape(workload, other) == packed

    known = [candidate for candidate in candidates if is_alike(candidate.config)]
    others = known or [
        Candidate(other, predict_seconds(workload, other, cpu))
        for other in entry.space(workload, cpu)
        if is_alike(other)
    ]
    return min(others, key=lambda candidate: candidate.seconds, default=None)
