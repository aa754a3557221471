"""Times every candidate of some layers inside a network, for replays: who finds the best how soon?

    python benchmarks/layers/exhaustive_layers.py mobilenet_v2 --log all.log \
        --layer "192x28x28->192 3x3 p1 depthwise" --layer "320x7x7->1280 1x1"

Layers must have ends that nothing ties (`tuning/in_network/rounds/stand_ins.py`): each round
replaces one config of every layer in the plan of an untuned build. `--list` names them, with their
candidates and the minutes that each takes alone; layers that are measured together share rounds.
What the log has is not measured again: `--minutes 30` measures for so long, and the same command
goes on later.
Each record holds the low, middle and high end of the paired ratio, times the incumbent's seconds.

A space of more than --most configs is not measured whole: ResNet-50's 3x3 convolutions have up to
13,000, a day on one core. Measured are all configs that the cost model predicts at most --within
times its best, the best first, and --sample of the others, drawn by lot. The last lines say what
the sample shows: where none of n is faster than the best of the first part, less than 3/n of the
others is, with a confidence of 95 %.

Compiling takes longer than timing, and may run beside other work:

    # kernels alone
    python benchmarks/layers/exhaustive_layers.py resnet50 ... --log all.log --compile
    # times them
    python benchmarks/layers/exhaustive_layers.py resnet50 ... --log all.log --slots 90

`--compile` leaves the kernels in the store of this user and times nothing. With `--slots 90` a
process holds 90 rounds before it times one. `--again 10` reads the ten best of each layer again:
the first reading of the best of many is too good to be true. The later reading counts.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.commands.shared import cli
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import IN_NETWORK, Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.folded_network import FoldedNetwork, open_onnx, opener
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.lines.staleness import record_stamp
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.in_network.processes.machine import Run
from tvm_neocpu.tuning.in_network.processes.workers import INCUMBENT, network_process
from tvm_neocpu.tuning.in_network.rounds.rounds import seconds_of, workload_ratio
from tvm_neocpu.tuning.in_network.rounds.stand_ins import StandIns
from tvm_neocpu.tuning.measuring.child_process import ChildError, ChildProcess
from tvm_neocpu.tuning.measuring.measurer import MeasureErrorNo
from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tasks import tasks_of

FAILED = "failed"
# To build a candidate in its network, Zen 3: five a second on two cores.
BUILD_SECONDS = 0.4

Choice = dict[Workload, Config]
# A candidate, its low, middle and high seconds, and AutoTVM's error number.
Row = tuple[Workload, Config, tuple[float, ...], MeasureErrorNo]
# Entered for as long as candidates are timed.
Undisturbed = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Pace:
    """How much is built before it is timed, and how often it is timed.

    ``slots`` are the networks that a process holds at a time, ``pairs`` the runs of each beside the
    incumbent, ``beside`` the networks that share a run of it.
    """

    processes: int = 2
    slots: int = 9
    pairs: int = 15
    beside: int = 3


@dataclass(frozen=True)
class Extent:
    """How much of a space is measured: all up to ``most`` configs; else those predicted at most
    ``within`` times the best prediction, and ``sample`` of the others."""

    most: int = 600
    within: float = 1.5
    sample: int = 100

    def parts(self, task: Task) -> tuple[tuple[Config, ...], tuple[Config, ...]]:
        """The candidates that are measured for their own sake, and those that stand for the rest.

        The same each time; the best by prediction come first.
        """
        ordered = sorted(task.space, key=task.predicted)
        if len(ordered) <= self.most:
            return tuple(ordered), ()
        limit = self.within * task.predicted(ordered[0])
        count = sum(task.predicted(config) <= limit for config in ordered)
        others = ordered[count:]
        drawn = random.Random(str(task.workload)).sample(others, min(self.sample, len(others)))
        return tuple(ordered[:count]), tuple(drawn)

    def wanted(self, task: Task) -> tuple[Config, ...]:
        """All candidates that are measured."""
        inside, drawn = self.parts(task)
        return inside + drawn


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
    worker: ChildProcess, slots: Mapping[str, Choice], unit: Mapping[Workload, float], pace: Pace
) -> Iterable[Row]:
    """What each slot's candidates take, beside the incumbent: three times in seconds of a call."""
    for slot, choice in slots.items():
        if slot.startswith(FAILED):
            for workload, config in choice.items():
                yield workload, config, (), MeasureErrorNo.COMPILE_HOST
    built = [slot for slot in slots if not slot.startswith(FAILED)]
    for start in range(0, len(built), pace.beside):
        share = built[start : start + pace.beside]
        runs: dict[str, list[Run]] = worker.ask("times", (INCUMBENT, *share), pace.pairs)
        for slot in share:
            for workload, config in slots[slot].items():
                ratio = workload_ratio(workload, runs[slot], runs[INCUMBENT])
                if ratio is not None:
                    ends = (ratio.low, ratio.value, ratio.high)
                    costs = tuple(unit[workload] * value for value in ends)
                    yield workload, config, costs, MeasureErrorNo.NO_ERROR


