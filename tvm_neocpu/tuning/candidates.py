"""What the global search may choose among: measured schemes first, the cost model for the rest."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from math import inf
from statistics import median

from tvm_neocpu.core.candidate import Candidate, layouts_of
from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.record import Record
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.topi.cost.ranking import best_per_layout, predict_seconds
from tvm_neocpu.topi.table import fits, refusal
from tvm_neocpu.tuning.database.log import TuningLogWarning

# NeoCPU, section 3.3.2, keeps at most about 100 schemes a convolution; slower ones never win.
MAX_SCHEMES = 100
HOPELESS = 2.0
# A scheme nobody measured is not believed to beat the best one that somebody did.
UNMEASURED_PENALTY = 1.05


def candidates_of(
    graph: ConvGraph, cpu: Cpu, records: Mapping[Workload, Sequence[Record]]
) -> dict[Workload, tuple[Candidate, ...]]:
    """Schemes for every workload of the graph; ``records`` are all of a workload's, ascending.

    Records whose config may not be used here do not count: a tile of Winograd's that the
    environment forbids, a template that nobody registered.
    """
    return {
        workload: _schemes(workload, cpu, _usable(workload, cpu, records.get(workload, ())))
        for workload in graph.workloads
    }


def _usable(workload: Workload, cpu: Cpu, records: Sequence[Record]) -> list[Record]:
    return [record for record in records if fits(workload, record.config, cpu)]


def usable_plan(plan: Plan | None, graph: ConvGraph, cpu: Cpu) -> Plan | None:
    """A logged plan, if every config of it may be used here; else ``None``, with a warning."""
    if plan is None:
        return None
    for node in graph.convs:
        config = plan.configs.get(node.id)
        if config is None or node.workload is None:
            continue
        reason = refusal(node.workload, config, cpu)
        if reason is None:
            continue
        warnings.warn(
            f"the log's plan is not used: {config} cannot compute {node.workload} here: {reason}",
            TuningLogWarning,
            stacklevel=3,
        )
        return None
    return plan


def _schemes(workload: Workload, cpu: Cpu, records: Sequence[Record]) -> tuple[Candidate, ...]:
    worked = [record for record in records if record.ok]
    predicted = _not_failed(workload, cpu, records)
    if not worked:
        return _worth_keeping(list(predicted))
    known: dict[tuple[Layout, Layout], Record] = {}
    for record in sorted(worked, key=lambda record: record.seconds):
        known.setdefault(layouts_of(record.config), record)
    scale = _scale(workload, cpu, worked)
    floor = min(record.seconds for record in worked) * UNMEASURED_PENALTY
    schemes = [Candidate(record.config, record.seconds) for record in known.values()]
    schemes += [
        Candidate(c.config, max(c.seconds * scale, floor))
        for c in predicted
        if layouts_of(c.config) not in known
    ]
    return _worth_keeping(schemes)


def _scale(workload: Workload, cpu: Cpu, worked: Sequence[Record]) -> float:
    """Measured over predicted seconds, the median of all records.

    Not the fastest one's: it may be the fastest because the model was too pessimistic there.
    """
    pairs = [(r.seconds, predict_seconds(workload, r.config, cpu)) for r in worked]
    ratios = [seconds / guess for seconds, guess in pairs if 0 < guess < inf]
    return median(ratios) if ratios else 1.0


def _not_failed(workload: Workload, cpu: Cpu, records: Sequence[Record]) -> tuple[Candidate, ...]:
    failed = frozenset(record.config for record in records if not record.ok)
    # Where all has failed there must be something to build nevertheless.
    return best_per_layout(workload, cpu, failed) or best_per_layout(workload, cpu)


def _worth_keeping(schemes: list[Candidate]) -> tuple[Candidate, ...]:
    schemes = sorted(schemes, key=lambda scheme: scheme.seconds)[:MAX_SCHEMES]
    return tuple(s for s in schemes if s.seconds <= HOPELESS * schemes[0].seconds)
