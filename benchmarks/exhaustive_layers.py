"""Times every candidate of some layers inside a network, for replays: who finds the best how soon?

    python benchmarks/exhaustive_layers.py mobilenet_v2 --log all.log \
        --layer "192x28x28->192 3x3 p1 depthwise" --layer "320x7x7->1280 1x1"

Layers must have ends that nothing ties (`tuning/in_network/stand_ins.py`): each round replaces one
config of every layer in the plan of an untuned build. `--list` names them, with their candidates
and the minutes that each takes alone; layers that are measured together share rounds. A layer whose
space is larger than --most is measured over its favoured configs. Kernels that are known in the log
are not measured again. Each record holds the low, middle and high end of the paired ratio, times
the incumbent's seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

from tvm_neocpu.commands import cli
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.record import IN_NETWORK, Record
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.folded_network import FoldedNetwork, open_onnx, opener
from tvm_neocpu.frontend.onnx_model import resolve_shapes
from tvm_neocpu.pipeline import choose_plan
from tvm_neocpu.runtime import threads
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.database.staleness import record_stamp
from tvm_neocpu.tuning.in_network.machine import Run
from tvm_neocpu.tuning.in_network.rounds import seconds_of, workload_ratio
from tvm_neocpu.tuning.in_network.stand_ins import StandIns
from tvm_neocpu.tuning.in_network.workers import INCUMBENT, network_process
from tvm_neocpu.tuning.measuring.child_process import ChildError, ChildProcess
from tvm_neocpu.tuning.measuring.measurer import MeasureErrorNo
from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tasks import tasks_of

# Networks that a process holds at a time, paired runs of each with the incumbent.
SLOTS, PAIRS = 8, 15
FAILED = "failed"
# To build a candidate in its network, Zen 3: five a second on two cores.
BUILD_SECONDS = 0.4

Choice = dict[Workload, Config]
# Entered for as long as candidates are built and timed.
Undisturbed = Callable[[], AbstractContextManager[object]]


def wanted(task: Task, most: int) -> tuple[Config, ...]:
    """The candidates of a layer."""
    return task.space if len(task.space) <= most else task.favoured


def rounds_of(left: Mapping[Workload, Sequence[Config]]) -> list[Choice]:
    """One config of every layer in each round, until the layer with the most has none left."""
    count = max(map(len, left.values()), default=0)
    return [{w: found[n] for w, found in left.items() if n < len(found)} for n in range(count)]


def planned(network: FoldedNetwork, incumbent: Plan, choice: Choice) -> Plan:
    """The incumbent with the configs of a round."""
    configs = {
        node.id: choice.get(node.workload, incumbent.configs[node.id])  # type: ignore[arg-type]
        for node in network.graph.convs
    }
    return replace(incumbent, configs=configs, method="exhaustive")


def build(
    process: ChildProcess, network: FoldedNetwork, incumbent: Plan, rounds: Iterable[Choice]
) -> dict[str, Choice]:
    """Compile rounds into slots; one that does not build is compiled layer by layer."""
    slots: dict[str, Choice] = {}
    todo = list(rounds)
    while todo:
        choice, slot = todo.pop(0), str(len(slots))
        try:
            process.ask("build", slot, planned(network, incumbent, choice), True)
        except ChildError as error:
            print(f"  {error}", flush=True)
            if len(choice) > 1:
                todo += [{workload: config} for workload, config in choice.items()]
                continue
            slot = f"{FAILED} {len(slots)}"
        slots[slot] = choice
    return slots


def timed(
    worker: ChildProcess, slots: Mapping[str, Choice], unit: Mapping[Workload, float]
) -> Iterable[tuple[Workload, Config, tuple[float, ...], MeasureErrorNo]]:
    """What each slot's candidates take, beside the incumbent: three times in seconds of a call."""
    for slot, choice in slots.items():
        if slot.startswith(FAILED):
            for workload, config in choice.items():
                yield workload, config, (), MeasureErrorNo.COMPILE_HOST
            continue
        runs: dict[str, list[Run]] = worker.ask("times", (INCUMBENT, slot), PAIRS)
        for workload, config in choice.items():
            ratio = workload_ratio(workload, runs[slot], runs[INCUMBENT])
            if ratio is not None:
                ends = (ratio.low, ratio.value, ratio.high)
                costs = tuple(unit[workload] * value for value in ends)
                yield workload, config, costs, MeasureErrorNo.NO_ERROR