def units(
    tasks: Iterable[Task],
    incumbent: Mapping[Workload, Config],
    records: Iterable[Record],
    runs: Sequence[Run],
) -> dict[Workload, float]:
    """Seconds of a call that the ratio 1 stands for.

    They are those that ``records`` have of the incumbent's config, else the least of ``runs``.
    """
    known = {(r.workload, r.config): r.seconds for r in records if r.ok}
    found = {}
    for task in tasks:
        workload = task.workload
        own = min(seconds_of(workload, run) for run in runs) / task.occurrences
        found[workload] = known.get((workload, incumbent[workload]), own)
    return found


def run(
    model: bytes,
    shapes: Mapping[str, tuple[int, ...]],
    target: str,
    layers: Sequence[str],
    log: TuningLog,
    extent: Extent,
    pace: Pace = Pace(),
    undisturbed: Undisturbed = contextlib.nullcontext,
    minutes: float = math.inf,
    again: int = 0,
    compile_only: bool = False,
) -> int:
    """Measure what the log does not have yet, for so long; how many rounds are left.

    With ``again`` the best so many of each layer instead, which the log has.
    """
    end = time.monotonic() + 60 * minutes
    network = open_onnx(model, shapes, target)
    cpu = network.cpu
    untuned = choose_plan(network.graph, cpu, History(cpu.name, cpu.cores, ()))
    # A layer inside a group has no time of its own.
    incumbent = replace(untuned, groups=())
    tasks = {str(task.workload): task for task in tasks_of(network.graph, cpu)}
    records = log.load().records
    asked = [tasks[text] for text in layers]
    todo = rounds_of(best_of(asked, records, again) if again else unknown(asked, records, extent))

    def keep(workload: Workload, config: Config, costs: tuple[float, ...], error: int) -> None:
        stamp = record_stamp(config, IN_NETWORK)
        fields = {"error_no": error, "timestamp": time.time(), "features": cpu.features}
        log.append(Record(workload, config, costs, cpu.name, cpu.cores, stamp=stamp, **fields))

    opened = opener(model, shapes, target)
    count = pace.processes
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(count) as pool:
        workers = [
            stack.enter_context(process)
            for process in pool.map(lambda _: network_process(opened), range(count))
        ]
        list(pool.map(lambda worker: worker.ask("build", INCUMBENT, incumbent), workers))
        configs = {
            node.workload: incumbent.configs[node.id]
            for node in network.graph.convs
            if node.workload is not None
        }
        unit: dict[Workload, float] = {}
        while todo and time.monotonic() < end:
            shares = [[todo.pop(0) for _ in range(min(pace.slots, len(todo)))] for _ in workers]
            jobs = [partial(build, worker, network, incumbent) for worker in workers]
            built = list(pool.map(lambda job, share: job(share), jobs, shares))
            if not compile_only:
                with undisturbed():
                    if not unit:
                        runs = workers[0].ask("times", (INCUMBENT,), pace.pairs)[INCUMBENT]
                        unit = units(asked, configs, records, runs)
                    for worker, slots in zip(workers, built, strict=True):
                        for row in timed(worker, slots, unit, pace):
                            keep(*row)
            print(f"{len(todo)} rounds left", flush=True)
    if not compile_only:
        print(*shown(tasks, layers, log, extent), sep="\n")
    return len(todo)


def unknown(
    tasks: Iterable[Task], records: Iterable[Record], extent: Extent
) -> dict[Workload, list[Config]]:
    """The candidates that are to be measured and that the log does not have."""
    known = {(record.workload, record.config) for record in records}
    return {
        task.workload: [
            config for config in extent.wanted(task) if (task.workload, config) not in known
        ]
        for task in tasks
    }


