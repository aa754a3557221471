"""What runs beside the layers, timed in place: layout transforms and sweeps (pools, copies, means).

They are not chosen but priced: the global search weighs them against faster layers. A stand-in has
no transforms, but its sweeps run in layouts that the incumbent does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.tuning.in_network.processes.machine import Run, Scheme, seconds_of

BESIDE = (TransformWorkload, SweepWorkload)

# (workload, config, seconds, AutoTVM's error number) -> the record of a measurement made now.
MakeRecord = Callable[[Workload, Config, Sequence[float], int], Record]


def beside_in(run: Run) -> set[Workload]:
    """The transforms and sweeps of one inference."""
    return {scheme[0] for scheme in run if scheme and isinstance(scheme[0], BESIDE)}


def beside_records(
    runs: Sequence[Run], calls: Mapping[Scheme, int], drift: float, make_record: MakeRecord
) -> list[Record]:
    """A record of each transform and sweep of a network, from its timed inferences.

    ``calls`` counts the calls of one inference. ``drift`` turns seconds of now into those of the
    session's start, in which all its records are.
    """
    records = []
    for (workload, config), count in calls.items():
        if isinstance(workload, BESIDE):
            seconds = drift * median(seconds_of(workload, run) for run in runs) / count
            records.append(make_record(workload, config, (seconds,), 0))
    return records
