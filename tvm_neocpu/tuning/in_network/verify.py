"""The proof: two plans of one network in fresh processes, timed in turns until it is clear."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from tvm_neocpu.core.child_process import ChildProcess
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.largest_error import largest_error
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.tuning.in_network.machine import Lowering, NetworkMachine
from tvm_neocpu.tuning.in_network.ratios import Ratio, paired
from tvm_neocpu.tuning.in_network.workers import BUILD_TIMEOUT, PAUSE_SECONDS, START_TIMEOUT

SLOT = "plan"
# Turns of each plan, and what one turn takes: the first inference of a turn is not counted.
MIN_TURNS, MAX_TURNS = 8, 60
TURN_SECONDS, MIN_RUNS = 0.15, 3
# An interval this narrow around 1 says that the plans are equally fast.
EQUAL = 0.005
# Of the largest output. Winograd's 4x4 outputs err below 4e-5 of it.
SAME_ANSWER = 1e-3


@dataclass(frozen=True)
class Proof:
    """``ratio`` is the contender's time over the incumbent's; ``error`` that of its outputs."""

    ratio: Ratio
    error: float
    incumbent_seconds: float
    contender_seconds: float

    @property
    def right(self) -> bool:
        """Whether the contender computes what the incumbent computes."""
        return self.error <= SAME_ANSWER

    @property
    def faster(self) -> bool:
        """Whether the contender is right, and clearly faster."""
        return self.right and self.ratio.is_below_one


def prove(
    open_network: Callable[[], Lowering],
    incumbent: Plan,
    contender: Plan,
    threads: int,
    seconds: float = math.inf,
) -> Proof:
    """Compare two plans for at most about ``seconds``, builds included; raises ChildError."""
    deadline = time.monotonic() + seconds
    pause = PAUSE_SECONDS if threads > 1 else 0.0
    with ExitStack() as stack:
        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(_built, open_network, plan) for plan in (incumbent, contender)]
        processes = [stack.enter_context(future.result()) for future in futures]
        error = largest_error(processes[1].ask("outputs", SLOT), processes[0].ask("outputs", SLOT))
        runs = max(MIN_RUNS, int(TURN_SECONDS / min(processes[0].ask("burst", SLOT, 3))))
        times: tuple[list[float], list[float]] = ([], [])
        while len(times[0]) < MAX_TURNS:
            # The order changes from turn to turn, so that neither always comes after the other.
            for index in (0, 1) if len(times[0]) % 2 else (1, 0):
                time.sleep(pause)
                burst = processes[index].ask("burst", SLOT, runs, timeout=BUILD_TIMEOUT)
                times[index].append(median(burst))
            if len(times[0]) < MIN_TURNS:
                continue
            ratio = paired(times[1], times[0])
            if is_clear(ratio) or time.monotonic() > deadline:
                break
    ratio = paired(times[1], times[0])
    return Proof(ratio, error, median(times[0]), median(times[1]))


def find_wrong(
    open_network: Callable[[], Lowering], graph: ConvGraph, right: Plan, wrong: Plan
) -> list[tuple[Workload, Config]]:
    """The candidate of ``wrong`` that makes the outputs differ; empty if none does alone.

    Each step builds the network with half of the suspects and ``right``'s configs elsewhere.
    """
    suspects = list(
        dict.fromkeys(
            (node.workload, wrong.configs[node.id])
            for node in graph.convs
            if node.workload is not None and wrong.configs[node.id] != right.configs[node.id]
        )
    )
    with _built(open_network, right) as process:
        wanted = process.ask("outputs", SLOT)

        def differs(half: list[tuple[Workload, Config]]) -> bool:
            process.ask("build", SLOT, _mixed(graph, right, wrong, half), timeout=BUILD_TIMEOUT)
            return largest_error(process.ask("outputs", SLOT), wanted) > SAME_ANSWER

        while len(suspects) > 1:
            half = suspects[: len(suspects) // 2]
            suspects = half if differs(half) else suspects[len(half) :]
        return suspects if suspects and differs(suspects) else []


def _mixed(
    graph: ConvGraph, right: Plan, wrong: Plan, suspects: list[tuple[Workload, Config]]
) -> Plan:
    """``right`` with the suspects' configs where ``wrong`` has them."""
    configs = {
        node.id: wrong.configs[node.id]
        if (node.workload, wrong.configs[node.id]) in suspects
        else right.configs[node.id]
        for node in graph.convs
    }
    return replace(right, configs=configs)


def is_clear(ratio: Ratio) -> bool:
    """Whether more turns would change nothing: clear of 1, or as good as 1."""
    equal = ratio.low > 1 - EQUAL and ratio.high < 1 + EQUAL
    return ratio.is_below_one or ratio.is_above_one or equal


def _built(open_network: Callable[[], Lowering], plan: Plan) -> ChildProcess:
    process = ChildProcess(partial(NetworkMachine, open_network), START_TIMEOUT)
    process.ask("build", SLOT, plan, timeout=BUILD_TIMEOUT)
    return process
