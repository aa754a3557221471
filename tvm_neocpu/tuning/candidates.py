"""What the global search may choose among: measured schemes first, the cost model for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_neocpu.core.candidate import Candidate, layouts_of
from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.record import Record
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.topi.cost_model import best_per_layout, predict_seconds

# NeoCPU, section 3.3.2, keeps at most about 100 schemes a convolution; slower ones never win.
MAX_SCHEMES = 100
HOPELESS = 2.0
# A scheme nobody measured is not believed to beat the best one that somebody did.
UNMEASURED_PENALTY = 1.05


def candidates_of(
    graph: ConvGraph, cpu: Cpu, measured: Mapping[Workload, Sequence[Record]]
) -> dict[Workload, tuple[Candidate, ...]]:
    """Schemes for every workload of the graph; ``measured`` holds one record per layout pair."""
    return {
        workload: _schemes(workload, cpu, measured.get(workload, ()))
        for workload in graph.workloads
    }


def _schemes(workload: Workload, cpu: Cpu, records: Sequence[Record]) -> tuple[Candidate, ...]:
    predicted = best_per_layout(workload, cpu)
    known = {layouts_of(record.config): record for record in records if record.ok}
    if not known:
        return _worth_keeping(list(predicted))
    fastest = min(known.values(), key=lambda record: record.seconds)
    # The model ranks well but has its own scale: tie it to what was measured.
    scale = fastest.seconds / predict_seconds(workload, fastest.config, cpu)
    floor = fastest.seconds * UNMEASURED_PENALTY
    schemes = [Candidate(record.config, record.seconds) for record in known.values()]
    schemes += [
        Candidate(c.config, max(c.seconds * scale, floor))
        for c in predicted
        if layouts_of(c.config) not in known
    ]
    return _worth_keeping(schemes)


def _worth_keeping(schemes: list[Candidate]) -> tuple[Candidate, ...]:
    schemes = sorted(schemes, key=lambda scheme: scheme.seconds)[:MAX_SCHEMES]
    return tuple(s for s in schemes if s.seconds <= HOPELESS * schemes[0].seconds)
