"""Layout transforms between NCHW and NCHW[x]c: compute and schedule."""

from __future__ import annotations

from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig, contiguous_run
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.transpose import mark, side_of

MOVE = "layout_transform"


def compute(data: te.Tensor, move: TransformWorkload, config: TransformConfig) -> te.Tensor:
    """``data`` as stored in blocks of ``before``; returns it in blocks of ``after``."""
    before, after = move.before, move.after

    def element(n, o, y, x, *inner):
        channel = o * after + inner[0] if after else o
        if before:
            return data[n, channel // before, y, x, channel % before]
        return data[n, channel, y, x]

    return te.compute(move.out_shape, element, name=MOVE, attrs=anchor_attrs(move, config))


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """# to and from NCHW: tiles of pixels x channels, turned in registers

    # between blocks: parallel n_y_o: for x: vectors of the longest run that both keep together
    """
    move = anchor.workload
    output = steps.inline_epilogue(sch, anchor.block)
    if _turn(sch, output, move, cpu):
        return output
    loops = sch.get_loops(output)
    if not move.after:
        # Too few pixels or channels for a tile: a row of pixels, each from another vector.
        steps.parallel_fused(sch, *loops[:3])
        return output
    runs, lanes = steps.split_off(sch, loops[4], contiguous_run(move))
    steps.unroll_all(sch, runs)
    steps.vectorize_lanes(sch, lanes, cpu.unit(move.types.data))
    steps.parallel_fused(sch, *steps.rows_outside(sch, output, loops[:3], cpu))
    return output


def _turn(sch: Schedule, output: SBlockRV, move: TransformWorkload, cpu: Cpu) -> bool:
    """# for n, o, yx, i: y[n, o, yx, i] = x[n, o * 16 + i, yx], and the way back.

    Blocks of one channel are plain. Declines moves between blocks, and images and blocks that are
    smaller than a tile.
    """
    to_plain = move.after <= 1
    if to_plain == (move.before <= 1):
        return False
    block, dtype = max(move.before, move.after), move.types.data
    side = side_of(min(block, move.height * move.width), dtype, cpu.unit(dtype))
    if side is None:
        return False
    batch, channels, rows, columns, *lanes = sch.get_loops(output)
    if to_plain:
        channels, lane = steps.split_off(sch, channels, block)
        outside = [batch, channels, *lanes]
    else:
        (lane,) = lanes
        outside = [batch, channels]
    pixels = sch.fuse(rows, columns)
    across, along = (lane, pixels) if to_plain else (pixels, lane)
    sch.reorder(*outside, across, along)
    mark(sch, outside, across, side, parallel=True)
    return True
