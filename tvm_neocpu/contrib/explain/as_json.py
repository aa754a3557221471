"""An explanation as JSON, for programs and for the page's script."""

from __future__ import annotations

import math
from typing import Any

from tvm_neocpu.contrib.explain import words
from tvm_neocpu.contrib.explain.explained_network import ExplainedNetwork
from tvm_neocpu.core.messages.fallback import Fallback, Fixed
from tvm_neocpu.core.network.config import knobs
from tvm_neocpu.core.network.conv_graph import GraphNode
from tvm_neocpu.global_search.network.explain import Explanation, GroupRow, NodeRow, TransformRow
from tvm_neocpu.global_search.network.layout_graph import Option
from tvm_neocpu.version import __version__


def as_json(network: ExplainedNetwork) -> dict[str, Any]:
    """All figures of an explanation; times in seconds.

    The time of another network is null if that network is impossible or was not priced in time.
    The network's own time is null if the plan covers none of its operations; the time of each of
    ``fallbacks``, which the plan does not cover, is always null. Those of ``fixed``, which are
    computed in one way only, are in ``planned_share``, the bound and the times of all networks.
    """
    found, fixed = network.explanation, network.coverage.fixed_seconds
    return {
        "network": network.name,
        "graph": found.graph.hash,
        "cpu": network.cpu,
        "threads": network.threads,
        "origin": network.origin,
        "package": __version__,
        "seconds": network.seconds if network.is_planned else None,
        "planned_share": network.coverage.share,
        "lower_bound": found.lower_bound + fixed if network.is_planned else None,
        "optimal": found.optimal and network.is_planned,
        "method": found.method,
        "greedy_seconds": _finite(found.greedy_seconds, fixed),
        "nodes": [_node(row, network) for row in found.nodes],
        "transforms": [_transform(row, fixed) for row in found.transforms],
        "groups": [_group(row, fixed) for row in found.groups],
        "fixed": [_fixed(each) for each in network.coverage.fixed],
        "fallbacks": [_fallback(each) for each in network.coverage.fallbacks],
        "notes": list(network.notes),
    }


def _node(row: NodeRow, network: ExplainedNetwork) -> dict[str, Any]:
    found, fixed = network.explanation, network.coverage.fixed_seconds
    return {
        "id": row.node.id,
        "kind": row.node.kind.value,
        "label": row.node.label,
        "onnx_node": network.names.get(row.node.id),
        "shape": list(row.node.out_shape),
        "candidates": row.candidates,
        **_option(row.node, row.option, found),
        "alternatives": [
            {
                **_option(row.node, other.option, found),
                "network_seconds": _finite(other.network_seconds, fixed),
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


def _transform(row: TransformRow, fixed: float) -> dict[str, Any]:
    return {
        "source": row.source.id,
        "targets": [target.id for target in row.targets],
        "shape": list(row.shape),
        "before": str(row.before),
        "after": str(row.after),
        "seconds": row.seconds,
        "if_source_seconds": _finite(row.if_source, fixed),
        "if_targets_seconds": _finite(row.if_targets, fixed),
    }


def _group(row: GroupRow, fixed: float) -> dict[str, Any]:
    return {
        "nodes": [node.id for node in row.members],
        "rows": row.rows,
        "run": row.run,
        "gain_seconds": row.gain,
        "if_apart_seconds": _finite(row.if_apart, fixed),
    }


def _fixed(fixed: Fixed) -> dict[str, Any]:
    return {
        "operator": fixed.operator,
        "sizes": fixed.what,
        "algorithm": fixed.algorithm,
        "flops": fixed.flops,
        "seconds": fixed.seconds,
    }


def _fallback(fallback: Fallback) -> dict[str, Any]:
    return {
        "operator": fallback.operator,
        "shapes": fallback.what,
        "why": fallback.why,
        "flops": fallback.flops,
        "seconds": None,
    }


def _finite(seconds: float | None, fixed: float) -> float | None:
    """A network's time with its ``fixed`` operations; ``None`` if unknown or impossible."""
    return None if seconds is None or math.isinf(seconds) else seconds + fixed