def run(
    model: bytes,
    shapes: Mapping[str, tuple[int, ...]],
    target: str,
    layers: Sequence[str],
    log: TuningLog,
    most: int,
    processes: int = 2,
    undisturbed: Undisturbed = contextlib.nullcontext,
) -> None:
    """Measure what the log does not have yet."""
    network = open_onnx(model, shapes, target)
    cpu = network.cpu
    incumbent = choose_plan(network.graph, cpu)
    tasks = {str(task.workload): task for task in tasks_of(network.graph, cpu)}
    known = {(record.workload, record.config) for record in log.load().records}
    left = {
        (task := tasks[text]).workload: [
            config for config in wanted(task, most) if (task.workload, config) not in known
        ]
        for text in layers
    }
    todo = rounds_of(left)

    def keep(workload: Workload, config: Config, costs: tuple[float, ...], error: int) -> None:
        stamp = record_stamp(config, IN_NETWORK)
        fields = {"error_no": error, "timestamp": time.time(), "features": cpu.features}
        log.append(Record(workload, config, costs, cpu.name, cpu.cores, stamp=stamp, **fields))

    opened = opener(model, shapes, target)
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(processes) as pool:
        workers = [
            stack.enter_context(process)
            for process in pool.map(lambda _: network_process(opened), range(processes))
        ]
        list(pool.map(lambda worker: worker.ask("build", INCUMBENT, incumbent), workers))
        with undisturbed():
            runs: list[Run] = workers[0].ask("times", (INCUMBENT,), PAIRS)[INCUMBENT]
        unit = {
            workload: min(seconds_of(workload, run) for run in runs)
            / tasks[str(workload)].occurrences
            for workload in left
        }
        while todo:
            shares = [[todo.pop(0) for _ in range(min(SLOTS, len(todo)))] for _ in workers]
            with undisturbed():
                jobs = [partial(build, worker, network, incumbent) for worker in workers]
                built = list(pool.map(lambda job, share: job(share), jobs, shares))
                for worker, slots in zip(workers, built, strict=True):
                    for row in timed(worker, slots, unit):
                        keep(*row)
            print(f"{len(todo)} rounds left", flush=True)


def listed(network: FoldedNetwork, most: int) -> list[str]:
    """The layers that may be asked for, the dearest first: a line each."""
    cpu, ends = network.cpu, StandIns(network.graph).ends
    incumbent = choose_plan(network.graph, cpu)
    inference = PAIRS * 2 * incumbent.seconds
    rows = []
    for task in tasks_of(network.graph, cpu):
        tied = any((end.reads, end.writes) != (None, None) for end in ends[task.workload])
        if tied or not task.space:
            continue
        count = len(wanted(task, most))
        minutes = count * (inference + BUILD_SECONDS) / 60
        best = min(map(task.predicted, task.favoured or task.space))
        share = task.occurrences * best / incumbent.seconds
        about = f"{count} candidates, {share:.1%} of the network, {minutes:.0f} min"
        rows.append((share, f"{task.workload}: {about}"))
    return [text for _, text in sorted(rows, reverse=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--layer", action="append", default=[], dest="layers")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--list", action="store_true", help="name the layers that may be asked for")
    parser.add_argument("--most", type=int, default=600)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if not options.list and not (options.layers and options.log):
        parser.error("give --layer and --log, or --list")
    if options.list:
        print(*listed(open_onnx(*asked(options)), options.most), sep="\n")
        return 0
    return start(options, contextlib.nullcontext)


def start(options: argparse.Namespace, undisturbed: Undisturbed) -> int:
    threads.use_threads(options.threads)
    log = TuningLog(options.log)
    run(*asked(options), options.layers, log, options.most, undisturbed=undisturbed)
    return 0


def asked(options: argparse.Namespace) -> tuple[bytes, dict[str, tuple[int, ...]], str]:
    """The model, its inputs' shapes and the target."""
    _, model = cli.load_network(options.model)
    target = f"llvm -num-cores={options.threads}"
    return model.SerializeToString(), resolve_shapes(model.graph, {}), target


if __name__ == "__main__":
    raise SystemExit(main())
