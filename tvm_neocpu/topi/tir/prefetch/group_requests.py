"""Prefetches of short steps, once for several of them.

A step of 28 multiply-adds has room for a request, a step of 8 has none (Zen 3, 256x14x14->1024: 52
instructions for 16 multiply-adds, 1168 us; 80 for 32 with this, 1046 us). Where fewer lines than
steps are wanted, neighbouring steps ask for the same line again. So a group of steps asks once:

    for ici in range(64):                    for g in range(16):
        prefetch(line ici // 4)      ->          prefetch(line g)
        tile += ..ici..                          for s in range(4): tile += ..4 g + s..
"""

from __future__ import annotations

from math import prod

from tvm import tirx
from tvm.tirx import For, SeqStmt, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layout import largest_factor
from tvm_neocpu.topi.cost.roofline import LONG_STEP, MAX_GROUP
from tvm_neocpu.topi.tir.functions.keep_rolled import ROLLED_KEY
from tvm_neocpu.topi.tir.loops.affine import replaced
from tvm_neocpu.topi.tir.loops.loop_nests import innermost_block, loops_of
from tvm_neocpu.topi.tir.loops.rewrite_loops import behind, rewrite_loops, with_body, without_mark

# Note on a loop: how many different lines its requests ask for in all its steps.
LINES_KEY = "neocpu.requested_lines"


def with_requests(loop: For, key: str, requests: list[Stmt], body: Stmt, lines: int) -> For:
    """The loop with requests in front of its body, for so many lines; its mark ``key`` goes."""
    planted = without_mark(loop, key, behind(requests, body))
    if not requests:
        return planted
    known = int(planted.annotations.get(LINES_KEY, 0))
    return with_body(planted, planted.body, {**planted.annotations, LINES_KEY: max(known, lines)})


def group_requests(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """Rewrite the loops whose requests were noted; the notes are removed."""

    def grouped(loop: For, body: Stmt, _: tuple[For, ...]) -> For:
        if LINES_KEY not in loop.annotations:
            return with_body(loop, body)
        size = steps_in_group(loop, body, cpu)
        planted = without_mark(loop, LINES_KEY, body)
        return planted if size == 1 else _grouped(planted, size)

    return rewrite_loops(func, grouped)


def steps_in_group(loop: For, body: Stmt, cpu: Cpu) -> int:
    """How many steps share a request, so that every line is still asked for.

    One where the loop is kept rolled: LLVM spilled in a loop of two steps, and loops of few steps
    cost more than the requests.
    """
    extent, lines = int(loop.extent), int(loop.annotations[LINES_KEY])
    if ROLLED_KEY in loop.annotations or _multiply_adds(body, cpu) >= LONG_STEP:
        return 1
    if lines >= extent:
        return 1
    return largest_factor(extent, min(MAX_GROUP, extent // lines))


def _multiply_adds(body: Stmt, cpu: Cpu) -> int:
    update = innermost_block(body)
    assert update is not None
    lanes = cpu.lanes(str(update.block.writes[0].source.dtype))
    return prod(int(loop.extent) for loop in loops_of(body)) // lanes


def _grouped(loop: For, size: int) -> For:
    *requests, tile = loop.body
    group = tirx.Var("group", str(loop.loop_var.ty.dtype))
    step = tirx.Var("step", str(loop.loop_var.ty.dtype))
    first = group * size
    zero, count = (tirx.const(value, str(group.ty.dtype)) for value in (0, size))
    inner = For(
        step,
        zero,
        count,
        loop.kind,
        replaced(tile, {loop.loop_var: first + step}),
        annotations=loop.annotations,
    )
    asked = [replaced(request, {loop.loop_var: first}) for request in requests]
    outside = tirx.const(int(loop.extent) // size, str(group.ty.dtype))
    return For(group, zero, outside, loop.kind, SeqStmt([*asked, inner]))
