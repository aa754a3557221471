"""The proof: two plans of one network in fresh processes, timed in turns until it is clear."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, Protocol, TypeVar

from tvm_neocpu.core.accuracy.largest_error import largest_error
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.layer_group import LayerGroup
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.tuning.in_network.processes.machine import Lowering
from tvm_neocpu.tuning.in_network.processes.workers import BUILD_TIMEOUT, network_process
from tvm_neocpu.tuning.in_network.ratios import Ratio, combined, paired
from tvm_neocpu.tuning.measuring.child_process import ChildError, ChildProcess, Children

T = TypeVar("T")
SLOT = "plan"
# Turns of each plan, and what one turn takes: the first inference of a turn is not counted.
# Turns of 50 ms are as sure as turns of 150 ms (Zen 4, MobileNet-v1 and MNASNet: 0.15 to 0.23 %
# after 6 s of either), and more of them show sooner that a plan is slower.
MIN_TURNS, MAX_TURNS = 8, 60
TURN_SECONDS, MIN_RUNS = 0.05, 3
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


class Opponent(Protocol):
    """One plan of a pair."""

    def outputs(self) -> Any:
        """The results of one inference; raises ChildError."""

    def burst(self, count: int) -> list[float]:
        """Seconds of whole inferences in a row; raises ChildError."""


# The incumbent and the contender.
Pair = tuple[Opponent, Opponent]


# What one pair of fresh processes shows, so many pairs must show together, and more if these leave
# it open and there is time: a process keeps its data where the system happened to put it.
PAIRS, MOST_PAIRS = 3, 6
# How far a pair is off, as a log, though it be sure of its own ratio to 0.3 %. Zen 4, other
# processes stopped: 15 pairs of equal builds of five networks had ratios of 0.96 to 1.06, and nine
# pairs of a plan that three had proven 1.3 % faster have the median 0.996. Three pairs that agree
# by chance do not show it.
PAIR_ERROR = 0.01
# The least gain that so many pairs show, as a log, and the chance of it that is worth more pairs,
# in standard errors: one in ten.
PROVABLE = 3 * PAIR_ERROR / math.sqrt(MOST_PAIRS)
WORTH = 1.28


def prove(
    open_pair: Callable[[], AbstractContextManager[Pair]], seconds: float = math.inf
) -> Proof:
    """Compare two plans for at most about ``seconds``, builds included; raises ChildError.

    Where the first pair finds the contender faster, others are opened, though the time be over. A
    pair that dies behind the third one leaves open what these left open.
    """
    deadline = time.monotonic() + seconds
    proofs: list[Proof] = []
    while len(proofs) < MOST_PAIRS:
        try:
            with open_pair() as pair:
                proofs.append(_compared(pair, deadline))
        except ChildError:
            if len(proofs) < PAIRS:
                raise
            break
        if not proofs[0].faster or proofs[-1].ratio.log >= 0:
            break
        if _hopeless([proof.ratio.log for proof in proofs]):
            break
        if len(proofs) < PAIRS:
            continue
        if _together(proofs).faster or time.monotonic() > deadline:
            break
    return _together(proofs)


def _hopeless(logs: Sequence[float]) -> bool:
    """Whether the mean of all pairs is hardly going to show a gain, as these say."""
    still = PAIR_ERROR * math.sqrt(1 / len(logs) - 1 / MOST_PAIRS)
    return fmean(logs) - WORTH * still > -PROVABLE


def _together(proofs: Sequence[Proof]) -> Proof:
    """What several pairs show."""
    ratio = combined([proof.ratio for proof in proofs])
    if len(proofs) > 1:
        ratio = replace(ratio, error=max(ratio.error, PAIR_ERROR / math.sqrt(len(proofs))))
    return Proof(
        ratio,
        max(proof.error for proof in proofs),
        median(proof.incumbent_seconds for proof in proofs),
        median(proof.contender_seconds for proof in proofs),
    )


def _compared(pair: Pair, deadline: float) -> Proof:
    """Turns of one pair, until their ratio is clear or the time is over."""
    times: tuple[list[float], list[float]] = ([], [])
    error = largest_error(pair[1].outputs(), pair[0].outputs())
    runs = max(MIN_RUNS, int(TURN_SECONDS / min(pair[0].burst(3))))
    while len(times[0]) < MAX_TURNS:
        # The order changes from turn to turn, so that neither always comes after the other.
        for index in (0, 1) if len(times[0]) % 2 else (1, 0):
            times[index].append(median(pair[index].burst(runs)))
        if len(times[0]) < MIN_TURNS:
            continue
        if is_clear(paired(times[1], times[0])) or time.monotonic() > deadline:
            break
    return Proof(paired(times[1], times[0]), error, median(times[0]), median(times[1]))


# The outputs of the network under a plan.
Compute = Callable[[Plan], Any]


def find_wrong(
    compute: Compute, graph: ConvGraph, right: Plan, wrong: Plan
) -> list[tuple[Workload, Config]]:
    """The candidate of ``wrong`` that makes the outputs differ; empty if none does alone.

    Each step computes the network with half of the suspects and ``right``'s configs elsewhere.
    """
    suspects = list(
        dict.fromkeys(
            (node.workload, wrong.configs[node.id])
            for node in graph.convs
            if node.workload is not None and wrong.configs[node.id] != right.configs[node.id]
        )
    )
    wanted = compute(right)

    def differs(half: Sequence[tuple[Workload, Config]]) -> bool:
        return largest_error(compute(_mixed(graph, right, wrong, half)), wanted) > SAME_ANSWER

    return list(_culprit(suspects, differs))


def _mixed(
    graph: ConvGraph, right: Plan, wrong: Plan, suspects: Sequence[tuple[Workload, Config]]
) -> Plan:
    """``right`` with the suspects' configs where ``wrong`` has them, each layer by itself."""
    configs = {
        node.id: wrong.configs[node.id]
        if (node.workload, wrong.configs[node.id]) in suspects
        else right.configs[node.id]
        for node in graph.convs
    }
    return replace(right, configs=configs, groups=())


