"""Warnings, one line each, of logs that a build does not use: what is in them, and for whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_neocpu.tuning.database.best_records import UNKNOWN_THREADS
from tvm_neocpu.tuning.database.log_protocol import Log


def other_networks(stale: Sequence[tuple[Log, str]], wanted: str) -> str:
    """The logs' plans are for other graphs; ``stale`` are pairs (log, hash of such a graph)."""
    hashes = ", ".join(dict.fromkeys(found for _, found in stale))
    text = f"the log's plan is for another network (hash {hashes}, this one is {wanted})"
    return f"{_paths(log for log, _ in stale)}: {text}: searching over what is known"


def only_records(passed: Iterable[Log], planned: Log) -> str:
    """Logs with records stand behind one with a plan."""
    taken = f"the plan of {_paths([planned])} is taken, not its records"
    return f"{_paths(passed)} has no plan for this network: {taken}"


def only_stale(logs: Iterable[Log], cpu: str) -> str:
    """The records are of other versions, so that they are no measurements."""
    what = f"only stale records for this network on {cpu}, of other versions"
    return f"{_paths(logs)} holds {what}: hints for tune, ignored here"


def nothing(logs: Sequence[Log], cpu: str, threads: int) -> str:
    """The logs have no record of the network's workloads; says for which thread counts they do."""
    counts = sorted({count for log in logs for count in _other_thread_counts(log, cpu, threads)})
    only = f", only at {', '.join(map(str, counts))}" if counts else ""
    what = f"nothing for this network on {cpu} at thread count {threads}{only}"
    return f"{_paths(logs)} holds {what}: ignored"


def other_cpus(log: Log, cpu: str) -> str:
    """The log has records of other CPUs."""
    others = (name or "an unnamed CPU (no -mcpu)" for name in foreign_cpus(log, cpu))
    return f"{_paths([log])} was measured on {', '.join(others)}, this target is {cpu}: ignored"


def foreign_cpus(log: Log, cpu: str) -> list[str]:
    """The other CPUs that the log has records of."""
    return sorted({name for name, _ in log.machines} - {cpu})


def _other_thread_counts(log: Log, cpu: str, threads: int) -> set[int]:
    of_records = {count for name, count in log.machines if name == cpu}
    of_plans = {key.threads for key in log.plan_keys if key.cpu == cpu}
    return (of_records | of_plans) - {threads, UNKNOWN_THREADS}


def _paths(logs: Iterable[Log]) -> str:
    """The logs' files, comma-separated; ``"the log"`` for contents that no file holds."""
    return ", ".join(dict.fromkeys(str(path) for log in logs for path in log.paths)) or "the log"
