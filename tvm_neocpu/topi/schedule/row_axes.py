"""Which axes of a block are one row: those that are read one behind the other."""

from __future__ import annotations

from collections.abc import Sequence

from tvm.ir import Expr
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import BufferRegion, IntImm, IterVar, Var
from tvm_ffi import structural_equal

from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.tir.functions.memory_params import are_constant
from tvm_neocpu.topi.tir.loops.affine import chooses, uses


def run_of_reductions(sch: Schedule, block: SBlockRV) -> int:
    """How many of the last axes are reduced and read one behind the other, in whole rows."""
    found = sch.get(block)
    reduced = [axis for axis in found.iter_vars if int(axis.iter_type) == steps.REDUCE_AXIS]
    written = found.writes[0].source
    reads = [read for read in found.reads if not read.source.same_as(written)]
    return _run(reads, reduced, parts=False)


def run_of_elements(sch: Schedule, block: SBlockRV) -> int:
    """How many of the last axes are read and written one behind the other, in whole rows.

    Every tensor moves with all of them or with none (a bias): f(x[n, c, y, x], bias[c]) has 2. Of
    the first axis a part may be read, but not where a test chooses what, which each vector would
    make, and not of tensors of unknown extent: a test around the block may say which of its rows
    are there.
    """
    found = sch.get(block)
    regions, axes = (*found.reads, *found.writes), list(found.iter_vars)
    known = all(are_constant(region.source.shape) for region in regions)
    return _run(regions, axes, parts=known and not chooses(found.body))


def _run(regions: Sequence[BufferRegion], axes: Sequence[IterVar], parts: bool) -> int:
    """How many of the last axes are one row in each of the regions; at least one."""
    run = 1
    while run < len(axes) and all(_has_rows(region, axes[-run - 1 :], parts) for region in regions):
        run += 1
    return run


def _has_rows(accessed: BufferRegion, axes: Sequence[IterVar], parts: bool) -> bool:
    """Whether a region's last indices are these axes in full, or it moves with none of them.

    With ``parts`` it may be a part of the first axis: channels 128 to 255 of an image follow each
    other. A region of several elements is TVM's bound of a place that is a formula (a mirrored
    image).
    """
    last = list(zip(accessed.region, accessed.source.shape, strict=True))[-len(axes) :]
    whole = [
        axis.var.same_as(place.min) and structural_equal(axis.dom.extent, extent)
        for axis, (place, extent) in zip(axes, last, strict=False)
    ] or [False]
    follows = whole[0] or (parts and bool(last) and _moves_with(last[0][0].min, axes[0].var))
    if len(last) == len(axes) and follows and all(whole[1:]):
        return True
    if any(uses(place.min, axis.var) for place in accessed.region for axis in axes):
        return False
    return all(isinstance(place.extent, IntImm) and place.extent == 1 for place in accessed.region)


def _moves_with(place: Expr, var: Var) -> bool:
    """Whether a place is the axis, or so many elements behind it."""
    return place.same_as(var) or not uses(Analyzer().simplify(place - var), var)
