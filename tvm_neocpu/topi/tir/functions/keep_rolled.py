"""Loops that LLVM must not unroll: reductions over register tiles of one vector.

LLVM unrolls a loop of fewer than 75 instructions two times and more. Then it loads the pixels of
both steps before it multiplies any. A pixel of a tile of one vector is multiplied once, so that two
steps of 14 accumulators want 28 registers more. AVX2 has 16, and 26 of 76 instructions went to the
stack (Zen 3, 256x28x28->256 3x3 of 32 groups: 620-1260 us, rolled 380-480). Tiles of two vectors
use a pixel twice and do not spill; for them unrolling is left to LLVM.

A loop's size decides, so a step is made large by intrinsics that leave no instruction:

    for ici: tile   ->   for ici: (llvm.fake.use(0); ..; llvm.fake.use(0); tile)
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import Evaluate, For, Stmt

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.topi.tir.loops.fake_use import fake_use
from tvm_neocpu.topi.tir.loops.rewrite_loops import (
    behind,
    opaque,
    rewrite_loops,
    with_body,
    without_mark,
)

ROLLED_KEY = "neocpu.rolled"
# LLVM's limits, in instructions: of a loop unrolled in part, of one that vanishes (-O3).
PARTIAL_LIMIT, FULL_LIMIT = 150, 300


def keep_rolled(
    sch: Schedule,
    step: LoopRV,
    pixels: int,
    vectors: int,
    unit: VectorUnit,
    temporaries: int = 0,
) -> None:
    """Mark the innermost loop of a reduction where two steps of its tile would spill.

    :func:`plant_fake_uses` acts once all is scheduled.
    """
    if unit.spills_unrolled(pixels, vectors, temporaries):
        sch.annotate(step, ROLLED_KEY, 1)


def plant_fake_uses(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The scheduled function with a large step in every marked loop; marks are removed."""

    def planted(loop: For, body: Stmt, _: tuple[For, ...]) -> For:
        if ROLLED_KEY not in loop.annotations:
            return with_body(loop, body)
        uses = [opaque("fake_use", Evaluate(call)) for call in fake_uses(int(loop.extent))]
        return without_mark(loop, ROLLED_KEY, behind(uses, body))

    return rewrite_loops(func, planted)


def fake_uses(extent: int) -> list[Expr]:
    """Instructions that make a loop of so many steps too large to be unrolled."""
    use = fake_use()
    return [] if use is None else [use] * max(PARTIAL_LIMIT // 2, FULL_LIMIT // max(2, extent))
