"""What the records command shows of logs, as rows of plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import knobs
from tvm_neocpu.core.network.record import IN_NETWORK
from tvm_neocpu.core.network.verdict import Verdict
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.table import implementation_of
from tvm_neocpu.tuning.database.best_records import BestRecords
from tvm_neocpu.tuning.database.indexed_log import IndexedLog
from tvm_neocpu.tuning.database.lines.plan_lines import PlanKey
from tvm_neocpu.tuning.database.lines.staleness import is_current

Row = dict[str, Any]


def network_rows(logs: Sequence[IndexedLog]) -> list[Row]:
    """One row for each network, CPU and thread count that has a plan or a verdict."""
    verdicts = {
        PlanKey(verdict.graph, verdict.cpu, verdict.threads): verdict
        for log in logs
        for verdict in log.verdicts
    }
    keys = dict.fromkeys([*(key for log in logs for key in sorted(log.plan_keys)), *verdicts])
    rows = []
    for key in keys:
        plan = next((p for log in reversed(logs) if (p := log.plan(key)) is not None), None)
        verdict = verdicts.get(key)
        rows.append(
            {
                "network": verdict.network if verdict and verdict.network else None,
                "graph": key.graph,
                "CPU": key.cpu,
                "threads": key.threads,
                "plan, ms": plan.seconds * 1e3 if plan else None,
                "method": plan.method if plan else None,
                "verdict": _words(verdict) if verdict else None,
            }
        )
    return rows


def workload_rows(logs: Sequence[IndexedLog]) -> list[Row]:
    """One row for each workload, CPU and thread count: how many lines it has, if it is settled."""
    counts: dict[tuple[Workload, str, int], int] = {}
    settled: dict[tuple[Workload, str, int], float] = {}
    for log in logs:
        for key, count in log.counts().items():
            counts[key] = counts.get(key, 0) + count
        for each in log.settled:
            if is_current(each):
                settled[each.workload, each.cpu, each.threads] = each.noise
    return [
        {
            "workload": str(workload),
            "CPU": cpu,
            "threads": threads,
            "records": count,
            "settled within": f"{settled[key]:.1%}" if key in settled else None,
        }
        for key, count in counts.items()
        for workload, cpu, threads in [key]
    ]


def best_rows(logs: Sequence[IndexedLog], cpu: Cpu, threads: int | None) -> tuple[list[Row], int]:
    """(the best record of each workload and thread count, workloads with stale or failed ones
    only)."""
    counts = {count for log in logs for name, count in log.machines if name == cpu.name}
    rows: list[Row] = []
    known: set[Workload] = set()
    recorded: set[Workload] = set()
    for count in sorted(counts if threads is None else {threads}):
        best = BestRecords.of_sources(logs, cpu.name, count, cpu.features)
        recorded.update(best.recorded)
        for workload in best.workloads:
            record = best.best(workload)
            assert record is not None
            known.add(workload)
            config = record.config
            rows.append(
                {
                    "workload": str(workload),
                    "threads": count,
                    "ms": record.seconds * 1e3,
                    "GFLOP/s": record.gflops,
                    "algorithm": implementation_of(config).describe(workload, config),
                    "config": ", ".join(f"{k}={v}" for k, v in knobs(config).items()),
                    "measured": "in the network" if record.protocol == IN_NETWORK else "alone",
                }
            )
    return rows, len(recorded - known)


def _words(verdict: Verdict) -> str:
    """ "1.06x faster (1.05-1.08)", or that it stays; an old one is said to be."""
    interval = f"{verdict.ratio:.2f}x ({verdict.low:.2f}-{verdict.high:.2f})"
    kept = f"kept, {interval}" if verdict.compared else "kept, no other plan looked faster"
    text = kept if verdict.kept else f"faster, {interval}"
    return text if is_current(verdict) else f"{text}, of another version"
