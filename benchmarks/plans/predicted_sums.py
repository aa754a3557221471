"""Does the sum that the search predicts agree with the network that is built?

    python benchmarks/plans/predicted_sums.py resnet18 googlenet --json predicted_sums.json

For each network two plans: the one that a build takes (``ours``), and one with random schemes at
half of its convolutions (``other``). Kernels, pools and joins are timed as tune times them: those
of ``ours`` in place, those of ``other`` in a stand-in without transforms. Transforms are timed in
``ours`` and scaled for ``other``. The sum of each plan is compared with whole runs of the network
that it builds, in turns with the runs that time its parts. The plans have no groups of fused
layers: a group is not a sum of layers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tvm_neocpu.choose_plan import known_costs
from tvm_neocpu.commands.shared import cli
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.draft import draft_of
from tvm_neocpu.core.errors import NeoCpuError, first_line
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import IN_NETWORK, Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.folded_network import FoldedNetwork, open_onnx
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.global_search import solve
from tvm_neocpu.global_search.network.baselines import random_schemes, solve_marked
from tvm_neocpu.global_search.network.choose import plan_of, solution_of
from tvm_neocpu.global_search.network.layout_graph import build_layout_graph
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.tuning.database.history import History, current_history
from tvm_neocpu.tuning.database.lines.staleness import record_stamp
from tvm_neocpu.tuning.database.log import LogContents
from tvm_neocpu.tuning.in_network.processes.machine import NetworkMachine, Run, Scheme
from tvm_neocpu.tuning.in_network.rounds.beside import beside_records

# The bar: a predicted sum is within this share of the built network.
BAR = 0.05
# Turns of parts and whole networks, and runs of each in a turn: a machine that is slower for a
# while is slower for both.
TURNS, RUNS = 8, 4
OURS, OTHER, STAND_IN = "ours", "other", "stand-in"


@dataclass
class Prepared:
    """A network's three builds, ready to be timed."""

    name: str
    network: FoldedNetwork
    machine: NetworkMachine
    plans: dict[str, Plan]


def prepared(name: str, target: str, seed: int) -> Prepared:
    """Build ``ours``, ``other`` and the stand-in of ``other``."""
    _, model = cli.load_network(name)
    network = open_onnx(model.SerializeToString(), resolve_shapes(model.graph, {}), target)
    cpu = network.cpu.with_cores(threads.thread_count())
    network = replace(network, cpu=cpu)
    layout_graph = build_layout_graph(
        network.graph, *known_costs(network.graph, cpu, current_history(cpu))
    )
    optimum = solve(layout_graph.problem)
    marked = random_schemes(layout_graph, optimum, 0.5, seed)
    random = solve_marked(layout_graph, marked, optimum, OTHER)
    plans = {OURS: plan_of(layout_graph, optimum), OTHER: plan_of(layout_graph, random)}
    machine = NetworkMachine(lambda: network)
    for slot, plan in plans.items():
        machine.build(slot, plan)
    machine.build(STAND_IN, plans[OTHER], views=True)
    return Prepared(name, network, machine, plans)


def compared(made: Prepared) -> dict[str, Any]:
    """Time the parts, predict the sums, time the whole networks."""
    machine = made.machine
    parts: dict[str, list[Run]] = {OURS: [], STAND_IN: []}
    whole: dict[str, list[float]] = {OURS: [], OTHER: []}
    for turn in range(TURNS):
        for slot, runs in machine.times((OURS, STAND_IN), RUNS).items():
            parts[slot] += runs
        for slot in (OURS, OTHER) if turn % 2 else (OTHER, OURS):
            whole[slot].append(median(machine.burst(slot, RUNS)))
    records = [
        record
        for slot, runs in parts.items()
        for record in _records(made, runs, machine.calls(slot))
    ]
    return {"network": made.name, "plans": [_row(made, slot, records, whole) for slot in whole]}


def _records(made: Prepared, runs: list[Run], calls: dict[Scheme, int]) -> Iterator[Record]:
    cpu = made.network.cpu

    def record(workload: Any, config: Any, costs: Any, error_no: int) -> Record:
        stamp = record_stamp(config, IN_NETWORK)
        return Record(workload, config, tuple(costs), cpu.name, cpu.cores, error_no, stamp=stamp)

    beside = beside_records(runs, calls, 1.0, record)
    yield from beside
    known = {one.workload for one in beside}
    for scheme, count in calls.items():
        if scheme[0] not in known:
            seconds = median(run[scheme] for run in runs) / count
            yield record(*scheme, (seconds,), 0)


def _row(
    made: Prepared, slot: str, records: list[Record], whole: dict[str, list[float]]
) -> dict[str, Any]:
    graph, cpu = made.network.graph, made.network.cpu
    history = History(cpu.name, cpu.cores, (LogContents(tuple(records)),))
    plan = made.plans[slot]
    known, *prices = known_costs(graph, cpu, history)
    seconds = {(record.workload, record.config): record.seconds for record in records}
    taken = {(node.workload, plan.configs[node.id]) for node in graph.convs}
    # What no plan takes offers its layouts to the joins.
    schemes: dict[Workload, list[Candidate]] = {
        workload: [each for each in known[workload] if (workload, each.config) not in taken]
        for workload, _ in taken
    }
    for workload, config in taken:
        schemes[workload].append(Candidate(config, seconds[workload, config]))
    layout_graph = build_layout_graph(graph, schemes, *prices)
    found = solution_of(layout_graph, plan, solve(layout_graph.problem))
    assert found is not None
    picked = layout_graph.picked(found.choice)
    measured = median(whole[slot])
    kernels, sweeps = sum(o.seconds for o in picked), sum(o.sweeps for o in picked)
    return {
        "plan": slot,
        "predicted_ms": 1e3 * found.cost,
        "kernels_ms": 1e3 * kernels,
        "pools_and_joins_ms": 1e3 * sweeps,
        "transforms_ms": 1e3 * (found.cost - kernels - sweeps),
        "measured_ms": 1e3 * measured,
        "error": found.cost / measured - 1,
        "error_without_pools_and_joins": (found.cost - sweeps) / measured - 1,
    }


def main(while_timing: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext) -> int:
    """``while_timing`` is entered while times are taken: it may keep other processes quiet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    count = threads.take_cores(options.threads)
    warnings.simplefilter("ignore")
    if count == 1:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    make = partial(prepared, target=options.target, seed=options.seed)
    rows = []
    failed = 0
    for name in options.networks:
        try:
            made = make(name)
            with while_timing():
                rows.append(compared(made))
        except NeoCpuError as error:
            failed += 1
            print(f"{name}: {first_line(error)}", flush=True)
            continue
        for plan in rows[-1]["plans"]:
            print(name, json.dumps(plan), flush=True)
        if options.json is not None:  # after every network: an interrupted run keeps what it has
            report = provenance(made.network.cpu.name, count, ("numpy",)) | {"networks": rows}
            with draft_of(options.json) as draft:
                draft.write_text(json.dumps(report, indent=1) + "\n")
    errors = [plan["error"] for row in rows for plan in row["plans"]]
    return 1 if failed or any(abs(error) > BAR for error in errors) else 0


if __name__ == "__main__":
    sys.exit(main())
