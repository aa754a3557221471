"""A plan as lines of the log: a head, then a line for every convolution, join and group of layers.

A convolution's line is a record's line without a time. All lines of a plan carry AutoTVM's mark of
a failed record, so that AutoTVM's tools skip them. The ``"neocpu"`` key says what a line holds:

    "plan": {"graph": hash, "id": digest, "node": id}                        convolution
    "plan": {"graph": hash, "id": digest, "node": id, "layout": "NCHW16c"}   join
    "plan": {"graph": hash, "id": digest, "node": id, "group": [id, id], "rows": 14}
    "plan": {"graph": hash, "id": digest, "node": id, "group": [id, ..], "rows": 2, "run": 14}
    "plan": {"graph": hash, "id": digest, "lines": 54, "seconds": ..., ...}  head

A group's line names its first layer as its node; one without ``run`` has runs of one band. That of
a layer and its pool is ``[id, "pool"]``.
``"groups"`` in the head counts these lines; a head without it is of a version that decided nothing
about groups.

``lines`` counts the lines that follow the head. ``id`` is a digest of the plan's content: if the
same plan is written twice and each copy lacks lines, the copies complete each other.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvm_neocpu.core.errors import LineError, PlanError
from tvm_neocpu.core.network.config import Config, knobs
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.layer_group import Bands, LayerGroup
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.tuning.database.lines.record_lines import (
    FAILED_COST,
    NOT_MEASURED,
    Row,
    blank_row,
    config_of,
    cpu_of,
    list_of,
    ours_of,
    row_of,
    template_of,
    threads_of,
)

_TASK = "neocpu_plan"
# Stands behind the only layer of a group: the pool is no node.
POOL = "pool"


class PlanKey(NamedTuple):
    """What a plan is for: a graph's hash, a CPU's name, a thread count."""

    graph: str
    cpu: str
    threads: int


def encode_plan(
    plan: Plan, graph: ConvGraph, cpu: str, threads: int, timestamp: float
) -> list[str]:
    """The plan's lines, the head first; raises PlanError if the plan is not for this graph."""
    workloads = {node.id: node.workload for node in graph.nodes}
    if plan.graph != graph.hash or not plan.configs.keys() | plan.joins.keys() <= workloads.keys():
        raise PlanError(f"the plan is for graph {plan.graph}, not for {graph.hash}: not written")
    tag = {"graph": plan.graph, "id": plan_digest(plan, cpu, threads)}
    result = [[FAILED_COST], NOT_MEASURED, 0.0, timestamp]

    def line(row: Row, **what: Any) -> str:
        row["neocpu"]["plan"] = tag | what
        return json.dumps(row)

    def blank() -> Row:
        return blank_row(_TASK, [], [], result, cpu, threads)

    groups = plan.groups or ()
    if not {member for group in groups for member in group.members} <= plan.configs.keys():
        raise PlanError(f"a group of the plan for graph {plan.graph} has a layer without a config")
    head = {
        "lines": len(plan.configs) + len(plan.joins) + len(groups),
        "seconds": plan.seconds,
        "lower_bound": plan.lower_bound,
        "method": plan.method,
    }
    if plan.groups is not None:
        head["groups"] = len(groups)
    lines = [line(blank(), **head)]
    for node, config in plan.configs.items():
        workload = workloads[node]
        if workload is None:
            raise PlanError(f"the plan gives a config to {node}, which computes nothing")
        lines.append(line(row_of(workload, config, result, cpu, threads), node=node))
    for node, layout in plan.joins.items():
        lines.append(line(blank(), node=node, layout=str(layout)))
    for group in groups:
        members = [*group.members, *[POOL] * (len(group.members) == 1)]
        lines.append(line(blank(), node=members[0], group=members, **_bands(group)))
    return lines


def is_plan_row(row: Row) -> bool:
    return "plan" in ours_of(row)


def plan_key(row: Row) -> PlanKey:
    """What a line of a plan is for; raises LineError if it does not say."""
    ours = ours_of(row)
    tag = ours["plan"]
    if not (isinstance(tag, dict) and isinstance(tag.get("graph"), str) and "id" in tag):
        raise LineError("a plan line without graph and id")
    target, _, _, _ = list_of(row, "input", 4)
    return PlanKey(tag["graph"], cpu_of(target, ours), threads_of(ours))