def best_of(
    tasks: Iterable[Task], records: Iterable[Record], count: int
) -> dict[Workload, list[Config]]:
    """The fastest candidates of each layer by the log."""
    seconds = {(r.workload, r.config): r.seconds for r in records if r.ok}
    found: dict[Workload, list[Config]] = {}
    for task in tasks:
        known = [config for config in task.space if (task.workload, config) in seconds]
        by_time = sorted(known, key=lambda config: seconds[task.workload, config])
        found[task.workload] = by_time[:count]
    return found


def shown(
    tasks: Mapping[str, Task], layers: Sequence[str], log: TuningLog, extent: Extent
) -> Iterable[str]:
    """A line for each layer: the best config, and what the sample of the others shows."""
    seconds = {(r.workload, r.config): r.seconds for r in log.load().records if r.ok}
    for text in layers:
        task = tasks[text]
        inside, drawn = (
            [s for config in part if (s := seconds.get((task.workload, config))) is not None]
            for part in extent.parts(task)
        )
        if not inside:
            continue
        line = f"{text}: best of {len(inside)} {1e6 * min(inside):.1f} us"
        if drawn:
            faster = sum(found < min(inside) for found in drawn)
            line += f"; of {len(drawn)} others {faster} are faster"
            line += f", the best takes {min(drawn) / min(inside):.2f} times as long"
        yield line


def listed(network: FoldedNetwork, extent: Extent) -> list[str]:
    """The layers that may be asked for, the dearest first: a line each."""
    cpu, ends = network.cpu, StandIns(network.graph).ends
    incumbent = choose_plan(network.graph, cpu)
    inference = Pace.pairs * 2 * incumbent.seconds
    rows = []
    for task in tasks_of(network.graph, cpu):
        tied = any((end.reads, end.writes) != (None, None) for end in ends[task.workload])
        if tied or not task.space:
            continue
        count = len(extent.wanted(task))
        minutes = count * (inference + BUILD_SECONDS) / 60
        best = min(map(task.predicted, task.favoured or task.space))
        share = task.occurrences * best / incumbent.seconds
        about = f"{count} candidates, {share:.1%} of the network, {minutes:.0f} min"
        rows.append((share, f"{task.workload}: {about}"))
    return [text for _, text in sorted(rows, reverse=True)]


def main(undisturbed: Undisturbed = contextlib.nullcontext) -> int:
    """``undisturbed`` is entered while candidates are timed: it may keep other processes quiet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--layer", action="append", default=[], dest="layers")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--list", action="store_true", help="name the layers that may be asked for")
    parser.add_argument("--most", type=int, default=Extent.most)
    parser.add_argument("--within", type=float, default=Extent.within)
    parser.add_argument("--sample", type=int, default=Extent.sample)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=Pace.processes)
    parser.add_argument("--slots", type=int, default=Pace.slots, help="built before one is timed")
    parser.add_argument("--pairs", type=int, default=Pace.pairs, help="runs of each candidate")
    parser.add_argument("--beside", type=int, default=Pace.beside, help="that share one reference")
    parser.add_argument("--compile", action="store_true", help="compile kernels, time nothing")
    parser.add_argument("--again", type=int, default=0, metavar="N", help="the N best once more")
    options = parser.parse_args()
    if not options.list and not (options.layers and options.log):
        parser.error("give --layer and --log, or --list")
    if options.list:
        print(*listed(open_onnx(*asked(options)), extent_of(options)), sep="\n")
        return 0
    return start(options, undisturbed)


def start(options: argparse.Namespace, undisturbed: Undisturbed) -> int:
    threads.use_threads(options.threads)
    log = TuningLog(options.log)
    left = run(
        *asked(options),
        options.layers,
        log,
        extent_of(options),
        Pace(options.processes, options.slots, options.pairs, options.beside),
        undisturbed=undisturbed,
        minutes=options.minutes,
        again=options.again,
        compile_only=options.compile,
    )
    if left:
        print(f"{left} rounds left; the same command goes on")
    return 0


def extent_of(options: argparse.Namespace) -> Extent:
    return Extent(options.most, options.within, options.sample)


def asked(options: argparse.Namespace) -> tuple[bytes, dict[str, tuple[int, ...]], str]:
    """The model, its inputs' shapes and the target."""
    _, model = cli.load_network(options.model)
    target = f"llvm -num-cores={options.threads}"
    return model.SerializeToString(), resolve_shapes(model.graph, {}), target


if __name__ == "__main__":
    raise SystemExit(main())