def find_wrong_groups(compute: Compute, right: Plan, wrong: Plan) -> tuple[LayerGroup, ...]:
    """The group of ``wrong`` that makes the outputs differ, though its layers one by one do not.

    Empty if no group is wrong alone, as where a layer is (:func:`find_wrong`).
    """
    if not wrong.groups:
        return ()
    wanted = compute(right)

    def differs(groups: Sequence[LayerGroup]) -> bool:
        built = compute(replace(wrong, groups=tuple(groups)))
        return largest_error(built, wanted) > SAME_ANSWER

    return () if differs(()) else tuple(_culprit(wrong.groups, differs))


def _culprit(suspects: Sequence[T], differs: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """The suspect that makes the outputs differ, found by halves; empty if none does alone."""
    while len(suspects) > 1:
        half = suspects[: len(suspects) // 2]
        suspects = half if differs(half) else suspects[len(half) :]
    return suspects if suspects and differs(suspects) else ()


def is_clear(ratio: Ratio) -> bool:
    """Whether more turns of a pair would change nothing: faster for sure, not by a share that
    counts, or known far better than to what another pair would say.

    How much slower a plan is need not be known.
    """
    return ratio.is_below_one or not may_gain(ratio) or ratio.error <= PAIR_ERROR / 3


def may_gain(ratio: Ratio) -> bool:
    """Whether a plan may be faster by as much as several pairs could show."""
    return math.log(ratio.low) < -PROVABLE


@contextmanager
def fresh_pair(open_network: Callable[[], Lowering], plans: tuple[Plan, Plan]) -> Iterator[Pair]:
    """Two plans in a fresh process each; raises ChildError."""
    children, pool = Children(), ThreadPoolExecutor(2)
    try:
        futures = [pool.submit(_built, children, open_network, plan) for plan in plans]
        first, second = (_Fresh(future.result()) for future in futures)
        yield first, second
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        children.end()


@contextmanager
def computing(open_network: Callable[[], Lowering]) -> Iterator[Compute]:
    """The outputs of any plan, from one fresh process; raises ChildError."""
    with network_process(open_network) as process:

        def compute(plan: Plan) -> Any:
            process.ask("build", SLOT, plan, timeout=BUILD_TIMEOUT)
            return process.ask("outputs", SLOT)

        yield compute


@dataclass(frozen=True)
class _Fresh:
    process: ChildProcess

    def outputs(self) -> Any:
        return self.process.ask("outputs", SLOT)

    def burst(self, count: int) -> list[float]:
        seconds: list[float] = self.process.ask("burst", SLOT, count, timeout=BUILD_TIMEOUT)
        return seconds


def _built(children: Children, open_network: Callable[[], Lowering], plan: Plan) -> ChildProcess:
    process = network_process(open_network, children.start)
    process.ask("build", SLOT, plan, timeout=BUILD_TIMEOUT)
    return process
