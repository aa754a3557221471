"""What the cost model says of a group, beside its layers one by one."""

from __future__ import annotations

import math

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.conv2d_direct.geometry import DirectGeometry
from tvm_neocpu.topi.cost.ranking import predict_seconds as member_seconds
from tvm_neocpu.topi.cost.roofline import L2_SHARE
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, Member, candidates, misfit

# Cycles that a core waits for a line which another core has written and still holds in its L2. Zen
# 3, two cores, MobileNet-v2: the 1x1 layers at 14x14 wait 40 to 130, depending on the machine's
# mood; lines that have left for L3 cost 10.
FOREIGN_L2_CYCLES, FOREIGN_L3_CYCLES = 40.0, 10.0


def best_block(depthwise: Member, project: Member, cpu: Cpu) -> FusedBlock | None:
    """The cheapest group of two layers, whose rows between them fit L2.

    ``None`` where they do not fit together, and where they are predicted to be faster one by one.
    """
    if misfit(depthwise, project) is not None:
        return None
    fitting = [
        block
        for block in candidates(depthwise, project)
        if block.between_bytes <= L2_SHARE * cpu.l2
    ]
    best = min(fitting, key=lambda block: predict_seconds(block, cpu), default=None)
    if best is None or predict_seconds(best, cpu) >= apart_seconds(best, cpu):
        return None
    return best


def saved_share(block: FusedBlock, cpu: Cpu) -> float:
    """What the group saves, as a share of the time of its layers one by one."""
    return 1 - predict_seconds(block, cpu) / apart_seconds(block, cpu)


def predict_seconds(block: FusedBlock, cpu: Cpu) -> float:
    """Seconds of one run of the group on ``cpu.cores`` threads: one fork for both layers."""
    core = cpu.with_cores(1)
    work = sum(member_seconds(m.workload, m.config, core) - cpu.fork_join for m in block.chunked)
    share = math.ceil(block.chunks / cpu.cores) / block.chunks
    return work * share + cpu.fork_join


def apart_seconds(block: FusedBlock, cpu: Cpu) -> float:
    """Seconds of its layers one by one: the second reads what other cores have written.

    The first splits its work by blocks of channels, the second by rows and maybe by its own
    channels: then more than one core reads a row.
    """
    members = (block.depthwise, block.project)
    seconds = sum(member_seconds(m.workload, m.config, cpu) for m in members)
    reader = DirectGeometry(block.project.workload, block.project.config)
    rows = math.ceil(reader.chunks / cpu.cores) / (reader.conv.batch * reader.row_chunks)
    read = min(1.0, rows)
    lines = block.conv.out_bytes / cpu.line * read * (cpu.cores - 1) / cpu.cores
    in_l2 = block.conv.out_bytes / cpu.cores <= cpu.l2
    cycles = lines * (FOREIGN_L2_CYCLES if in_l2 else FOREIGN_L3_CYCLES)
    return seconds + cycles / (cpu.ghz * 1e9)
