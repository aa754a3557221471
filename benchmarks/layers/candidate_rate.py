"""What a candidate of the tuner costs before it is timed: seconds of CPU time by phase.

    python benchmarks/layers/candidate_rate.py resnet18 --stand-ins 4 --json rate.json

Stand-ins as `tune` builds them, in this process, one after another, with an empty store of kernels:
each has a new config for every layer where it fits. CPU time holds on a busy machine, too (a core
that another process shares makes it some 10 % longer). Phases:

    schedules     our templates' schedules and the rewrites behind them
    passes        what lowers the network to functions: layouts, templates' computation, fusion
    program       the virtual machine's program, keys of kernels, objects linked and loaded
    tir           TVM's passes over a scheduled function
    llvm ir       TVM writes LLVM's IR, LLVM optimises it
    machine code  LLVM writes the object
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.codegen import kernel_store
from tvm_neocpu.codegen.kernel_cache import KernelCache
from tvm_neocpu.commands.shared import cli
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.folded_network import FoldedNetwork, open_onnx
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.relay_passes.lowering.schedule_functions import ScheduleFunctions
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.topi.cost.ranking import best_per_layout
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.in_network.rounds.rounds import CHOICES
from tvm_neocpu.tuning.in_network.rounds.stand_ins import StandIns
from tvm_neocpu.tuning.seating import Choices, make_tuners
from tvm_neocpu.tuning.tasks import tasks_of

SCHEDULES, PASSES, PROGRAM = "schedules", "passes", "program"
TIR, LLVM_IR, MACHINE_CODE = "tir", "llvm ir", "machine code"
# The owner of a function, its name, and the phase that its time is of.
CLOCKED: tuple[tuple[Any, str, str], ...] = (
    (FoldedNetwork, "lower", PASSES),
    (ScheduleFunctions, "__call__", SCHEDULES),
    (kernel_store, "build_module", TIR),
    (sys.modules["tvm.tirx.build"], "codegen_build", LLVM_IR),
    (kernel_store.KernelStore, "_compile", MACHINE_CODE),
)


class Clock:
    """CPU seconds by phase, over all threads; a phase inside another one counts for itself."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._lock = threading.Lock()
        self._inside = threading.local()

    def clocked(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose time counts for a phase."""

        def call(*arguments: Any, **named: Any) -> Any:
            outer = getattr(self._inside, "spent", 0.0)
            self._inside.spent = 0.0
            start = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                whole = time.thread_time() - start
                with self._lock:
                    self.seconds[phase] += whole - self._inside.spent
                self._inside.spent = outer + whole

        return call

    @contextmanager
    def running(self) -> Iterator[None]:
        """Inside, the functions of :data:`CLOCKED` are clocked; all other time is the program's."""
        before, start = sum(self.seconds.values()), time.process_time()
        with ExitStack() as stack:
            for owner, name, phase in CLOCKED:
                found = self.clocked(phase, getattr(owner, name))
                stack.enter_context(patch.object(owner, name, found))
            yield
        whole = time.process_time() - start
        self.seconds[PROGRAM] += whole - (sum(self.seconds.values()) - before)


def stand_ins(
    network: FoldedNetwork, incumbent: Plan, count: int
) -> Iterator[tuple[Plan, set[Workload]]]:
    """Plans of new candidates in the order of the cost model, and the layers that got one."""
    graph, cpu = network.graph, network.cpu
    tasks = [task for task in tasks_of(graph, cpu) if task.space]
    tuners = make_tuners(tasks, Choices("grid"), History(cpu.name, cpu.cores, ()), cpu)
    spares: dict[Workload, list[Config]] = {
        w: [c.config for c in best_per_layout(w, cpu)] for w in graph.workloads
    }
    for node in graph.convs:
        if node.workload in tuners:
            tuners[node.workload].observe(incumbent.configs[node.id], 1.0)
    maker = StandIns(graph)
    for _ in range(count):
        wishes = {w: found for w, tuner in tuners.items() if (found := tuner.propose(CHOICES))}
        plan, granted = maker.plan(incumbent, wishes, spares)
        configs = {node.workload: plan.configs[node.id] for node in maker.convs}
        for workload in granted:
            tuners[workload].observe(configs[workload], 1.0)
        yield plan, granted


def measure(network: FoldedNetwork, count: int) -> dict[str, Any]:
    """Seconds of CPU time by phase for ``count`` stand-ins, and what they had."""
    with tempfile.TemporaryDirectory(prefix="neocpu-rate-") as folder:
        store = kernel_store.KernelStore(Path(folder), network.target)
        cache = KernelCache(network.target, store)
        incumbent = replace(
            choose_plan(network.graph, network.cpu, History(network.cpu.name, 1, ())), groups=()
        )
        cache.load(network.lower(incumbent).module)
        before, candidates, clock = store.compiled, 0, Clock()
        for plan, granted in stand_ins(network, incumbent, count):
            with clock.running():
                cache.load(network.lower(plan, views=True).module)
            candidates += len(granted)
        whole = sum(clock.seconds.values())
        return {
            "stand_ins": count,
            "candidates": candidates,
            "kernels": store.compiled - before,
            "cpu_seconds": round(whole, 3),
            "cpu_seconds_of_a_candidate": round(whole / candidates, 4),
            "shares": {phase: round(s / whole, 3) for phase, s in clock.seconds.items()},
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--stand-ins", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    threads.use_threads(1)
    rows = []
    for spec in options.models:
        name, model = cli.load_network(spec)
        shapes = resolve_shapes(model.graph, {})
        network = open_onnx(model.SerializeToString(), shapes, "llvm -num-cores=1")
        rows.append({"network": name, **measure(network, options.stand_ins)})
        print(json.dumps(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(
            json.dumps({**provenance(network.cpu.name, 1), "networks": rows}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
