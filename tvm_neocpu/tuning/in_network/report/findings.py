"""What a session found out, for the log: nobody need search for it again."""

from __future__ import annotations

import time

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.verdict import KEPT, Settled, Verdict
from tvm_neocpu.tuning.database.lines.plan_lines import plan_digest
from tvm_neocpu.tuning.in_network.processes.verify import Proof
from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.in_network.rounds.board import Board


def verdict_of(
    board: Board,
    graph: ConvGraph,
    cpu: Cpu,
    plan: Plan,
    proof: Proof | None,
    network: str,
    seconds: float,
) -> Verdict:
    """The verdict on a network; ``seconds`` is what the session was given, or took."""
    now = time.time()
    won = proof is not None and proof.faster
    before = proof.ratio if proof is not None else Ratio(0.0, 0.0)
    return Verdict(
        graph=graph.hash,
        cpu=cpu.name,
        threads=cpu.cores,
        plan=plan_digest(plan, cpu.name, cpu.cores) if won else KEPT,
        ratio=1 / before.value,
        low=1 / before.high,
        high=1 / before.low,
        candidates=board.measured,
        settled=_settled(board, cpu, now),
        timestamp=now,
        network=network,
        features=cpu.features,
        seconds=seconds,
        complete=board.settled_for_good,
    )


def _settled(board: Board, cpu: Cpu, now: float) -> tuple[Settled, ...]:
    """The layers that no other session need look at."""
    return tuple(
        Settled(
            seat.workload,
            cpu.name,
            cpu.cores,
            seat.promised(),
            len(seat.estimates),
            now,
            cpu.features,
        )
        for seat in board.seats.values()
        if seat.settled_for_good
    )
