"""Taps of a convolution that read padding only: multiplied only where they read the image.

    for ico:                                for ico:
        for kh:                       ->        for kh:
            for kw, ici: acc += x * w               if a row that kh reads is of the image:
                                                        for kw, ici: acc += x * w

The padded image holds zeros there, so that nothing is missing.
"""

from __future__ import annotations

from dataclasses import astuple

from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import For, IfThenElse, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.conv2d_direct.taps import TapAxis
from tvm_neocpu.topi.tir.loops.affine import replaced
from tvm_neocpu.topi.tir.loops.loop_nests import innermost_block, loops_of
from tvm_neocpu.topi.tir.loops.rewrite_loops import (
    opaque,
    rewrite_loops,
    with_body,
    without_mark,
)

TAPS_KEY = "neocpu.taps"
# The name of the block that tests.
INSIDE = "inside"


def skip_taps(sch: Schedule, taps: LoopRV, place: int, axis: TapAxis) -> None:
    """Mark the loop over a kernel's rows or columns, if a tile needs not all of them;
    :func:`skip_padding` acts later.

    ``place``: which axis of the accumulator's block counts the output's rows or columns.
    """
    if axis.share < 1:
        sch.annotate(taps, TAPS_KEY, [place, *astuple(axis)])


def skip_padding(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with a test around the taps of every marked loop; marks are removed."""
    found = False

    def planted(loop: For, body: Stmt, _: tuple[For, ...]) -> Stmt:
        nonlocal found
        if TAPS_KEY not in loop.annotations:
            return with_body(loop, body)
        found = True
        return without_mark(loop, TAPS_KEY, opaque(INSIDE, IfThenElse(_inside(loop), body, None)))

    rewritten = rewrite_loops(func, planted)
    return rewritten if found else func


def keep_padding(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function without the marks, as it is: in a group, rows count from another one."""

    def unmarked(loop: For, body: Stmt, _: tuple[For, ...]) -> Stmt:
        return without_mark(loop, TAPS_KEY, body)

    return rewrite_loops(func, unmarked)


def _inside(loop: For) -> Expr:
    """Whether the tap reads a place of the image, for any pixel of the tile."""
    place, *fields = map(int, loop.annotations[TAPS_KEY])
    realize = innermost_block(loop.body)
    assert realize is not None, "a reduction ends in a block"
    pixel, inner = realize.iter_values[place], loops_of(loop.body)

    def of_tile(at_end: bool) -> Expr:
        ends = {each.loop_var: (int(each.extent) - 1) * at_end for each in inner}
        values = {var: tirx.const(value, str(var.ty.dtype)) for var, value in ends.items()}
        return replaced(pixel, values)

    return tirx.all(*TapAxis(*fields).meets(of_tile(False), of_tile(True), loop.loop_var))
