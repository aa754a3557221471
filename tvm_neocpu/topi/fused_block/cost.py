"""What the cost model says of a group, beside its layers one by one."""

from __future__ import annotations

import math

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.cost.ranking import predict_seconds as member_seconds
from tvm_neocpu.topi.cost.roofline import FORK_JOIN, L2_SHARE
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, Member, candidates, misfit

# Share of L3's bandwidth at which a core reads lines that lie in another core's L2 (Zen 3, two
# cores: 56x56 layers of MobileNet-v2 lose 40 us for 0.9 MB, 14x14 layers more for each byte).
FOREIGN_SHARE = 0.5


def best_block(depthwise: Member, project: Member, cpu: Cpu) -> FusedBlock | None:
    """The cheapest group of two layers; ``None`` where they do not fit together, where nothing
    that lies between them fits L2, or where they are predicted to be faster one by one."""
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


def predict_seconds(block: FusedBlock, cpu: Cpu) -> float:
    """Seconds of one run of the group on ``cpu.cores`` threads: one fork for both layers."""
    core = cpu.with_cores(1)
    work = sum(member_seconds(m.workload, m.config, core) - FORK_JOIN for m in block.chunked)
    share = math.ceil(block.chunks / cpu.cores) / block.chunks
    return work * share + FORK_JOIN


def apart_seconds(block: FusedBlock, cpu: Cpu) -> float:
    """Seconds of its layers one by one: the second reads what other cores have written."""
    members = (block.depthwise, block.project)
    seconds = sum(member_seconds(m.workload, m.config, cpu) for m in members)
    foreign = block.conv.out_bytes * (cpu.cores - 1) / cpu.cores**2
    cycles = foreign / (FOREIGN_SHARE * cpu.l3_bytes_per_cycle)
    return seconds + cycles / (cpu.ghz * 1e9)
