"""An explanation as JSON, for programs and for the page's script."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tvm_neocpu.contrib.explain import words
from tvm_neocpu.contrib.explain.explained_network import ExplainedNetwork
from tvm_neocpu.core.config import knobs
from tvm_neocpu.core.conv_graph import GraphNode
from tvm_neocpu.core.fallback import Fallback
from tvm_neocpu.global_search.network.explain import Explanation, GroupRow, NodeRow, TransformRow
from tvm_neocpu.global_search.network.layout_graph import Option
from tvm_neocpu.version import __version__


def as_json(network: ExplainedNetwork) -> dict[str, Any]:
    """All figures of an explanation; times in seconds.

    The time of another network is null if that network is impossible or was not priced in time.
    The network's own time is null if the plan covers none of its operations; the time of each of
    ``fallbacks``, which the plan does not cover, is always null.
    """
    found = network.explanation
    return {
        "network": network.name,
        "graph": found.graph.hash,
        "cpu": network.cpu,
        "threads": network.threads,
        "origin": network.origin,
        "package": __version__,
        "seconds": found.seconds if network.is_planned else None,
        "planned_share": network.coverage.share,
        "lower_bound": found.lower_bound if network.is_planned else None,
        "optimal": found.optimal and network.is_planned,
        "method": found.method,
        "greedy_seconds": found.greedy_seconds,
        "nodes": [_node(row, found, network.names) for row in found.nodes],
        "transforms": [_transform(row) for row in found.transforms],
        "groups": [_group(row) for row in found.groups],
        "fallbacks": [_fallback(each) for each in network.coverage.fallbacks],
        "notes": list(network.notes),
    }


def _node(row: NodeRow, found: Explanation, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": row.node.id,
        "kind": row.node.kind.value,
        "label": row.node.label,
        "onnx_node": names.get(row.node.id),
        "shape": list(row.node.out_shape),
        "candidates": row.candidates,
        **_option(row.node, row.option, found),
        "alternatives": [
            {
                **_option(row.node, other.option, found),
                "network_seconds": _finite(other.network_seconds),
            }
            for other in row.alternatives
        ],
    }


def _option(node: GraphNode, option: Option, found: Explanation) -> dict[str, Any]:
    config = option.config
    return {
        "algorithm": words.algorithm(node, option),
        "template": config.template if config else None,
        "config": knobs(config) if config else None,
        "schedule": words.schedule(config),
        "reads": str(option.reads),
        "writes": str(option.writes),
        "seconds": option.seconds,
        "sweep_seconds": option.sweeps,
        "measured": found.is_measured(node, option),
    }


def _transform(row: TransformRow) -> dict[str, Any]:
    return {
        "source": row.source.id,
        "targets": [target.id for target in row.targets],
        "shape": list(row.shape),
        "before": str(row.before),
        "after": str(row.after),
        "seconds": row.seconds,
        "if_source_seconds": _finite(row.if_source),
        "if_targets_seconds": _finite(row.if_targets),
    }


def _group(row: GroupRow) -> dict[str, Any]:
    return {
        "nodes": [node.id for node in row.members],
        "rows": row.rows,
        "run": row.run,
        "gain_seconds": row.gain,
        "if_apart_seconds": _finite(row.if_apart),
    }


def _fallback(fallback: Fallback) -> dict[str, Any]:
    return {
        "operator": fallback.operator,
        "shapes": fallback.what,
        "why": fallback.why,
        "flops": fallback.flops,
        "seconds": None,
    }


def _finite(seconds: float | None) -> float | None:
    return None if seconds is None or math.isinf(seconds) else seconds
