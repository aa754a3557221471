"""An experiment as JSON: every figure absolute and relative to no fusion in file order."""

from __future__ import annotations

from typing import Any

from tvm_neocpu.contrib.schedule.experiment import Experiment, Memory, Row


def as_json(found: Experiment) -> dict[str, Any]:
    """Cycles, bytes, ratios; the groups of the cheapest row by the ids of their nodes."""
    best = found.best
    ids = [node.id for node in found.graph.nodes]
    return {
        "network": found.network,
        "machine": found.machine,
        "nodes": len(found.graph),
        "macs": sum(node.macs for node in found.graph.nodes),
        "buffer_bytes": found.capacity,
        "boundaries": dict(found.boundaries),
        "in_pieces": dict(found.in_pieces),
        "seconds": round(found.seconds, 2),
        "rows": [_row(found, row) for row in found.rows],
        "memory": [_memory(each) for each in found.memory],
        "best": {
            "partitioner": best.partitioner,
            "order": best.order,
            "groups": [
                {
                    "nodes": [ids[node] for node in group],
                    "cycles": price.cycles,
                    "dram_bytes": price.dram_bytes,
                    "buffer_bytes": price.buffer_bytes,
                    "tiles": price.tiles,
                    "keeps_weights": price.keeps_weights,
                }
                for group, price in zip(best.groups, best.prices, strict=True)
            ],
        },
    }


def _row(found: Experiment, row: Row) -> dict[str, Any]:
    base = found.baseline
    return {
        "partitioner": row.partitioner,
        "order": row.order,
        "groups": len(row.groups),
        "cycles": round(row.cycles, 1),
        "dram_bytes": round(row.dram_bytes, 1),
        "peak_buffer_bytes": round(row.peak_bytes, 1),
        "cycles_to_no_fusion": _ratio(row.cycles, base.cycles),
        "dram_to_no_fusion": _ratio(row.dram_bytes, base.dram_bytes),
        "peak_to_no_fusion": _ratio(row.peak_bytes, base.peak_bytes),
        "utilisation": round(found.utilisation(row), 4),
        "evaluations": row.evaluations,
        "seconds": round(row.seconds, 3),
    }


def _memory(each: Memory) -> dict[str, Any]:
    return {
        "order": each.order,
        "largest_live_set": max(each.alive, default=0),
        "allocators": dict(each.sizes),
    }


def _ratio(value: float, base: float) -> float:
    return round(value / base, 4) if base else 1.0
