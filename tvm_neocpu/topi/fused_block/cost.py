"""What the cost model says of a group, beside its layers one by one."""

from __future__ import annotations

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.cost.ranking import predict_seconds as member_seconds
from tvm_neocpu.topi.cost.roofline import FORK_JOIN, L2_SHARE
from tvm_neocpu.topi.fused_block.geometry import (
    ITEM,
    FusedBlock,
    Member,
    candidate_rows,
    misfit,
)

# Cycles that a member's call takes: its arguments, the beginning and the end of its loops.
CALL_CYCLES = 30.0
# Share of L3's bandwidth that a core gets for lines that another core wrote and holds in its L2
# (Zen 3, two cores: 56x56 blocks of MobileNet-v2 lose some 100 us for 3.6 MB of such maps).
FOREIGN_SHARE = 0.5


def best_block(
    expand: Member | None, depthwise: Member, project: Member | None, cpu: Cpu
) -> FusedBlock | None:
    """The group's cheapest number of rows; ``None`` where the layers do not fit together, or no
    number of rows keeps what lies between them in L2."""
    if misfit(expand, depthwise, project) is not None:
        return None
    blocks = [
        FusedBlock(depthwise, expand, project, rows)
        for rows in candidate_rows(expand, depthwise, project)
    ]
    fitting = [block for block in blocks if block.band_bytes <= L2_SHARE * cpu.l2]
    return min(fitting, key=lambda block: predict_seconds(block, cpu), default=None)


def predict_seconds(block: FusedBlock, cpu: Cpu) -> float:
    """Seconds of one run of the group on ``cpu.cores`` threads."""
    bands = block.bands(cpu.cores)
    largest = max(len(block.group_range(band, cpu.cores)) for band in range(bands))
    chunks = block.conv.batch * bands
    share = -(-chunks // cpu.cores) * largest / (block.conv.batch * block.groups)
    core = cpu.with_cores(1)
    work = sum(
        (member_seconds(member.workload, member.config, core) - FORK_JOIN)
        * (_halo(block, cpu) if member is block.expand else 1.0)
        for member in block.members
    )
    cycles = _moved_bytes(block, cpu) / cpu.l2_bytes_per_cycle + CALL_CYCLES * _calls(block)
    return (work + cycles / (cpu.ghz * 1e9)) * share + _fork(cpu)


def apart_seconds(block: FusedBlock, cpu: Cpu) -> float:
    """Seconds of its layers one by one: each forks, and reads what other cores have written."""
    members = sum(member_seconds(m.workload, m.config, cpu) for m in block.members)
    members += len(block.members) * (_fork(cpu) - FORK_JOIN)
    maps = sum(member.workload.out_bytes for member in block.members[:-1])
    foreign = maps * (cpu.cores - 1) / cpu.cores / cpu.cores
    cycles = foreign / (FOREIGN_SHARE * cpu.l3_bytes_per_cycle)
    return members + cycles / (cpu.ghz * 1e9)


def _fork(cpu: Cpu) -> float:
    """One core forks nothing."""
    return FORK_JOIN if cpu.cores > 1 else 0.0


def _halo(block: FusedBlock, cpu: Cpu) -> float:
    """Rows that are expanded over the image's rows: neighbouring bands share some."""
    rows = 0
    for band in range(block.bands(cpu.cores)):
        groups = block.group_range(band, cpu.cores)
        rows += block.input_rows(groups[-1]).top - block.input_rows(groups[0]).base
    return rows / block.conv.height


def _moved_bytes(block: FusedBlock, cpu: Cpu) -> float:
    """What moves to the ring's beginning, read and written."""
    if block.expand is None:
        return 0.0
    rows = 0
    for band in range(block.bands(cpu.cores)):
        for group in block.group_range(band, cpu.cores)[1:]:
            kept = block.input_rows(group - 1).top - block.input_rows(group).base
            rows += max(0, kept)
    return 2.0 * ITEM * rows * block.conv.width * block.conv.in_channels * block.conv.batch


def _calls(block: FusedBlock) -> float:
    """Calls of members: of rows of tiles, of blocks, of groups."""
    expands = 0 if block.expand is None else block.conv.height // block.tile_rows * block.blocks
    projects = 0 if block.project is None else block.groups
    return block.conv.batch * (expands + block.groups * block.blocks + projects)