@dataclass
class _Parts:
    """The lines read so far of one plan."""

    key: PlanKey
    where: str
    head: Row | None = None
    configs: dict[str, Config] = field(default_factory=dict)
    joins: dict[str, Layout] = field(default_factory=dict)
    groups: dict[tuple[str, ...], Bands] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.configs) + len(self.joins) + len(self.groups)

    @property
    def complete(self) -> bool:
        return self.head is not None and self.head["lines"] == self.count

    def plan(self, head: Row) -> Plan:
        return Plan(
            graph=self.key.graph,
            configs=self.configs,
            joins=self.joins,
            seconds=float(head["seconds"]),
            lower_bound=float(head["lower_bound"]),
            method=str(head["method"]),
            groups=tuple(LayerGroup(members, *bands) for members, bands in self.groups.items())
            if "groups" in head
            else None,
        )


class PlanAssembler:
    """Puts plans together from their lines, which may stand anywhere in a log."""

    def __init__(self) -> None:
        self._parts: dict[tuple[PlanKey, str], _Parts] = {}

    def add(self, row: Row, where: str) -> None:
        """Take in one line of a plan; raises LineError if it is malformed."""
        key, tag = plan_key(row), ours_of(row)["plan"]
        name = (key, str(tag["id"]))
        parts = self._parts.get(name) or _Parts(key, where)
        _read_into(parts, tag, row, list_of(row, "input", 4)[1])
        if "lines" in tag:
            # The plan whose head comes last is the newest, so it moves to the end.
            self._parts.pop(name, None)
        self._parts[name] = parts

    def plans(self) -> dict[PlanKey, Plan]:
        """The newest complete plan of every key; one that is held only where no other is."""
        plans = [
            (parts.key, parts.plan(parts.head))
            for parts in self._parts.values()
            if parts.complete and parts.head is not None
        ]
        return dict(sorted(plans, key=lambda keyed: not keyed[1].held))

    def torn(self) -> list[tuple[str, str]]:
        """(where, why) of every plan that lacks lines."""
        return [
            (parts.where, f"a plan for graph {parts.key.graph} is incomplete ({_have(parts)})")
            for parts in self._parts.values()
            if not parts.complete
        ]


def _read_into(parts: _Parts, tag: Row, row: Row, task: Any) -> None:
    if "lines" in tag:
        parts.head = _checked_head(tag)
    elif not isinstance(tag.get("node"), str):
        raise LineError("a plan line without node")
    elif "group" in tag:
        parts.groups.update([_group(tag)])
    elif "layout" in tag:
        parts.joins[tag["node"]] = _layout(tag["layout"])
    else:
        parts.configs[tag["node"]] = config_of(row, template_of(task))


def _checked_head(tag: Row) -> Row:
    numbers = (tag.get("seconds"), tag.get("lower_bound"))
    if type(tag["lines"]) is not int or any(type(n) not in (int, float) for n in numbers):
        raise LineError("a plan's head without its numbers")
    return {"method": "unknown", **tag}


def _bands(group: LayerGroup) -> dict[str, int]:
    """A run of one band is left out: lines and digests of older versions stay as they were."""
    return {"rows": group.rows} | ({} if group.run == 1 else {"run": group.run})


def _group(tag: Row) -> tuple[tuple[str, ...], Bands]:
    members, rows, run = tag["group"], tag.get("rows"), tag.get("run", 1)
    named = isinstance(members, list) and all(isinstance(member, str) for member in members)
    if not named or len(members) < 2:
        raise LineError("a group's line without its layers or its rows")
    if type(rows) is not int or type(run) is not int or min(rows, run) < 1:
        raise LineError("a group's line without its layers or its rows")
    return tuple(members[:-1] if members[1:] == [POOL] else members), Bands(rows, run)


def _layout(text: Any) -> Layout:
    try:
        return Layout.parse(str(text))
    except ValueError as error:
        raise LineError(str(error)) from None


def _have(parts: _Parts) -> str:
    return f"{parts.count} of {parts.head['lines']} lines" if parts.head else "without its head"


def plan_digest(plan: Plan, cpu: str, threads: int) -> str:
    """The ``id`` of a plan's lines: twelve hexadecimal digits that its content decides."""
    content = [
        [plan.graph, cpu, threads, plan.seconds, plan.lower_bound, plan.method],
        sorted([node, c.template, list(knobs(c).values())] for node, c in plan.configs.items()),
        sorted([node, str(layout)] for node, layout in plan.joins.items()),
    ]
    if plan.groups is not None:
        content.append(sorted([*group.members, *_bands(group).values()] for group in plan.groups))
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]
