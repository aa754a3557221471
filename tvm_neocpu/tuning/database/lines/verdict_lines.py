"""Verdicts and settled workloads as lines of the log; :mod:`core.network.verdict` has the fields.

All carry AutoTVM's mark of a failed record, so that AutoTVM's tools skip them. The ``"neocpu"`` key
says what a line holds; a verdict's line holds both:

    "verdict": {"graph": hash, "plan": digest | "kept", "ratio": 1.06, "low": ..., "high": ...,
                "candidates": 412, "network": "resnet50", "protocol": 2, "template": ...}
    "settled": [{"operator": "conv2d", "args": [...], "extras": {...}, "noise": 0.004,
                 "candidates": 31, "protocol": 2, "template": ...}, ...]
"""

from __future__ import annotations

import json
from typing import Any

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.network.record import Stamp
from tvm_neocpu.core.network.verdict import Settled, Verdict
from tvm_neocpu.core.tvm_version import tvm_version
from tvm_neocpu.topi.table import operator_of
from tvm_neocpu.tuning.database.lines.record_lines import (
    FAILED_COST,
    NOT_MEASURED,
    Row,
    blank_row,
    cpu_of,
    features_of,
    list_of,
    number,
    ours_of,
    threads_of,
    whole,
)
from tvm_neocpu.tuning.database.lines.staleness import settled_stamp, verdict_stamp
from tvm_neocpu.tuning.database.lines.task_args import decode_workload

_VERDICT_TASK, _SETTLED_TASK = "neocpu_verdict", "neocpu_settled"


def encode_verdict(verdict: Verdict) -> str:
    """The verdict's line, without the newline; without a stamp it gets today's."""
    row = _blank(_VERDICT_TASK, verdict)
    stamp = verdict.stamp or verdict_stamp()
    row["tvm_version"] = stamp.tvm
    row["neocpu"]["verdict"] = {
        "graph": verdict.graph,
        "plan": verdict.plan,
        "ratio": verdict.ratio,
        "low": verdict.low,
        "high": verdict.high,
        "candidates": verdict.candidates,
        "network": verdict.network,
        "seconds": verdict.seconds,
        "complete": verdict.complete,
        "protocol": stamp.protocol,
        "template": stamp.template,
    }
    row["neocpu"]["settled"] = [_item(settled) for settled in verdict.settled]
    return json.dumps(row)


def encode_settled(settled: Settled) -> str:
    """The line of a workload that is settled; without a stamp it gets today's."""
    row = _blank(_SETTLED_TASK, settled)
    row["tvm_version"] = settled.stamp.tvm if settled.stamp else tvm_version()
    row["neocpu"]["settled"] = [_item(settled)]
    return json.dumps(row)


def is_verdict_row(row: Row) -> bool:
    """Whether a line holds a verdict, settled workloads or both."""
    ours = ours_of(row)
    return "verdict" in ours or "settled" in ours


def decode_verdict(row: Row) -> tuple[Verdict | None, tuple[Settled, ...]]:
    """A line's verdict, ``None`` if it has settled workloads only, and these. Raises LineError."""
    ours = ours_of(row)
    items = ours.get("settled", [])
    if not isinstance(items, list):
        raise LineError("its settled workloads are no list")
    settled = tuple(_read_item(row, item) for item in items)
    if "verdict" not in ours:
        return None, settled
    found = _object(ours["verdict"], "verdict")
    cpu, timestamp = _machine(row)
    verdict = Verdict(
        graph=_text(found, "graph"),
        cpu=cpu,
        threads=threads_of(ours),
        plan=_text(found, "plan"),
        ratio=number(found.get("ratio")),
        low=number(found.get("low")),
        high=number(found.get("high")),
        candidates=whole(found.get("candidates"), "candidate count"),
        settled=settled,
        timestamp=timestamp,
        network=_text(found, "network"),
        features=features_of(ours),
        seconds=number(found.get("seconds", 0.0)),
        complete=found.get("complete") is True,
        stamp=_stamp(row, found),
    )
    return verdict, settled


def _blank(task: str, about: Verdict | Settled) -> Row:
    result = [[FAILED_COST], NOT_MEASURED, 0.0, about.timestamp]
    row = blank_row(task, [], [], result, about.cpu, about.threads)
    if about.features:
        row["neocpu"]["features"] = about.features
    return row


def _item(settled: Settled) -> Row:
    stamp = settled.stamp or settled_stamp(settled.workload)
    return {
        "operator": operator_of(settled.workload).name,
        "args": settled.workload.args(),
        "extras": settled.workload.extras(),
        "noise": settled.noise,
        "candidates": settled.candidates,
        "protocol": stamp.protocol,
        "template": stamp.template,
    }


def _read_item(row: Row, item: Any) -> Settled:
    found = _object(item, "settled workload")
    extras = _object(found.get("extras", {}), "settled workload")
    ours = ours_of(row)
    cpu, timestamp = _machine(row)
    return Settled(
        workload=decode_workload(_text(found, "operator"), found.get("args"), extras),
        cpu=cpu,
        threads=threads_of(ours),
        noise=number(found.get("noise")),
        candidates=whole(found.get("candidates"), "candidate count"),
        timestamp=timestamp,
        features=features_of(ours),
        stamp=_stamp(row, found),
    )


def _machine(row: Row) -> tuple[str, float]:
    """(CPU, timestamp) of a line."""
    target, *_ = list_of(row, "input", 4)
    return cpu_of(target, ours_of(row)), number(list_of(row, "result", 4)[3])


def _stamp(row: Row, found: Row) -> Stamp:
    tvm = row.get("tvm_version", "")
    if not isinstance(tvm, str):
        raise LineError("its versions are not texts")
    return Stamp(_text(found, "template"), tvm, whole(found.get("protocol"), "protocol"))


def _object(value: Any, what: str) -> Row:
    if not isinstance(value, dict):
        raise LineError(f"its {what} is no object")
    return value


def _text(found: Row, key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str):
        raise LineError(f"its {key} is not a text")
    return value
