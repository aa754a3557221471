"""Layout transforms between NCHW and NCHW[x]c: compute, schedule, and what one costs unmeasured."""

from __future__ import annotations

import math

from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.config import TransformConfig
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.workload import TransformWorkload
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.cost.roofline import FORK_JOIN
from tvm_neocpu.topi.schedule import steps

MOVE = "layout_transform"
# A transform to or from plain NCHW loads or stores element by element; one between blocks moves
# whole vectors. Shares of the streaming bandwidth that they reach.
STRIDED, CONTIGUOUS = 0.15, 0.7


def accepts(move: TransformWorkload, cpu: Cpu) -> bool:
    """Blocks that divide the channels."""
    return all(Layout(block).fits(move.channels) for block in (move.before, move.after))


def space(move: TransformWorkload, cpu: Cpu) -> tuple[TransformConfig, ...]:
    return (TransformConfig(),)


def compute(data: te.Tensor, move: TransformWorkload, config: TransformConfig) -> te.Tensor:
    """``data`` as stored in blocks of ``before``; returns it in blocks of ``after``."""
    before, after = move.before, move.after

    def element(n, o, y, x, *inner):
        channel = o * after + inner[0] if after else o
        if before:
            return data[n, channel // before, y, x, channel % before]
        return data[n, channel, y, x]

    shape = Layout(after).shape_of(move.in_shape)
    return te.compute(shape, element, name=MOVE, attrs=anchor_attrs(move, config))


def schedule(sch: Schedule, anchor: Anchor) -> SBlockRV:
    """# parallel n_o_y: for x: vectors of the longest run that both layouts keep together."""
    move = anchor.workload
    output = steps.inline_epilogue(sch, anchor.block)
    loops = sch.get_loops(output)
    if not move.after:
        # Plain NCHW: a row of pixels, each from another vector.
        steps.parallel_fused(sch, *loops[:3])
        return output
    run = math.gcd(move.before, move.after) if move.before else move.after
    runs, lanes = steps.split_off(sch, loops[4], run)
    steps.unroll_all(sch, runs)
    steps.vectorize_lanes(sch, lanes)
    steps.parallel_fused(sch, *loops[:3])
    return output


def predict_seconds(move: TransformWorkload, config: TransformConfig, cpu: Cpu) -> float:
    """Bytes over the bandwidth of the level that holds the tensor; 0 where no element moves."""
    if move.is_free:
        return 0.0
    resident = move.moved_bytes < 0.5 * cpu.l3
    per_core = cpu.l3_bytes_per_cycle if resident else cpu.dram_bytes_per_cycle
    together = per_core * cpu.cores
    bandwidth = together if resident else min(together, cpu.dram_total_bytes_per_cycle)
    share = CONTIGUOUS if move.before and move.after else STRIDED
    return move.moved_bytes / (bandwidth * share) / (cpu.ghz * 1e9) + FORK_JOIN
